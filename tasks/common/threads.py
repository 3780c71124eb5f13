"""Calls in several threads, with results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Each(Protocol):
    """Like `map`: calls a function with each value, and yields the results in order."""

    def __call__(self, call: Callable[[T], R], values: Iterable[T], /) -> Iterator[R]:
        """Yield the results."""


@contextmanager
def calling(at_once: int) -> Iterator[Each]:
    """Yield a `map` that makes several calls at a time; after an error no other call begins.

    Parameters
    ----------
    at_once : int
        The most calls at a time; with one, all are made in the thread of the caller.
    """
    if at_once == 1:
        yield map
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield pool.map
