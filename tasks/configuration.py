"""Configuration files: YAML in, checked settings out, errors that name file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from tasks.errors import InputError
from tasks.settings import Settings, expand_variables

SettingsType = TypeVar("SettingsType", bound=Settings)


def read_settings(path: Path, kind: type[SettingsType]) -> SettingsType:
    """Read one YAML file into its settings.

    Relative paths in it start at its folder; `${NAME}` and `${NAME:-default}` are replaced
    by environment variables.

    Raises
    ------
    InputError
        If the file is missing or not YAML, a key is unknown or repeated, or a value is
        wrong; every wrong key is named.
    """
    try:
        content = yaml.load(path.read_text("utf-8"), _StrictLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        msg = f"file {path} cannot be read: {error.strerror}."
        raise InputError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"file {path} must be UTF-8."
        raise InputError(msg) from error
    except yaml.YAMLError as error:
        msg = f"file {path} must be YAML: {_yaml_place(error)}"
        raise InputError(msg) from error
    if not isinstance(content, dict):
        msg = f"file {path} must hold keys and values; got {type(content).__name__}."
        raise InputError(msg)
    secret = {key: content[key] for key in kind.secret_keys & content.keys()}
    others = {key: value for key, value in content.items() if key not in secret}
    expanded = expand_variables(others, f"file {path}, key ") | secret
    try:
        return kind.model_validate(expanded, context={"folder": path.resolve().parent})
    except ValidationError as error:
        told = InputError(_told(path, error, kind.secret_keys))
        raise told from (None if kind.secret_keys & content.keys() else error)


class _StrictLoader(yaml.SafeLoader):
    """Safe loading in which a repeated key is an error, not a silent replacement."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Refuse repeated keys."""
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # `<<: *anchor`, whose keys may be given anew
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                problem = f"the key {key!r} is given twice"
                raise yaml.MarkedYAMLError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _yaml_place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})." if mark else f"{problem}."


def _told(path: Path, error: ValidationError, secret_keys: frozenset[str]) -> str:
    lines = [f"file {path} has {error.error_count()} wrong value(s):"]
    for one in error.errors(include_url=False):
        key = ".".join(str(part) for part in one["loc"]) or "(the whole file)"
        given = None if secret_keys.intersection(one["loc"][:1]) else one["input"]
        shown = f" (got {given!r})" if isinstance(given, str | int | float | bool) else ""
        lines.append(f"  {key}: {one['msg']}{shown}")
    return "\n".join(lines)
