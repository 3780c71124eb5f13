"""Commands that are printed: they run as they are in the folder where an evaluation was started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "biasgate"


def command() -> str:
    """Return how to run this command again: by its path if it is not on PATH.

    A worker or a test runs no command of ours; there, the name is all that is known.
    """
    typed = Path(sys.argv[0])
    if typed.name == "__main__.py" and typed.parent.name == NAME:
        return shlex.join([sys.executable, "-m", NAME])
    if typed.stem != NAME or not typed.exists():
        return NAME
    on_path = shutil.which(NAME)
    is_same = on_path is not None and Path(on_path).resolve() == typed.resolve()
    return NAME if is_same else shlex.quote(sys.argv[0])


def command_line(*words: str | Path) -> str:
    """Return a command of ours as it is typed; `words` follow its name."""
    return f"{command()} {shlex.join(map(str, words))}"


def is_path(named: str) -> bool:
    """Return whether a text that a user gives can only be a path, and never a registered model.

    A model is never a folder that happens to have its name.
    """
    separated = named in {os.curdir, os.pardir} or any(one in named for one in {"/", os.sep})
    return separated and not named.startswith("models:")


def as_path(named: str | Path) -> str:
    """Return a path as commands take it where a name without a slash is a registered model."""
    text = str(named)
    return text if is_path(text) and not text.startswith("-") else f".{os.sep}{text}"


def path_from_here(path: str | Path) -> str:
    """Return a path as it is typed in the current folder: relative if it is in that folder."""
    found, here = Path(path), Path.cwd()
    if found.is_absolute() and found.is_relative_to(here):
        found = found.relative_to(here)
    text = str(found)
    return as_path(text) if text.startswith("-") else text


def store_option(store: str | Path) -> list[str]:
    """Return the option that names a store in the current folder; nothing if it is unknown."""
    return ["--store", path_from_here(store)] if str(store) else []
