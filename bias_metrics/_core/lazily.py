"""A mapping whose values are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")
# Values that are kept: all of them in everyday evaluations, few of thousands.
KEPT = 64


class Lazily(Mapping[str, T]):
    """Values by name, made by a function; the last ones used are kept.

    Parameters
    ----------
    names : iterable of str
        The keys.
    make : callable
        Makes the value of a name.
    """

    def __init__(self, names: Iterable[str], make: Callable[[str], T]) -> None:
        self._names = dict.fromkeys(names)
        self._made = lru_cache(maxsize=KEPT)(make)

    def __getitem__(self, name: str) -> T:
        """Return a value, made where it is not kept."""
        if name not in self._names:
            raise KeyError(name)
        return self._made(name)

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Count the names."""
        return len(self._names)
