"""The seam of candidates: what every kind of candidate promises.

A further kind is a subclass of `CandidateSettings` whose `open` returns a `Scorer`. It is named in
`KINDS` of `biasgate.tasks.scoring.kinds.catalogue`, or by an installed package in its entry point
group `biasgate.candidates` (see docs/extending.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pydantic import Field, FiniteFloat

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Model
from biasgate.tasks.scoring.shards import ROWS_A_SHARD
from biasgate.tasks.store import Workplace

LogMetrics = Callable[[Mapping[str, float], int], None]
"""Gets metrics of a training while it runs, and the epoch that they are of."""


class Scorer(ABC):
    """An opened candidate, ready to score; to be closed after use.

    What is dear to make (a loaded model, processes, connections) is made by the first `score`
    or `try_out`: a candidate whose scores are all kept is opened for its digest alone.

    Attributes
    ----------
    digest : str
        SHA-256 over all that decides the scores: weights, preprocessing, precision, library.
        Kept scores are reused while it stays the same. A kind of another package includes that
        package's version: `json_digest([package, version(package), *options])`.
    precision : str
        Of the arithmetic: `float64`, `float32` or `bfloat16`.
    columns : tuple of str
        The columns of the evaluation set that `score` reads, `id` first.
    """

    digest: str
    precision: str = "float64"
    columns: tuple[str, ...] = ("id", "text")

    @abstractmethod
    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set that cannot be scored, before any work."""

    def try_out(self) -> None:  # noqa: B027 - most kinds find out as they are opened
        """Refuse what only shows once it is loaded; called before any candidate scores.

        It is not called where all scores are kept, or other machines score.
        """

    @abstractmethod
    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return one score per row, shape (n,), higher for more toxic."""

    def close(self) -> None:  # noqa: B027 - most kinds hold nothing
        """Give back what `score` made."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unversioned() -> str:
    return f"unversioned-{uuid4().hex}"


Version = Annotated[str, Field(min_length=1, default_factory=_unversioned)]
"""What stands for a model that cannot be looked into; without one, nothing is reused.

A configuration is read once a run, and its settings are handed on as they are, so that all tasks
agree on what was made up.
"""


class CandidateSettings(Settings):
    """One candidate of a configuration; each kind adds its own options.

    Attributes
    ----------
    name : str
        Name of the candidate: its folder in the output, its run in MLflow.
    allow_two_valued : bool
        Accept scores of only one or two values. They are usually class labels logged
        instead of probabilities.
    allow_training_rows : bool
        Accept an evaluation set that shares rows with the training set.
    threshold : float, optional
        Where the candidate flags a comment, score >= threshold; its errors there are reported.
    rows_a_shard : int
        Rows that are scored and kept together: held in memory, and lost to a kill, at most.
    resources : dict
        On a Dask cluster: what workers must have to score it, as `{GPU: 1}`.
    tags : list of str
        On a cluster: Prefect tags of the tasks that score it, for concurrency limits.
    """

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
        """The model in the registry that it is, `models:/NAME/VERSION` or with an alias; or None.

        It is the option `model` of the kinds that have one.
        """
        return getattr(self, "model", None)

    def pinned(self, uri: str) -> Self:
        """Return the same candidate as a version in the registry."""
        return self.model_copy(update={"model": uri})

    def identity(self) -> Model:
        """Return what reports and verdicts call it."""
        known: Model = {"name": self.name, "kind": self.kind}
        if self.uri:
            known["model"] = self.uri
        return known

    @property
    def registered_model(self) -> str | None:
        """The registered model of which a candidate that exists already becomes a version."""
        return None

    def check(self) -> None:
        """Refuse what can be refused before any work."""

    def when_upside_down(self) -> tuple[str, str]:
        """Say where scores come from, and what to do if they are high for harmless comments."""
        return f"candidate {self.name!r}", "let the model return the score of the toxic class"

    def open(self, workplace: Workplace) -> Scorer:
        """Load the candidate."""
        raise NotImplementedError

    def registered(self, workplace: Workplace) -> ModelVersion | None:
        """Return the registered version behind the candidate, if there is one."""
        del workplace
        return None

    def training(self) -> SourceSettings | None:
        """Return the training set of a candidate that is yet to be trained here, else None."""
        return None

    def training_threshold(self) -> float:
        """Return the fraction of raters from which on a training row is positive."""
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
        labels = training_set.column("label").to_numpy() >= self.training_threshold()
        if labels.all() or not labels.any():
            msg = (
                f"training set {training_set.name!r} of candidate {self.name!r} must have both "
                f"classes; all {labels.size} rows are {'positive' if labels.all() else 'negative'}."
            )
            raise InputError(msg)
        return np.asarray(labels)

    def require_text(self, evaluation_set: EvaluationSet | SourceSettings) -> None:
        """Refuse a set without text; for kinds that read it."""
        if not evaluation_set.has_text:
            msg = (
                f"evaluation set {evaluation_set.name!r} must have text for candidate "
                f"{self.name!r} of kind {self.kind}. Name its column with `text`."
            )
            raise InputError(msg)

    def opened_as(self) -> dict[str, Any]:
        """Return the options with which a version that was trained here is opened elsewhere."""
        return {"kind": "mlflow"}

    def training_key(self, training_set: EvaluationSet) -> str:
        """Digest of all that decides the trained model."""
        raise NotImplementedError

    def fit(self, training_set: EvaluationSet, folder: Path, log: LogMetrics) -> None:
        """Train on a frozen set, log what there is to see, write an MLflow model folder."""
        raise NotImplementedError
