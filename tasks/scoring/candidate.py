"""The base class of candidates: what every kind must implement.

To add a kind, subclass `CandidateSettings`; its `open` returns a `Scorer`. The class is named in
`KINDS` of `biasgate.tasks.scoring.kinds.catalogue`, or by an installed package in its entry point
group `biasgate.candidates` (see docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from pydantic import Field, FiniteFloat, JsonValue

from bias_metrics.parts import reaches_cut
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import ConfigPath, Name, Settings
from biasgate.tasks.data.evaluation_set import WEIGHT, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Model
from biasgate.tasks.scoring.scored_set import ROWS_A_SHARD
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.scoring.training_rows import refuse_training_rows
from biasgate.tasks.signing.model_signature import read_model_key
from biasgate.tasks.store import Workplace

LogMetrics = Callable[[Mapping[str, float], int], None]
"""Called during training with metrics and their epoch."""


Version = Annotated[str, Field(min_length=1, default_factory=lambda: f"unversioned-{uuid4().hex}")]
"""A made-up version for a model that has none, so that none of its scores are reused.

A configuration is read once per run, and all tasks get the same settings, so they agree on the
made-up version.
"""


class CandidateSettings(Settings):
    """One candidate of a configuration; each kind adds its own options."""

    opened_with: ClassVar[frozenset[str] | None] = None
    """The options of `opened_as` with which a verdict may open a version again, as the champion;
    None if no verdict may choose this kind. None of them may make code run."""

    is_local: ClassVar[bool] = False
    """Whether it surely sends no comment to a service, so that nobody need open it to ask."""

    learns_weights: ClassVar[bool] = False
    """Whether `fit` regards the column `weight` of a training set."""

    name: Name
    """Name of the candidate, its folder in the output, its run in MLflow: at most 100 ASCII
    letters, digits, spaces and characters of `_.-`, starting with a letter or digit."""
    kind: str
    allow_two_valued: bool = False
    """Accept scores with only one or two values. Those are usually class labels that were logged
    instead of probabilities."""
    allow_training_rows: bool = False
    """Accept an evaluation set that shares rows with the training set. For the registered champion,
    set it under `champion:`."""
    threshold: FiniteFloat | None = None
    """The candidate flags a comment if its score is at least this. Errors there are reported, and
    judged by rules with `threshold: given`."""
    signed_by: ConfigPath | None = None
    """A public key on an elliptic curve (PEM). Its owner must have signed exactly the model's
    files, as OpenSSF model signing says; else they are not opened."""
    signature: ConfigPath | None = None
    """The file of that signature. Default: `model.sig` in the model's folder."""
    rows_a_shard: Annotated[int, Field(ge=1)] = ROWS_A_SHARD
    """Rows that are scored and saved together: the most held in memory, or lost by a kill. Choose
    fewer for a slow endpoint."""
    resources: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """On a Dask cluster: what workers need to score it, as in `{GPU: 1}`."""
    promote: bool = True
    """Whether it may become champion. False for a yardstick, such as a baseline that is trained
    here: it is judged and never promoted."""
    tags: tuple[str, ...] = ()
    """On a cluster: Prefect tags of the tasks that score it, for concurrency limits."""

    @property
    def uri(self) -> str | None:
        """The registered model behind it, `models:/NAME/VERSION` or with an alias; or None.

        This is the option `model`, in kinds that have it.
        """
        return getattr(self, "model", None)

    @property
    def scores_in_levels(self) -> bool:
        """Whether it is meant that scores have few values, even two."""
        return self.allow_two_valued

    def pinned(self, uri: str) -> Self:
        """Return the same candidate as a version in the registry."""
        return self.model_copy(update={"model": uri})

    def identity(self) -> Model:
        """Return its name, kind and model for reports and verdicts."""
        return Model(name=self.name, kind=self.kind, model=self.uri or None)

    @property
    def registered_model(self) -> str | None:
        """The registered model that an existing candidate is added to as a version."""
        return None

    def check(self) -> None:
        """Raise an error, before any work starts, if the settings cannot work."""

    def downloads(self) -> dict[str, int]:
        """Return what will be downloaded to open the candidate, and its size in bytes."""
        return {}

    def check_signed(self) -> None:
        """Refuse a demand for a signature that cannot be met, before any work starts."""
        if self.signed_by is None:
            if self.signature is not None:
                msg = f"`signature` of candidate {self.name!r} needs `signed_by`, the key."
                raise InputError(msg)
            return
        if self.training() is not None:
            msg = (
                f"`signed_by` of candidate {self.name!r} must be for an existing model; this "
                "candidate is trained here, so it is not signed."
            )
            raise InputError(msg)
        read_model_key(self.signed_by)

    def when_upside_down(self) -> tuple[str, str]:
        """Return the origin of the scores, and what to do if harmless comments score higher."""
        return f"candidate {self.name!r}", "let the model return the score of the toxic class"

    def open(self, workplace: Workplace) -> Scorer:
        """Load the candidate; only `opened` calls it."""
        raise NotImplementedError

    def opened(self, workplace: Workplace) -> Scorer:
        """Load the candidate, and refuse files without the signature that is demanded.

        No code of a model has run by then: the first `score` or `try_out` loads it.
        """
        with ExitStack() as stack:
            scorer = stack.enter_context(self.open(workplace))
            if self.signed_by is not None:
                scorer.require_signed(self.signed_by, self.signature, f"candidate {self.name!r}")
            stack.pop_all()
        return scorer

    def registered(self, workplace: Workplace) -> ModelVersion | None:
        """Return the registered version behind the candidate, if there is one."""
        del workplace
        return None

    def training(self) -> SourceSettings | None:
        """Return the training set of a candidate that is still to be trained here, else None."""
        return None

    def training_threshold(self) -> float:
        """Return the smallest fraction of raters that makes a training row positive."""
        source = self.training()
        return 0.5 if source is None else source.label_threshold

    def training_labels(self, training_set: EvaluationSet) -> np.ndarray:
        """Return whether each training row is positive, shape (n,).

        Raises
        ------
        InputError
            If the set has no text, or only one class.
        """
        self.require_text(training_set)
        made = training_set.record["source"].get("source")
        if made == "mitigated" and WEIGHT in training_set.columns and not self.learns_weights:
            msg = (
                f"candidate {self.name!r} of kind {self.kind} must learn from weighted rows, as "
                "method reweight makes them; this kind does not. Use another method."
            )
            raise InputError(msg)
        labels = reaches_cut(training_set.column("label").to_numpy(), self.training_threshold())
        if labels.all() or not labels.any():
            msg = (
                f"training set {training_set.name!r} of candidate {self.name!r} must have both "
                f"classes; all {labels.size} rows are {'positive' if labels.all() else 'negative'}."
            )
            raise InputError(msg)
        return labels

    def training_weights(self, training_set: EvaluationSet) -> np.ndarray | None:
        """Return the weight of each training row, shape (n,); None if they have none."""
        if WEIGHT not in training_set.columns:
            return None
        return np.asarray(training_set.column(WEIGHT).to_numpy())

    def refuse_unfit(self, evaluation_set: EvaluationSet, files: Path | None) -> None:
        """Refuse a set without text, and rows that the model in these files was trained on."""
        self.require_text(evaluation_set)
        if not self.allow_training_rows:
            refuse_training_rows(files, evaluation_set, self.name, self.uri)

    def require_text(self, evaluation_set: EvaluationSet | SourceSettings) -> None:
        """Refuse a set without text; for kinds that read text."""
        if not evaluation_set.has_text:
            msg = (
                f"evaluation set {evaluation_set.name!r} must have text for candidate "
                f"{self.name!r} of kind {self.kind}. Name its column with `text`."
            )
            raise InputError(msg)

    def opened_as(self) -> dict[str, JsonValue]:
        """Return the options to open the version behind it again, for its verdict."""
        return {"kind": "mlflow"}

    def training_key(self, training_set: EvaluationSet) -> str:
        """Digest of everything that affects the trained model."""
        raise NotImplementedError

    def fit(self, training_set: EvaluationSet, folder: Path, log: LogMetrics) -> None:
        """Train on a frozen set, log its progress, write an MLflow model folder."""
        raise NotImplementedError


def refuse_other_scale(name: str, threshold: float | None, scores: npt.NDArray[Any]) -> None:
    """Refuse a threshold outside 0 to 1 where all scores are inside."""
    if threshold is None or not scores.size or 0 <= threshold <= 1:
        return
    low, high = float(scores.min()), float(scores.max())
    if low >= 0 and high <= 1:
        msg = (
            f"`threshold` of {name!r} must be on the scale of its scores; it is {threshold:g}, "
            f"and they go from {low:.3g} to {high:.3g}. Candidates on different scales need a "
            "`threshold` each, in an evaluation file."
        )
        raise InputError(msg)
