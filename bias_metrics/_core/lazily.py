"""A mapping whose values are computed on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")
# Values that are cached: enough for all subgroups of most evaluations, but not for thousands.
KEPT = 64


class Lazily(Mapping[str, T]):
    """Values by name, computed by a function; the most recently used ones are cached.

    Parameters
    ----------
    names : iterable of str
        The keys.
    make : callable
        Computes the value for a name.
    """

    def __init__(self, names: Iterable[str], make: Callable[[str], T]) -> None:
        self._names = dict.fromkeys(names)
        self._made = lru_cache(maxsize=KEPT)(make)

    def __getitem__(self, name: str) -> T:
        """Return a value; compute it if it is not cached."""
        if name not in self._names:
            raise KeyError(name)
        return self._made(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Count the names."""
        return len(self._names)
