"""The seam of candidates: what every kind of candidate promises.

A further kind is a module beside this one with a subclass of `CandidateSettings`, named in
`CANDIDATES` of `tasks.scoring`, whose `open` returns a `Scorer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from pydantic import FiniteFloat

from tasks.data.evaluation_set import EvaluationSet
from tasks.data.source import SourceSettings
from tasks.mlflow_gateway import Gateway, ModelVersion
from tasks.settings import Name, Settings


class Scorer(Protocol):
    """An opened candidate, ready to score; its scores are kept and reused by `digest`."""

    @property
    def digest(self) -> str:
        """SHA-256 over all that decides the scores: weights, preprocessing, dtype, library."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the evaluation set that `score` reads, `id` first."""

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set that cannot be scored, before any work."""

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return one score per row, shape (n,), higher for more toxic."""


@dataclass(frozen=True)
class Workplace:
    """Where candidates come from and models go to.

    Attributes
    ----------
    store : Path
        Folder of sets, scores and, by default, the MLflow store.
    gateway : Gateway
        Tracking server and registry.
    """

    store: Path
    gateway: Gateway

    @classmethod
    def at(cls, store: str | Path) -> Workplace:
        """Return the workplace whose store is this folder."""
        return cls(Path(store), Gateway.of_store(Path(store)))


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
    """

    name: Name
    kind: str
    allow_two_valued: bool = False
    allow_training_rows: bool = False
    threshold: FiniteFloat | None = None

    def check(self) -> None:
        """Refuse what can be refused before any work."""

    def open(self, workplace: Workplace) -> Scorer:
        """Load the candidate."""
        raise NotImplementedError

    def version(self, workplace: Workplace) -> ModelVersion | None:
        """Return the registered version behind the candidate, if there is one."""
        del workplace
        return None

    def training(self) -> SourceSettings | None:
        """Return the training set of a candidate that is yet to be trained here, else None."""
        return None

    def training_key(self, training_set: EvaluationSet) -> str:
        """Digest of all that decides the trained model."""
        raise NotImplementedError

    def fit(self, training_set: EvaluationSet, folder: Path) -> None:
        """Train on a frozen set and write an MLflow model folder."""
        raise NotImplementedError
