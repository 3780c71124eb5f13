"""Subgroups as the columns of a data frame, which is recognised without importing its library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy.typing as npt


@runtime_checkable
class Columns(Protocol):
    """A data frame of pandas or polars: named columns, each an array."""

    @property
    def columns(self) -> Iterable[Any]:
        """The names."""

    def __getitem__(self, name: Any, /) -> Any:
        """Return one column."""


Subgroups: TypeAlias = Mapping[str, npt.ArrayLike] | Columns
"""Named memberships: a mapping of arrays, or a data frame of boolean columns."""


def by_name(named: Any, argument: str) -> Mapping[str, npt.ArrayLike]:
    """Return the arrays of a mapping, or the columns of a data frame, by name."""
    if isinstance(named, Mapping):
        return named
    if isinstance(named, Columns):
        names = list(named.columns)
        repeated = sorted({str(name) for name in names if names.count(name) > 1})
        if repeated:
            msg = f"`{argument}` must have different columns; got {', '.join(repeated)} twice."
            raise ValueError(msg)
        return {name: named[name] for name in names}
    msg = (
        f"`{argument}` must map a name to a boolean array, as in {{'muslim': mask}}, or be a "
        f"data frame of boolean columns; got {type(named).__name__}."
    )
    raise TypeError(msg)
