"""Labels of rows, as a pandas Series has them: inputs whose rows have other labels are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def aligned(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function refuse arguments whose rows have different labels."""
    known = signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = dict(known.bind(*args, **kwargs).arguments)
        for name, one in known.parameters.items():
            if one.kind is one.VAR_KEYWORD:  # each by its own name
                given |= given.pop(name, {})
        refuse_misaligned(given)
        return function(*args, **kwargs)

    return checked


def refuse_misaligned(given: Mapping[str, object]) -> None:
    """Refuse inputs, by name, whose rows have different labels.

    Inputs with an `index` (a pandas Series) must all have the same one: rows are never matched by
    position if their labels say otherwise. Arrays and lists have no labels; their rows are
    taken in order. Mappings are checked value by value.
    """
    labelled = list(labelled_inputs(given))
    for name, index in labelled[1:]:
        _refuse_other_index(name, index, *labelled[0])


def labelled_inputs(given: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    """Yield the row labels of every input that has them."""
    for name, values in given.items():
        index = getattr(values, "index", None)
        if isinstance(values, Mapping) and not hasattr(values, "index"):
            yield from labelled_inputs({f"{name}[{key!r}]": one for key, one in values.items()})
        elif index is not None and not callable(index):  # a list has a method of this name
            yield name, index


def _refuse_other_index(name: str, index: Any, like: str, other: Any) -> None:
    if index is other or len(index) != len(other):  # different lengths get an error of their own
        return
    labels, others = np.asarray(index), np.asarray(other)
    wrong = np.flatnonzero(labels != others)
    if wrong.size and not index.equals(other):
        row = int(wrong[0])
        got, has = (
            one.item() if isinstance(one, np.number) else one for one in (labels[row], others[row])
        )
        msg = (
            f"`{name}` must have the index of `{like}`; got {got!r} where that has "
            f"{has!r} (row {row}). Align it with `.reindex({like}.index)`, or pass "
            "`.to_numpy()` of each to take the rows in order."
        )
        raise ValueError(msg)
