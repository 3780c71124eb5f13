"""Pieces that every section of a configuration file is made of."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationInfo

from tasks.errors import InputError

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


class Settings(BaseModel):
    """A frozen section of a configuration; an unknown key is an error.

    Attributes
    ----------
    secret_keys : frozenset of str
        Keys in which `${NAME}` stays as it is, and whose content no error repeats.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    secret_keys: ClassVar[frozenset[str]] = frozenset()


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@ -]{0,99}$")]
"""A name that is also a folder name and a piece of an MLflow key."""


def relative_to_configuration(value: Any, info: ValidationInfo) -> Any:
    """Return a path that starts at the folder of the configuration, where it is relative."""
    if not isinstance(value, str | Path):
        return value
    base = (info.context or {}).get("folder")
    path = Path(value).expanduser()
    return path if base is None else Path(os.path.normpath(Path(base) / path))


ConfigPath = Annotated[Path, BeforeValidator(relative_to_configuration)]
"""A path; one that is relative starts at the folder of the configuration file."""


def expand_variables(value: Any, where: str) -> Any:
    """Replace `${NAME}` and `${NAME:-default}` in every string of a configuration.

    Raises
    ------
    InputError
        If a variable without default is not set.
    """
    if isinstance(value, dict):
        return {key: expand_variables(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [expand_variables(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        found = os.environ.get(match["name"]) or match["default"]
        if found is None:
            msg = (
                f"environment variable {match['name']} must be set; it is not ({where}). "
                f"Set it, or write ${{{match['name']}:-default}}."
            )
            raise InputError(msg)
        return found

    return _VARIABLE.sub(replace, value)
