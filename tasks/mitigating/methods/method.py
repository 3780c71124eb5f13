"""The base class of methods: what each kind gets and returns.

To add a kind, subclass `Method`. It is named in `METHODS` of
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


@dataclass(frozen=True)
class Change:
    """What a method does to a training set."""

    added: pa.Table | None = None
    """Rows to add."""
    weights: npt.NDArray[np.floating] | None = None
    """The weight of each row."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """JSON-ready numbers."""
    sentences: tuple[str, ...] = ()
    """The same in words; they never quote a comment."""


class Method(Settings):
    """A method that changes the training set; each kind adds its own options."""

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
