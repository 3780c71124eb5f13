"""Masking of secrets in messages: values of environment variables, and passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
# Shorter values are not secret, and may be part of any word.
_MIN_LENGTH = 6
_USER = re.compile(r"(?<=://)[^\s/'\"]*@")
_variables: dict[str, str] = {}


def register_secret(name: str, value: str) -> None:
    """Register the value of an environment variable, which `mask_secrets` then replaces."""
    if len(value) >= _MIN_LENGTH:
        _variables[value] = f"${{{name}}}"


def mask_secrets(text: str) -> str:
    """Return a text with registered values and passwords in URLs masked.

    Examples
    --------
    >>> mask_secrets("the server https://ada:word@host/path does not answer")
    'the server https://***@host/path does not answer'
    """
    for value in sorted(_variables, key=len, reverse=True):
        text = text.replace(value, _variables[value])
    return _USER.sub("***@", text)


def mask_error(error: BaseException) -> None:
    """Mask the texts of an error and of its causes, since a log shows both."""
    masked_ids: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in masked_ids:
            continue
        masked_ids.add(id(current))
        current.args = tuple(
            mask_secrets(arg) if isinstance(arg, str) else arg for arg in current.args
        )
        if isinstance(message := getattr(current, "message", None), str):
            with suppress(AttributeError):  # a group of errors does not let its message change
                current.message = mask_secrets(message)  # type: ignore[attr-defined] # of MLflow's errors
        if isinstance(current, BaseExceptionGroup):
            pending.extend(current.exceptions)
        pending += [current.__cause__, current.__context__]


def mask_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to mask secrets in its errors, whose text Prefect stores."""

    @wraps(function)
    def masking_function(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            mask_error(error)
            raise

    return masking_function
