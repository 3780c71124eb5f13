"""Memberships of many subgroups in little memory: one bit per row and subgroup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from bias_metrics._core.index import labelled_inputs, refuse_misaligned

BoolArray = npt.NDArray[np.bool_]


class PackedMasks(Mapping[str, BoolArray]):
    """A mapping of subgroup to mask, one bit per row, whose masks are unpacked on access.

    `bits` has one row of `numpy.packbits` per subgroup; it may be memory-mapped from a file.

    >>> masks = PackedMasks.of([("gay", [True, False, True])], 3)
    >>> masks["gay"].tolist(), masks.n_rows
    ([True, False, True], 3)
    """

    def __init__(self, names: Sequence[str], bits: npt.NDArray[np.uint8], n_rows: int) -> None:
        self._at = {name: at for at, name in enumerate(names)}
        shape = (len(names), bytes_of(n_rows))
        if bits.shape != shape or len(self._at) != len(names):
            msg = f"`bits` must have shape {shape}, for different names; got shape {bits.shape}."
            raise ValueError(msg)
        self._bits = bits
        self.n_rows = n_rows
        self.index = None  # its rows have no labels; without this all masks would be unpacked

    @classmethod
    def of(cls, masks: Iterable[tuple[str, npt.ArrayLike]], n_rows: int) -> PackedMasks:
        """Pack masks from pairs of name and boolean array, one at a time."""
        names, packed = [], []
        first: dict[str, object] = {}
        for name, mask in masks:
            own: dict[str, object] = {f"masks[{name!r}]": mask}
            refuse_misaligned(first | own)
            if not first and any(labelled_inputs(own)):
                first = own
            names.append(name)
            packed.append(np.packbits(np.asarray(mask, dtype=np.bool_)))
        bits = np.array(packed, dtype=np.uint8).reshape(len(names), bytes_of(n_rows))
        return cls(names, bits, n_rows)

    def __getitem__(self, name: str) -> BoolArray:
        """Unpack one mask, shape (n_rows,)."""
        packed = np.asarray(self._bits[self._at[name]])
        return np.unpackbits(packed, count=self.n_rows).view(np.bool_)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._at)

    def __len__(self) -> int:
        """Count the subgroups."""
        return len(self._at)

    def any(self) -> BoolArray:
        """Say which rows belong to any subgroup, shape (n_rows,)."""
        found = np.zeros(bytes_of(self.n_rows), dtype=np.uint8)
        for bit in self._bits:
            found |= bit
        return np.unpackbits(found, count=self.n_rows).view(np.bool_)

    def within(self, rows: BoolArray) -> PackedMasks:
        """Return the masks of some rows only."""
        return PackedMasks.of(((name, mask[rows]) for name, mask in self.items()), int(rows.sum()))


def bytes_of(n_rows: int) -> int:
    """Return the number of bytes of a packed mask."""
    return -(-n_rows // 8)


# ---- Subgroups as the columns of a data frame, which is recognised without importing its library


@runtime_checkable
class Columns(Protocol):
    """A data frame of pandas or polars: named columns, each an array."""

    @property
    def columns(self) -> Iterable[Any]:
        """The names."""

    def __getitem__(self, name: Any, /) -> Any:
        """Return one column."""


Subgroups: TypeAlias = Mapping[str, npt.ArrayLike] | Columns | Sequence[str] | npt.NDArray[Any]
"""Named memberships: a mapping of arrays, a data frame of boolean columns, or a column that has the
name of each row's group."""


def by_name(named: Any, argument: str) -> Mapping[str, npt.ArrayLike]:
    """Return the arrays of a mapping, or the columns of a data frame, by name."""
    if isinstance(named, Mapping):
        return named
    # Of a lazy frame even the names of columns would be computed.
    is_lazy = hasattr(type(named), "collect") and not hasattr(type(named), "__len__")
    if is_lazy:
        msg = f"`{argument}` must have rows; a {type(named).__name__} has none: call `.collect()`."
        raise TypeError(msg)
    if isinstance(named, Columns):
        # The columns of a table of PyArrow are no names.
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
