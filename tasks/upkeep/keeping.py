"""How long things are kept, and how much of them: `30d`, `20GB`, or both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from biasgate.tasks.common.errors import InputError

_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)")
_AGES = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
# An evaluation may be using what was used within this time, so it is never removed.
IN_USE = timedelta(days=1)


@dataclass(frozen=True)
class Keep:
    """What is kept."""

    age: timedelta | None = None
    """Whatever was used within this time; None for any."""
    size: int | None = None
    """At most so many bytes, of which those that were used last are kept; None for any."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Keep:
        """Read one age, one size, or one of each."""
        age: timedelta | None = None
        size: int | None = None
        for text in texts:
            found = _FORM.fullmatch(text.strip())
            number, unit = (float(found[1]), found[2]) if found else (0.0, "")
            if unit.lower() in _AGES and unit not in _SIZES and age is None:
                age = _age(number * _AGES[unit.lower()], text)
            elif unit.upper() in _SIZES and size is None:
                size = int(number * _SIZES[unit.upper()])
            else:
                raise InputError(_refused(text))
        if age is None and size is None:
            msg = "`--keep` must be given: an age such as 30d, a size such as 20GB, or both."
            raise InputError(msg)
        return cls(age, size)


def _age(days: float, text: str) -> timedelta:
    try:
        found = timedelta(days=days)
    except OverflowError as error:
        raise InputError(_refused(text)) from error
    if found < IN_USE:
        msg = (
            f"`--keep` must be an age of at least a day, since an evaluation may be using what was "
            f"used within one; got {text!r}."
        )
        raise InputError(msg)
    return found


def _refused(text: str) -> str:
    return (
        f"`--keep` must be an age ({', '.join(_AGES)}) such as 30d, or a size such as 20GB, each "
        f"at most once; got {text!r}."
    )


def shown_size(n_bytes: int) -> str:
    """Return a number of bytes in words.

    Examples
    --------
    >>> shown_size(1_530_000_000)
    '1.5 GB'
    """
    for unit in ("TB", "GB", "MB", "KB"):
        if n_bytes >= _SIZES[unit]:
            return f"{n_bytes / _SIZES[unit]:.1f} {unit}"
    return f"{n_bytes} B"
