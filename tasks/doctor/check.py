"""One line of the doctor: what was looked at, what was found, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.secrets import masked

Status = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True)
class Check:
    """What was found about one thing."""

    what: str
    """The thing."""
    status: Status
    """`wrong`: evaluations fail, or nobody could promote. `warning`: they may."""
    found: str
    """What was found."""
    do: str = ""
    """What to do; empty if nothing is."""


def told(what: str, look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Yield what a look found; if it fails, that it failed, as one more line."""
    try:
        yield from look()
    except InputError as error:
        yield Check(what, "wrong", masked(str(error)), "See the sentence before.")
    except Exception as error:  # noqa: BLE001 - libraries raise anything, and other lines count too
        text = masked(f"{type(error).__name__}: {error}".splitlines()[0])
        yield Check(what, "wrong", text, f"Put the {what} in order, then run the doctor again.")
