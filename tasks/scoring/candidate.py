"""The base class of candidates.

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
"""Version of a model. The default is random, so that scores without a version are never reused.

A run reads its configuration once and passes the settings on, so all tasks use the same default.
"""


class CandidateSettings(Settings):
    """A candidate of a configuration; each kind adds its own options."""

    opened_with: ClassVar[frozenset[str] | None] = None
    """Options of `opened_as` with which a verdict may open a version as the champion. They may not
    make code run. None if a verdict may not choose this kind."""

    is_local: ClassVar[bool] = False
    """True if the kind never sends comments to a service."""

    learns_weights: ClassVar[bool] = False
    """True if `fit` uses the column `weight` of a training set."""

    name: Name
    """Name of the candidate, its folder in the output and its run in MLflow: at most 100 ASCII
    letters, digits, spaces and characters of `_.-`, starting with a letter or digit."""
    kind: str
    allow_two_valued: bool = False
    """Accept scores with only one or two values, which are usually class labels instead of
    probabilities."""
    allow_training_rows: bool = False
    """Accept an evaluation set that shares rows with the training set. For the registered champion,
    set it under `champion:`."""
    threshold: FiniteFloat | None = None
    """The candidate flags a comment if its score is at least this. Errors there are reported, and
    judged by rules with `threshold: given`."""
    signed_by: ConfigPath | None = None
    """A public key on an elliptic curve (PEM). Its owner must have signed exactly the model's files
    (OpenSSF model signing); otherwise the files are not opened."""
    signature: ConfigPath | None = None
    """The file of that signature. Default: `model.sig` in the model's folder."""
    rows_a_shard: Annotated[int, Field(ge=1)] = ROWS_A_SHARD
    """Rows that are scored and saved together, and lost together if a run is killed. Choose fewer
    to use less memory, or for a slow endpoint."""
    resources: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """On a Dask cluster: the resources that a worker needs for scoring, as in `{GPU: 1}`."""
    promote: bool = True
    """Allow the candidate to become champion. False for a reference, such as a baseline that is
    trained here: it is judged and never promoted."""
    tags: tuple[str, ...] = ()
    """On a cluster: Prefect tags of the candidate's scoring tasks, for concurrency limits."""

    @property
    def uri(self) -> str | None:
        """The option `model` of kinds that have it: `models:/NAME/VERSION`, or with an alias."""
        return getattr(self, "model", None)

    @property
    def has_score_levels(self) -> bool:
        """True if the scores may have as few as two values."""
        return self.allow_two_valued

    def pin_version(self, uri: str) -> Self:
        """Return the same candidate as a version in the registry."""
        return self.model_copy(update={"model": uri})

    def describe_model(self) -> Model:
        """Return name, kind and model for reports and verdicts."""
        return Model(name=self.name, kind=self.kind, model=self.uri or None)

    @property
    def registered_model(self) -> str | None:
        """The registered model to which a file of scores is added as a version."""
        return None

    def check(self) -> None:
        """Raise an error, before any work starts, if the settings cannot work."""

    def downloads(self) -> dict[str, int]:
        """Return the missing downloads that `open` needs: description to bytes."""
        return {}

    def check_signature(self) -> None:
        """Refuse, before any work starts, signature options that cannot be met."""
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

    def explain_inversion(self) -> tuple[str, str]:
        """Return the origin of scores that are higher for harmless comments, and the remedy."""
        return f"candidate {self.name!r}", "let the model return the score of the toxic class"

    def open(self, workplace: Workplace) -> Scorer:
        """Load the candidate; only `open_verified` calls this."""
        raise NotImplementedError

    def open_verified(self, workplace: Workplace) -> Scorer:
        """Load the candidate, and refuse files without the required signature.

        This runs no code of a model: the first `score` or `try_out` loads the model.
        """
        with ExitStack() as stack:
            scorer = stack.enter_context(self.open(workplace))
            if self.signed_by is not None:
                scorer.require_signature(self.signed_by, self.signature, f"candidate {self.name!r}")
            stack.pop_all()
        return scorer

    def registered(self, workplace: Workplace) -> ModelVersion | None:
        """Return the registered version of the candidate, if it exists."""
        del workplace
        return None

    def training(self) -> SourceSettings | None:
        """Return the training set of a candidate that is not trained yet."""
        return None

    def training_threshold(self) -> float:
        """Return the smallest fraction of raters that makes a training row positive."""
        source = self.training()
        return 0.5 if source is None else source.label_threshold

    def training_labels(self, training_set: EvaluationSet) -> np.ndarray:
        """Return the labels of the training rows, shape (n,), True for positive.

        Raises
        ------
        InputError
            If the set has no text or a single class, or has weights that the kind cannot use.
        """
        self.require_text(training_set)
        source = training_set.record["source"].get("source")
        if source == "mitigated" and WEIGHT in training_set.columns and not self.learns_weights:
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
        """Return the weights of the training rows, shape (n,); None without weights."""
        if WEIGHT not in training_set.columns:
            return None
        return np.asarray(training_set.column(WEIGHT).to_numpy())

    def refuse_unfit(self, evaluation_set: EvaluationSet, files: Path | None) -> None:
        """Refuse a set without text, or with training rows of the model in these files."""
        self.require_text(evaluation_set)
        if not self.allow_training_rows:
            refuse_training_rows(files, evaluation_set, self.name, self.uri)

    def require_text(self, evaluation_set: EvaluationSet | SourceSettings) -> None:
        """Refuse a set without text. Kinds that do not read text override this."""
        if not evaluation_set.has_text:
            msg = (
                f"evaluation set {evaluation_set.name!r} must have text for candidate "
                f"{self.name!r} of kind {self.kind}. Name its column with `text`."
            )
            raise InputError(msg)

    def opened_as(self) -> dict[str, JsonValue]:
        """Return the options that open the registered version again, for its verdict."""
        return {"kind": "mlflow"}

    def training_key(self, training_set: EvaluationSet) -> str:
        """Return a digest of everything that affects the trained model."""
        raise NotImplementedError

    def fit(self, training_set: EvaluationSet, folder: Path, log: LogMetrics) -> None:
        """Train on a frozen set, log its progress, write an MLflow model folder."""
        raise NotImplementedError


def refuse_other_scale(name: str, threshold: float | None, scores: npt.NDArray[Any]) -> None:
    """Refuse a threshold outside [0, 1] for scores that are all inside."""
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
