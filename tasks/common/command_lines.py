"""Printed commands, which run unchanged in the folder where the evaluation was started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "biasgate"


def get_command() -> str:
    """Return the start of a command line of biasgate: its path if it is not on PATH.

    In a worker or a test, which other programs started, this is only the name.
    """
    typed = Path(sys.argv[0])
    if typed.name == "__main__.py" and typed.parent.name == NAME:
        return shlex.join([sys.executable, "-m", NAME])
    if typed.stem != NAME or not typed.exists():
        return NAME
    on_path = shutil.which(NAME)
    is_same = on_path is not None and Path(on_path).resolve() == typed.resolve()
    return NAME if is_same else shlex.quote(sys.argv[0])


def format_command(*words: str | Path) -> str:
    """Return a quoted command line of biasgate with the arguments `words`."""
    return f"{get_command()} {shlex.join(map(str, words))}"


def is_path(text: str) -> bool:
    """Return True if a user's text can only be a path, not the name of a registered model.

    A folder with the name of a model must therefore be given with a slash.
    """
    has_separator = text in {os.curdir, os.pardir} or any(
        separator in text for separator in {"/", os.sep}
    )
    return has_separator and not text.startswith("models:")


def format_path(path: str | Path) -> str:
    """Return a path that commands do not take for a registered model or an option."""
    text = str(path)
    return text if is_path(text) and not text.startswith("-") else f".{os.sep}{text}"


def shorten_path(path: str | Path) -> str:
    """Return a path for use in the current folder: relative if it is inside that folder."""
    target, here = Path(path), Path.cwd()
    if target.is_absolute() and target.is_relative_to(here):
        target = target.relative_to(here)
    text = str(target)
    return format_path(text) if text.startswith("-") else text


def format_store_option(store: str | Path) -> list[str]:
    """Return the option that names a store; empty if the store is unknown."""
    return ["--store", shorten_path(store)] if str(store) else []
