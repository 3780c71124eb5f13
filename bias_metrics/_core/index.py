"""Row labels, as in the index of a pandas Series; inputs with different labels are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import Signature, signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

from bias_metrics.suggestion import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


def require_aligned(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to refuse arguments whose rows have different labels."""
    call_signature = signature(function)

    @wraps(function)
    def check_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            arguments = dict(call_signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            _refuse_unknown(function, call_signature, kwargs)
            msg = f"{function.__qualname__}: {error}."
            raise TypeError(msg) from None
        for name, parameter in call_signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:  # check each keyword by its own name
                arguments |= arguments.pop(name, {})
                _refuse_unknown(function, call_signature, arguments)
        refuse_misaligned(arguments)
        return function(*args, **kwargs)

    return check_and_call


_OPTIONS = ("sample_weight", "weight_kind", "clusters", "background")
_MEANT = {"groups": "subgroups", "sensitive_features": "subgroups", "weights": "sample_weight"}


def _refuse_unknown(
    function: Callable[..., Any], call_signature: Signature, arguments: Mapping[str, Any]
) -> None:
    """Refuse an unknown keyword, and suggest the intended name."""
    names = [
        parameter.name
        for parameter in call_signature.parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    if len(names) < len(call_signature.parameters):
        names += _OPTIONS
    for name in arguments:
        if name not in names:
            meant = _MEANT.get(name)
            hint = f" Did you mean {meant!r}?" if meant in names else did_you_mean(name, names)
            msg = f"{function.__qualname__} must have known arguments; got {name!r}.{hint}"
            raise TypeError(msg)


def refuse_misaligned(given: Mapping[str, object]) -> None:
    """Refuse named inputs whose rows have different labels.

    All inputs with an `index` (a pandas Series) must have the same index: rows with different
    labels are never matched by position. Arrays and lists have no labels, and are matched by
    position. Mappings are checked value by value.
    """
    labelled = list(find_row_labels(given))
    for name, index in labelled[1:]:
        like, other = labelled[0]
        if index is other or len(index) != len(other):  # a later check refuses different lengths
            continue
        labels, others = np.asarray(index), np.asarray(other)
        wrong = np.flatnonzero(labels != others)
        if wrong.size and not index.equals(other):
            row = int(wrong[0])
            actual, expected = (
                label.item() if isinstance(label, np.number) else label
                for label in (labels[row], others[row])
            )
            msg = (
                f"`{name}` must have the index of `{like}`; got {actual!r} where that has "
                f"{expected!r} (row {row}). Align it with `.reindex({like}.index)`, or pass "
                "`.to_numpy()` of each to take the rows in order."
            )
            raise ValueError(msg)


def find_row_labels(given: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    """Yield names and row labels of labelled inputs."""
    for name, values in given.items():
        index = getattr(values, "index", None)
        if isinstance(values, Mapping) and not hasattr(values, "index"):
            yield from find_row_labels({f"{name}[{key!r}]": value for key, value in values.items()})
        elif index is not None and not callable(index):  # `list.index` is a method
            yield name, index
