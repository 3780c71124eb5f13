"""The terminal: how wide it is, how texts of others are shown, how the command is called again."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

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


def command() -> str:
    """Return how to run this command again: by its path if it is not on PATH."""
    typed = sys.argv[0]
    on_path = shutil.which("biasgate")
    same = on_path is not None and Path(on_path).resolve() == Path(typed).resolve()
    return "biasgate" if same or not Path(typed).exists() else typed


def is_path(named: str) -> bool:
    """Return whether a text that a user gives can only be a path, and never a registered model.

    A model is never a folder that happens to have its name.
    """
    separated = named in {os.curdir, os.pardir} or any(one in named for one in {"/", os.sep})
    return separated and not named.startswith("models:")


def as_path(named: str | Path) -> str:
    """Return a path as commands take it where a name without a slash is a registered model."""
    text = str(named)
    return text if is_path(text) else f".{os.sep}{text}"
