"""Secrets in texts that people and servers see: what a variable held, and passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
# A shorter value is no secret, and may be part of any word.
_SHORTEST = 6
_USER = re.compile(r"(?<=://)[^\s/'\"]*@")
_held: dict[str, str] = {}


def remember(name: str, value: str) -> None:
    """Note that an environment variable held a value, which `masked` then replaces."""
    if len(value) >= _SHORTEST:
        _held[value] = f"${{{name}}}"


def masked(text: str) -> str:
    """Return a text without the values of remembered variables, and without passwords in URLs.

    Examples
    --------
    >>> masked("the server https://ada:word@host/path does not answer")
    'the server https://***@host/path does not answer'
    """
    for value in sorted(_held, key=len, reverse=True):
        text = text.replace(value, _held[value])
    return _USER.sub("***@", text)


def mask_error(error: BaseException) -> None:
    """Mask the texts of an error and of its causes, which a log would also show."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        found.args = tuple(masked(arg) if isinstance(arg, str) else arg for arg in found.args)
        if isinstance(message := getattr(found, "message", None), str):
            with suppress(AttributeError):  # a group of errors does not let its message change
                found.message = masked(message)  # type: ignore[attr-defined] # of MLflow's errors
        if isinstance(found, BaseExceptionGroup):
            waiting.extend(found.exceptions)
        waiting += [found.__cause__, found.__context__]


def masking(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with secrets masked in what it raises, since Prefect stores the text."""

    @wraps(function)
    def masking_function(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            mask_error(error)
            raise

    return masking_function
