"""The terminal: how wide it is, and how texts of others are shown."""

from __future__ import annotations

import os

from rich.console import Console
from rich.markup import escape

from biasgate.tasks.common.printable import printable

_WIDTH = 118


def console(*, stderr: bool = False) -> Console:
    """Return a console that does not cut tables if the output is not a terminal."""
    found = Console(stderr=stderr, highlight=False, emoji=False)
    if found.is_terminal or "COLUMNS" in os.environ:
        return found
    return Console(stderr=stderr, highlight=False, emoji=False, width=_WIDTH)


def shown(text: str, *, keep: str = "") -> str:
    """Return a text of others for the console: neither control characters nor markup work."""
    return escape(printable(text, keep=keep))
