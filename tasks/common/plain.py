"""Conversion of records to plain JSON values and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Read = TypeVar("Read")

_PLAIN_TYPES = frozenset({type(None), str, bool, int, float})
"""Types of values that need no conversion."""


def convert_to_plain(content: Any) -> Any:
    """Convert records to plain values, by their `to_dict` if they have that method."""
    if isinstance(content, list | tuple):
        # Fast path: documents have very many short lists of numbers.
        are_plain = _PLAIN_TYPES.issuperset(map(type, content))
        return list(content) if are_plain else [convert_to_plain(value) for value in content]
    if content is None or isinstance(content, str | int | float):
        return content
    if isinstance(content, dict | Mapping) and not hasattr(content, "to_dict"):
        return {
            key: value if type(value) in _PLAIN_TYPES else convert_to_plain(value)
            for key, value in content.items()
        }
    if hasattr(content, "to_dict"):
        from bias_metrics import MetricValue  # noqa: PLC0415 - only records need numpy

        is_number = isinstance(content, MetricValue)
        return convert_to_plain(content.to_dict(interval=True) if is_number else content.to_dict())
    if is_dataclass(content) and not isinstance(content, type):
        return {
            field.name: convert_to_plain(getattr(content, field.name)) for field in fields(content)
        }
    return content


def find_differences(
    first: Any, second: Any, *, rounding: float = 0.0, place: str = ""
) -> Iterator[str]:
    """Yield the places where plain values differ, as in `results.3.value`.

    Floats differ if they are more than `rounding` apart.
    """
    if first == second:
        return
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in {**first, **second}:
            key_place = f"{place}.{key}".lstrip(".")
            if key in first and key in second:
                yield from find_differences(
                    first[key], second[key], rounding=rounding, place=key_place
                )
            else:
                yield key_place
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for i, pair in enumerate(zip(first, second, strict=True)):
            yield from find_differences(*pair, rounding=rounding, place=f"{place}.{i}".lstrip("."))
    elif isinstance(first, float) and isinstance(second, float):
        if not math.isclose(first, second, rel_tol=0, abs_tol=rounding):
            yield place
    elif first != second:
        yield place


def read_plain(kind: type[Read], text: str | bytes) -> Read:
    """Parse JSON text into a record or typed dict of the given class.

    Raises pydantic's ValidationError if keys or types differ.
    """
    adapter = _make_adapter(cast("Any", kind))  # mypy: a class that is a variable is not hashable
    return cast("Read", adapter.validate_json(text, strict=True))


@cache
def _make_adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - a third of the start of every command

    return TypeAdapter(kind)
