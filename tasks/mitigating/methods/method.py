"""The base class of methods: the interface of each kind.

To add a kind, subclass `Method`, and name it in `METHODS` of
`biasgate.tasks.mitigating.methods.catalogue`, or in the entry point group `biasgate.mitigations`
of a package.
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
    """A method cannot change these rows; the other methods are tried."""


@dataclass(frozen=True)
class TrainingChange:
    """The change of a training set by a method."""

    added: pa.Table | None = None
    """Rows to add."""
    weights: npt.NDArray[np.floating] | None = None
    """Weights of the rows, of shape (n,)."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """JSON-ready numbers."""
    sentences: tuple[str, ...] = ()
    """The report in words. They never quote a comment."""


class Method(Settings):
    """A method that changes the training set; each kind adds its own options."""

    needs_pool: ClassVar[bool] = False
    """True if it takes rows from a pool of comments that are assumed to be non-toxic."""

    kind: str
    """Name of the method."""
    name: Name | None = None
    """Its name in results. Default: the kind."""

    @property
    def called(self) -> str:
        """Its name in results."""
        return self.name or self.kind

    def require(self, rows: TrainingRows) -> None:
        """Refuse rows that the method cannot change, before any training.

        Raises
        ------
        MethodUndoneError
            With the reason.
        """

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> TrainingChange:
        """Return the rows to add, or the weights. The same seed gives the same change.

        Raises
        ------
        InputError
            If the method cannot change these rows.
        """
        raise NotImplementedError
