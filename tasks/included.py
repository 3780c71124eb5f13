"""Evaluation files that come with biasgate, which commands find by name."""

from __future__ import annotations

import os
from pathlib import Path

from yaml import YAMLError

from biasgate.tasks.common.command_lines import format_path, shorten_path
from biasgate.tasks.common.errors import InputError

# The same place in a checkout and in the installed package.
FOLDER = Path(__file__).parents[1] / "deployments" / "evaluations"


def list_included_names() -> list[str]:
    """Return the names of the included evaluations."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find_evaluation_file(config: str | Path) -> Path:
    """Return the path of an evaluation file from its path, or from the name of an included file.

    For a file in the current folder with the name of an included evaluation, give `./NAME`.
    """
    text = os.fspath(config)
    if text in list_included_names():
        return FOLDER / f"{text}.yaml"
    return Path(text)


def is_count_file(config: str | Path) -> bool:
    """Return whether a file counts shards (`source: shards`) instead of measuring rows.

    False for a file that cannot be read: the reader of evaluation files reports the error.
    """
    from biasgate.tasks.common.yaml_files import load_yaml  # noqa: PLC0415 - it imports pydantic

    try:
        content = load_yaml(find_evaluation_file(config).read_text("utf-8"))
    except (OSError, ValueError, YAMLError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("source") == "shards"


def format_argument(config: str | Path) -> str:
    """Return a command's argument for an evaluation file: an included name or an absolute path.

    Unlike a relative path, both are valid in every folder.
    """
    text = os.fspath(config)
    return text if text in list_included_names() else str(Path(text).resolve())


def shorten_argument(config: str) -> str:
    """Shorten an argument from `format_argument` for a command in the current folder."""
    text = shorten_path(config)
    return format_path(text) if text in list_included_names() and text != config else text


def save_included(name: str, target: Path) -> None:
    """Copy an included evaluation file to `target`, which must not exist."""
    names = list_included_names()
    if name not in names:
        from bias_metrics.suggestion import did_you_mean  # noqa: PLC0415 - it imports numpy

        msg = (
            f"`--save` copies an included evaluation: CONFIG must be one of {', '.join(names)}; "
            f"got {name!r}.{did_you_mean(name, names)}"
        )
        raise InputError(msg)
    write_new_file(target, (FOLDER / f"{name}.yaml").read_text("utf-8"))


def write_new_file(target: Path, content: str) -> None:
    """Write the file given by `--save`, which must not exist."""
    try:
        with target.open("x", encoding="utf-8") as stream:
            stream.write(content)
    except FileExistsError:
        msg = f"`--save` must name a file that does not exist; {target} does."
        raise InputError(msg) from None
    except OSError as error:
        msg = f"`--save` must name a file that can be written; {target}: {error.strerror}."
        raise InputError(msg) from error
