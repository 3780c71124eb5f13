"""Memberships of many subgroups in little memory: a bit per row and subgroup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from bias_metrics._core.index import find_row_labels, refuse_misaligned

BoolArray = npt.NDArray[np.bool_]


T = TypeVar("T")
# Number of cached values: all subgroups of most evaluations, but not thousands.
MAX_CACHED = 64


class LazyMapping(Mapping[str, T]):
    """Values by name, computed on demand by a function, with a cache of recently used values."""

    def __init__(
        self, names: Iterable[str], compute: Callable[[str], T], max_cached: int = MAX_CACHED
    ) -> None:
        self._names = dict.fromkeys(names)
        self._compute = lru_cache(maxsize=max_cached)(compute)

    def __getitem__(self, name: str) -> T:
        """Return a value; compute it if it is not cached."""
        if name not in self._names:
            raise KeyError(name)
        return self._compute(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Count the names."""
        return len(self._names)


class PackedMasks(Mapping[str, BoolArray]):
    """A mapping of subgroup to mask, stored as bits and unpacked on access.

    `bits` has a row of `numpy.packbits` per subgroup, and may be memory-mapped from a file.

    >>> masks = PackedMasks.from_masks([("gay", [True, False, True])], 3)
    >>> masks["gay"].tolist(), masks.n_rows
    ([True, False, True], 3)
    """

    def __init__(self, names: Sequence[str], bits: npt.NDArray[np.uint8], n_rows: int) -> None:
        self._positions = {name: position for position, name in enumerate(names)}
        shape = (len(names), count_bytes(n_rows))
        if bits.shape != shape or len(self._positions) != len(names):
            msg = f"`bits` must have shape {shape}, for different names; got shape {bits.shape}."
            raise ValueError(msg)
        self._bits = bits
        self.n_rows = n_rows
        self.index = None  # rows have no labels; without this, a check would unpack all masks

    @classmethod
    def from_masks(cls, masks: Iterable[tuple[str, npt.ArrayLike]], n_rows: int) -> PackedMasks:
        """Pack pairs of name and boolean array, with a single unpacked mask at a time."""
        names, packed = [], []
        first: dict[str, object] = {}
        for name, mask in masks:
            labelled: dict[str, object] = {f"masks[{name!r}]": mask}
            refuse_misaligned(first | labelled)
            if not first and any(find_row_labels(labelled)):
                first = labelled
            names.append(name)
            packed.append(np.packbits(np.asarray(mask, dtype=np.bool_)))
        bits = np.array(packed, dtype=np.uint8).reshape(len(names), count_bytes(n_rows))
        return cls(names, bits, n_rows)

    def __getitem__(self, name: str) -> BoolArray:
        """Unpack a mask, shape (n_rows,)."""
        packed = np.asarray(self._bits[self._positions[name]])
        return np.unpackbits(packed, count=self.n_rows).view(np.bool_)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._positions)

    def __len__(self) -> int:
        """Count the subgroups."""
        return len(self._positions)

    def find_any_member(self) -> BoolArray:
        """Return a mask of the rows in any subgroup, shape (n_rows,)."""
        any_bits = np.zeros(count_bytes(self.n_rows), dtype=np.uint8)
        for row in self._bits:
            any_bits |= row
        return np.unpackbits(any_bits, count=self.n_rows).view(np.bool_)

    def select_rows(self, rows: BoolArray) -> PackedMasks:
        """Return the masks of the selected rows."""
        return PackedMasks.from_masks(
            ((name, mask[rows]) for name, mask in self.items()), int(rows.sum())
        )


def count_bytes(n_rows: int) -> int:
    """Return the number of bytes of a packed mask."""
    return -(-n_rows // 8)


# ---- Subgroups as columns of a data frame, recognised without importing its library


@runtime_checkable
class Columns(Protocol):
    """A data frame of pandas or polars: named columns, each an array."""

    @property
    def columns(self) -> Iterable[Any]:
        """The names."""

    def __getitem__(self, name: Any, /) -> Any:
        """Return one column."""


Subgroups: TypeAlias = Mapping[str, npt.ArrayLike] | Columns | Sequence[str] | npt.NDArray[Any]
"""Named memberships: a mapping of arrays, a data frame of boolean columns, or a column with the
name of each row's group."""


def get_columns(named: Any, argument: str) -> Mapping[str, npt.ArrayLike]:
    """Return the arrays of a mapping, or the columns of a data frame, by name."""
    if isinstance(named, Mapping):
        return named
    # In a lazy frame, even the names of columns would be computed.
    is_lazy = hasattr(type(named), "collect") and not hasattr(type(named), "__len__")
    if is_lazy:
        msg = f"`{argument}` must have rows; a {type(named).__name__} has none: call `.collect()`."
        raise TypeError(msg)
    if isinstance(named, Columns):
        # `columns` of a PyArrow table holds arrays, not names.
        names = list(getattr(named, "column_names", named.columns))
        repeated = sorted({str(name) for name in names if names.count(name) > 1})
        if repeated:
            msg = f"`{argument}` must have different columns; got {', '.join(repeated)} twice."
            raise ValueError(msg)
        return {name: named[name] for name in names}
    msg = (
        f"`{argument}` must map a name to a boolean array, as in {{'muslim': mask}}, or be a "
        "data frame of boolean columns or a column of group names; got "
        f"{type(named).__name__}."
    )
    raise TypeError(msg)
