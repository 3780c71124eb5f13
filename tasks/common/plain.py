"""Records as JSON has them, and read from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Read = TypeVar("Read")

_MOST = frozenset({type(None), str, bool, int, float})
"""What most values are: they are plain."""


def plain(content: Any) -> Any:
    """Return plain values: those of a record are what its `to_dict` returns, if it has one."""
    if isinstance(content, list | tuple):
        # Most lists are short rows of numbers, of which there are very many.
        are_plain = _MOST.issuperset(map(type, content))
        return list(content) if are_plain else [plain(value) for value in content]
    if content is None or isinstance(content, str | int | float):
        return content
    if isinstance(content, dict | Mapping) and not hasattr(content, "to_dict"):
        return {
            key: value if type(value) in _MOST else plain(value) for key, value in content.items()
        }
    if hasattr(content, "to_dict"):
        from bias_metrics import MetricValue  # noqa: PLC0415 - what has no record needs no numpy

        is_number = isinstance(content, MetricValue)
        return plain(content.to_dict(interval=True) if is_number else content.to_dict())
    if is_dataclass(content) and not isinstance(content, type):
        return {field.name: plain(getattr(content, field.name)) for field in fields(content)}
    return content


def differences(
    first: Any, second: Any, *, rounding: float = 0.0, place: str = ""
) -> Iterator[str]:
    """Yield where plain values differ, as in `results.3.value`; floats by more than rounding."""
    if first == second:
        return
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in {**first, **second}:
            below = f"{place}.{key}".lstrip(".")
            if key in first and key in second:
                yield from differences(first[key], second[key], rounding=rounding, place=below)
            else:
                yield below
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for at, pair in enumerate(zip(first, second, strict=True)):
            yield from differences(*pair, rounding=rounding, place=f"{place}.{at}".lstrip("."))
    elif isinstance(first, float) and isinstance(second, float):
        if not math.isclose(first, second, rel_tol=0, abs_tol=rounding):
            yield place
    elif first != second:
        yield place


def read_plain(kind: type[Read], text: str | bytes) -> Read:
    """Return the record, or the dict of a known form, that JSON text holds.

    Raises pydantic's ValidationError if it is of another form.
    """
    adapter = _adapter(cast("Any", kind))  # mypy: a class that is a variable is not hashable
    return cast("Read", adapter.validate_json(text, strict=True))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - a third of the start of every command

    return TypeAdapter(kind)
