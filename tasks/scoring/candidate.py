"""The base classes of candidates: what every kind must implement.

To add a kind, subclass `CandidateSettings`; its `open` returns a `Scorer`. The class is named in
`KINDS` of `biasgate.tasks.scoring.kinds.catalogue`, or by an installed package in its entry point
group `biasgate.candidates` (see docs/extending.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pydantic import Field, FiniteFloat

from biasgate.tasks.common.errors import CandidateError, InputError
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.data.evaluation_set import WEIGHT, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Bound, Model
from biasgate.tasks.scoring.outcomes import Load, PartlyScored
from biasgate.tasks.scoring.shards import ROWS_A_SHARD
from biasgate.tasks.signing.manifest import Manifest, told
from biasgate.tasks.store import Workplace

LogMetrics = Callable[[Mapping[str, float], int], None]
"""Called during training with metrics and their epoch."""


Opened = TypeVar("Opened", bound="Scorer")


class Scorer(ABC):
    """An opened candidate, ready to score; close it after use.

    Whatever is expensive to create (a loaded model, processes, connections) is created by the
    first `score` or `try_out`: a candidate whose scores are all kept is opened only for its digest.

    Attributes
    ----------
    digest : str
        SHA-256 of everything that affects the scores: weights, preprocessing, precision, library.
        Kept scores are reused while it stays the same. A kind from another package includes that
        package's version: `json_digest([package, version(package), *options])`.
    precision : str
        Of the arithmetic: `float64`, `float32` or `bfloat16`.
    columns : tuple of str
        The columns of the evaluation set that `score` reads, `id` first.
    files : Path or None
        The folder, or the file, whose content decides the scores. A verdict records the digests
        of these files, and they may not change while they are scored.
    at_once : int
        How many threads may call `score` at a time. With two, rows are prepared and scores are
        written while a device computes others.
    not_bound : str or None
        What else decides the scores, in one sentence; None if nothing else does.
    is_metered : bool
        Whether comments go to a service on another machine that has a price or limits.
    """

    digest: str
    precision: str = "float64"
    columns: tuple[str, ...] = ("id", "text")
    files: Path | None = None
    is_metered: bool = False
    at_once: int = 1
    not_bound: str | None = "This kind of candidate does not say which files decide its scores."
    _resources: AbstractContextManager[Any] = nullcontext()

    @cached_property
    def manifest(self) -> Manifest | None:
        """The files as they were when this was first asked; None if there are none."""
        return None if self.files is None else Manifest.of(self.files, follow_links=True)

    @property
    def files_digest(self) -> str:
        """Digest of the files; `files` must be set."""
        assert self.manifest is not None  # noqa: S101 - a mistake in a kind, not in its input
        return self.manifest.digest

    @property
    def single_digest(self) -> str:
        """SHA-256 of the only file; `files` must be a file."""
        assert self.manifest is not None  # noqa: S101 - a mistake in a kind, not in its input
        [only] = self.manifest.files
        return only["sha256"]

    @property
    def bound(self) -> Bound:
        """What decides the scores, for the verdict."""
        if self.manifest is None:
            return {"what": "nothing", "digest": None, "files": [], "not_bound": self.not_bound}
        return {
            "what": "files",
            "digest": self.manifest.digest,
            "files": self.manifest.to_dict(),
            "not_bound": self.not_bound,
        }

    def refuse_changed(self) -> None:
        """Raise an error if the files are not those that the manifest names.

        Raises
        ------
        CandidateError
            With the names of the files.
        """
        if self.files is not None and self.manifest is not None:
            found = Manifest.of(self.files, follow_links=True)
            differ = self.manifest.differences(found)
            if differ:
                msg = (
                    f"files in {self.files} must not change while they are scored; got: "
                    f"{told(differ)}. Run again."
                )
                raise CandidateError(msg)

    def keep(self, resources: AbstractContextManager[Any]) -> None:
        """Hand over what is to be released after use, such as a folder with downloaded files."""
        self._resources = resources

    @abstractmethod
    def check(self, evaluation_set: EvaluationSet) -> None:
        """Raise an error, before any work starts, if a set cannot be scored."""

    def try_out(self) -> None:  # noqa: B027 - most kinds fail when opened
        """Raise the errors that show only once the model is loaded.

        Called before any candidate scores, unless all scores are kept or other machines score.
        """

    def load_of(self, texts: Sequence[str]) -> Load:
        """Return what it takes to score texts, if this is a metered service."""
        raise NotImplementedError

    @abstractmethod
    def score(self, rows: pa.RecordBatch) -> np.ndarray | PartlyScored:
        """Return one score per row, shape (n,), higher for more toxic.

        A model that refuses some comments returns `PartlyScored`. No score may be made up.
        """

    def close(self) -> None:  # noqa: B027 - most kinds hold nothing
        """Release what `score` created."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._resources:
            self.close()


def open_version(
    version: ModelVersion, workplace: Workplace, make: Callable[[Path], Opened]
) -> Opened:
    """Return the scorer that `make` opens from a copy of a version's files.

    The copy is removed when the scorer is closed, or if it cannot be opened.
    """
    with ExitStack() as stack:
        scorer = make(stack.enter_context(workplace.gateway.downloaded(version)))
        scorer.keep(stack.pop_all())
    return scorer


