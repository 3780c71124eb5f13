"""The base classes of methods: what each kind gets and returns.

To add a kind, subclass `RowMethod` (it changes what a model learns from) or `ScoreMethod` (it
changes how scores are used). It is named in `METHODS` of
`biasgate.tasks.mitigating.methods.catalogue`, or by an installed package in its entry point group
`biasgate.mitigations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.mitigating.rows import TrainingRows


class MethodUndoneError(InputError):
    """A method that cannot do anything with these rows."""


class Method(Settings):
    """One method of a configuration; each kind adds its own options."""

    needs_pool: ClassVar[bool] = False
    """Whether it takes rows from a pool of comments that are assumed to be non-toxic."""

    kind: str
    """Name of the method."""
    name: Name | None = None
    """Its name in results. Default: the kind."""

    @property
    def called(self) -> str:
        """Its name in results."""
        return self.name or self.kind


@dataclass(frozen=True)
class Change:
    """What a method does to a training set."""

    added: pa.Table | None = None
    """Rows to add."""
    weights: npt.NDArray[np.floating] | None = None
    """The weight of each row."""
    labels: npt.NDArray[np.floating] | None = None
    """The label of each row, in place of its own."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """JSON-ready numbers."""
    sentences: tuple[str, ...] = ()
    """The same in words; they never quote a comment."""


class RowMethod(Method):
    """A method that changes the training set."""

    def require(self, rows: TrainingRows) -> None:
        """Refuse, before any training, rows with which the method can do nothing.

        Raises
        ------
        MethodUndoneError
            The reason; the other methods are tried.
        """

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> Change:
        """Return what to add, or how to weight. The same seed gives the same change.

        Raises
        ------
        InputError
            If the method cannot do anything with these rows.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Tuning:
    """Labelled rows with scores of the trained model; none of them is evaluated."""

    y_true: npt.NDArray[np.bool_]
    """Whether each comment is toxic."""
    y_score: npt.NDArray[np.floating]
    """Scores of the model."""
    masks: Mapping[str, npt.NDArray[np.bool_]]
    """Which comments mention each identity."""
    general: tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating]]
    """Labels and scores of comments that are like those of the training set. They may be the same
    rows."""


@dataclass(frozen=True)
class Adjustment:
    """How the scores of a model are used; nobody's identity is needed for it."""

    threshold: float | None = None
    """Scores at or above it are flagged; None leaves that open."""
    slope: float = 1.0
    shift: float = 0.0
    """New log-odds are `slope * log-odds + shift`; the slope is above 0."""
    report: Mapping[str, Any] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    """As in `Change`."""

    def applied(self, y_score: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Return adjusted scores."""
        if (self.slope, self.shift) == (1.0, 0.0):
            return y_score
        inside = np.clip(y_score, 1e-12, 1 - 1e-12)
        odds = self.slope * (np.log(inside) - np.log1p(-inside)) + self.shift
        return np.asarray(1 / (1 + np.exp(-odds)))


class ScoreMethod(Method):
    """A method that changes how the scores of a trained model are used."""

    def adjust(self, tuning: Tuning) -> Adjustment:
        """Return the adjustment that the tuning rows suggest.

        Raises
        ------
        MethodUndoneError
            If they do not allow any.
        """
        raise NotImplementedError
