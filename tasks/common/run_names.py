"""Names of task runs, made from the parameters of the task."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import PurePath
from typing import Any, get_type_hints


class _RunNames(string.Formatter):
    """Formats names of task runs from parameters, many of which are folders."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Return what a folder holds.

        `{set_folder!e}` is the evaluation set in a folder of frozen rows, `{folder!m}` the
        candidate and the set of a folder of measurements.
        """
        if conversion == "e":
            return PurePath(value).name.rpartition("-")[0]
        if conversion == "m":
            return f"{PurePath(value).name} on {PurePath(value).parent.name}"
        return super().convert_field(value, conversion)


def run_name(template: str, parameters: Mapping[str, Any]) -> str:
    """Return the name of one task run, as in `decide words on comments`."""
    return _RunNames().vformat(template, (), parameters)


def refuse_unknown_parameters(template: str | None, function: Callable[..., Any]) -> None:
    """Raise a TypeError if a name uses anything but parameters of the task, or their attributes."""
    fields = [field for _, field, _, _ in string.Formatter().parse(template or "") if field]
    unknown = sorted({field for field in fields if not _is_of(field, function)})
    if unknown:
        msg = f"`task_run_name` must use parameters of {function.__name__}; got {unknown}."
        raise TypeError(msg)


def _is_of(field: str, function: Callable[..., Any]) -> bool:
    """Whether a field such as `part.first` is a parameter, and an attribute of its class."""
    name, _, attribute = field.partition(".")
    if name not in inspect.signature(function).parameters:
        return False
    if not attribute:
        return True
    kind = get_type_hints(function)[name]
    fields = (getattr(kind, known, ()) for known in ("model_fields", "__dataclass_fields__"))
    return attribute in {*dir(kind), *chain(*fields)}


def named_by(template: str | None) -> Callable[[dict[str, Any]], str] | None:
    """Return the function that Prefect calls for the name of a run."""
    if template is None:
        return None

    def named(parameters: dict[str, Any]) -> str:  # the name by which Prefect passes them
        return run_name(template, parameters)

    return named