def _unversioned() -> str:
    return f"unversioned-{uuid4().hex}"


Version = Annotated[str, Field(min_length=1, default_factory=_unversioned)]
"""A made-up version for a model that has none, so that none of its scores are reused.

A configuration is read once per run, and all tasks get the same settings, so they agree on the
made-up version.
"""


class CandidateSettings(Settings):
    """One candidate of a configuration; each kind adds its own options.

    Attributes
    ----------
    name : str
        Name of the candidate: its folder in the output, its run in MLflow.
    allow_two_valued : bool
        Accept scores with only one or two values. Those are usually class labels that were
        logged instead of probabilities.
    allow_training_rows : bool
        Accept an evaluation set that shares rows with the training set.
    threshold : float, optional
        The candidate flags a comment if score >= threshold; its errors there are reported.
    rows_a_shard : int
        Rows that are scored and saved together: the most held in memory, or lost by a kill.
    resources : dict
        On a Dask cluster: what workers need to score it, as in `{GPU: 1}`.
    tags : list of str
        On a cluster: Prefect tags of the tasks that score it, for concurrency limits.
    """

    opened_with: ClassVar[frozenset[str] | None] = None
    """The options of `opened_as` with which a verdict may open a version again, as the champion;
    None if no verdict may choose this kind. None of them may make code run."""

    learns_weights: ClassVar[bool] = False
    """Whether `fit` regards the column `weight` of a training set."""

    name: Name
    kind: str
    allow_two_valued: bool = False
    allow_training_rows: bool = False
    threshold: FiniteFloat | None = None
    rows_a_shard: Annotated[int, Field(ge=1)] = ROWS_A_SHARD
    resources: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()

    @property
    def uri(self) -> str | None:
        """The registered model behind it, `models:/NAME/VERSION` or with an alias; or None.

        This is the option `model`, in kinds that have it.
        """
        return getattr(self, "model", None)

    def pinned(self, uri: str) -> Self:
        """Return the same candidate as a version in the registry."""
        return self.model_copy(update={"model": uri})

    def with_seed(self, seed: int) -> Self:
        """Return the same candidate, whose training draws by another seed if it draws at all."""
        del seed
        return self

    def identity(self) -> Model:
        """Return its name, kind and model for reports and verdicts."""
        known: Model = {"name": self.name, "kind": self.kind}
        if self.uri:
            known["model"] = self.uri
        return known

    @property
    def registered_model(self) -> str | None:
        """The registered model that an existing candidate is added to as a version."""
        return None

    def check(self) -> None:
        """Raise an error, before any work starts, if the settings cannot work."""

    def check_training(self) -> None:
        """Raise an error, before any work starts, if this process cannot train the candidate."""

    def when_upside_down(self) -> tuple[str, str]:
        """Return the origin of the scores, and what to do if harmless comments score higher."""
        return f"candidate {self.name!r}", "let the model return the score of the toxic class"

    def open(self, workplace: Workplace) -> Scorer:
        """Load the candidate."""
        raise NotImplementedError

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
        labels = training_set.column("label").to_numpy() >= self.training_threshold()
        if labels.all() or not labels.any():
            msg = (
                f"training set {training_set.name!r} of candidate {self.name!r} must have both "
                f"classes; all {labels.size} rows are {'positive' if labels.all() else 'negative'}."
            )
            raise InputError(msg)
        return np.asarray(labels)

    def training_weights(self, training_set: EvaluationSet) -> np.ndarray | None:
        """Return the weight of each training row, shape (n,); None if they have none."""
        if WEIGHT not in training_set.columns:
            return None
        return np.asarray(training_set.column(WEIGHT).to_numpy())

    def require_text(self, evaluation_set: EvaluationSet | SourceSettings) -> None:
        """Refuse a set without text; for kinds that read text."""
        if not evaluation_set.has_text:
            msg = (
                f"evaluation set {evaluation_set.name!r} must have text for candidate "
                f"{self.name!r} of kind {self.kind}. Name its column with `text`."
            )
            raise InputError(msg)

    def opened_as(self) -> dict[str, Any]:
        """Return the options to open the version behind it again, for its verdict."""
        return {"kind": "mlflow"}

    def training_key(self, training_set: EvaluationSet) -> str:
        """Digest of everything that affects the trained model."""
        raise NotImplementedError

    def fit(self, training_set: EvaluationSet, folder: Path, log: LogMetrics) -> None:
        """Train on a frozen set, log its progress, write an MLflow model folder."""
        raise NotImplementedError

    def fit_to_score(self, training_set: EvaluationSet, folder: Path) -> Scorer:
        """Train, and return a scorer; the model is not kept. For experiments."""
        self.fit(training_set, folder, lambda *_: None)
        return self.open_fitted(folder)

    def open_fitted(self, folder: Path) -> Scorer:
        """Open a folder that `fit` wrote, before it is registered; for experiments."""
        del folder
        msg = (
            f"candidate {self.name!r} must be of a kind that experiments can open; got {self.kind}."
        )
        raise InputError(msg)
