"""Labels of rows, as a pandas Series has them: inputs whose rows have other labels are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import Signature, signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

from bias_metrics.suggestion import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


def aligned(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function refuse arguments whose rows have different labels."""
    known = signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = dict(_bound(function, known, args, kwargs))
        for name, one in known.parameters.items():
            if one.kind is one.VAR_KEYWORD:  # each by its own name
                given |= given.pop(name, {})
                _refuse_unknown(function, known, given)
        refuse_misaligned(given)
        return function(*args, **kwargs)

    return checked


_OPTIONS = ("sample_weight", "weight_kind", "clusters", "background")
_MEANT = {"groups": "subgroups", "sensitive_features": "subgroups", "weights": "sample_weight"}


def _bound(
    function: Callable[..., Any],
    known: Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Return arguments by name; an error names the function."""
    try:
        return known.bind(*args, **kwargs).arguments
    except TypeError as error:
        _refuse_unknown(function, known, kwargs)
        msg = f"{function.__qualname__}: {error}."
        raise TypeError(msg) from None


def _refuse_unknown(
    function: Callable[..., Any], known: Signature, given: Mapping[str, Any]
) -> None:
    """Refuse a keyword that a function does not have, and name the one that is meant."""
    names = [one.name for one in known.parameters.values() if one.kind is not one.VAR_KEYWORD]
    if len(names) < len(known.parameters):
        names += _OPTIONS
    for name in given:
        if name not in names:
            meant = _MEANT.get(name)
            hint = f" Did you mean {meant!r}?" if meant in names else did_you_mean(name, names)
            msg = f"{function.__qualname__} must have known arguments; got {name!r}.{hint}"
            raise TypeError(msg)


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
