"""Configuration files: YAML in, checked settings out, errors that name file and key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import found_instead
from biasgate.tasks.common.settings import NAME_PATTERN, UNKNOWN_KEY, Settings, expand_variables
from biasgate.tasks.common.strict_yaml import load_yaml, refuse_odd_values, refuse_other_file

QUOTED = r"'([^']*)'"
_RULES = {
    "missing": "must be given.",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be keys and values",
    "model_type": "must be keys and values",
    "model_attributes_type": "must be keys and values",
    "string_type": "must be text",
}
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
    text = ""
    try:
        refuse_other_file(path)
        text = path.read_text("utf-8")
        content = load_yaml(text)
    except OSError as error:
        msg = f"file {path} cannot be read: {error.strerror}."
        if isinstance(error, FileNotFoundError):
            msg = f"file {path} does not exist.{found_instead(path)}"
        raise InputError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"file {path} must be UTF-8."
        raise InputError(msg) from error
    except yaml.YAMLError as error:
        msg = f"file {path} must be YAML: {_yaml_place(error, text)}"
        raise InputError(msg) from error
    except RecursionError as error:
        msg = f"file {path} must be YAML of fewer levels: a list or section is within too many."
        raise InputError(msg) from error
    if not isinstance(content, dict):
        got = "nothing" if content is None else type(content).__name__
        msg = f"file {path} must hold keys and values; got {got}."
        raise InputError(msg)
    refuse_odd_values(content, f"file {path}")
    secret = {key: content[key] for key in kind.secret_keys & content.keys()}
    others = {key: value for key, value in content.items() if key not in secret}
    expanded = expand_variables(others, f"file {path}, key ") | secret
    try:
        return kind.model_validate(expanded, context={"folder": path.resolve().parent})
    except ValidationError as error:
        msg = _told(path, content, error, kind)
    # Without a cause: Pydantic's error shows the values.
    raise InputError(msg) from None


def _yaml_place(error: yaml.YAMLError, text: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    if mark is None:
        return f"{problem}."
    if "'\\t'" in problem:
        problem = "a line starts with a tab; indent with spaces"
    place = f"{problem} (line {mark.line + 1}, column {mark.column + 1})."
    if any("${" in line for line in text.splitlines()[mark.line : mark.line + 1]):
        place += " Within braces, put quotes around a value that has a `${VARIABLE}`."
    return place


def _told(path: Path, content: dict[str, Any], error: ValidationError, kind: type[Settings]) -> str:
    errors = error.errors(include_url=False)
    # Where a value may be a word or a list, report the error of the list.
    to_tell = [
        one
        for one in errors
        if not any("literal[" in str(part) for part in one["loc"][-1:])
        and not _counts_wrong_items(one, errors)
    ]
    lines = [
        f"  {_key(one['loc'], content)}: "
        f"{_rule(one, secret=one['loc'][0] in kind.secret_keys, lists=kind.lists)}"
        if one["loc"]
        else f"  (the whole file): {_rule(one, secret=False, lists={})}"
        for one in to_tell or errors
    ]
    return "\n".join([f"file {path} has {len(lines)} wrong value(s):", *lines])


def _counts_wrong_items(error: ErrorDetails, errors: Sequence[ErrorDetails]) -> bool:
    """Whether a list is too short only because its wrong items were not counted."""
    place = error["loc"]
    return error["type"] == "too_short" and any(
        one["loc"][: len(place)] == place and len(one["loc"]) > len(place) for one in errors
    )


def _key(place: tuple[int | str, ...], content: Any) -> str:
    """Return the keys that lead to a value, without what Pydantic puts between them."""
    keys = []
    for part in place:
        within = isinstance(content, list) and isinstance(part, int) and part < len(content)
        if within or (isinstance(content, dict) and (part in content or part == place[-1])):
            keys.append(str(part))
            content = content[part] if within else content.get(part)
    return ".".join(keys)


def _rule(error: ErrorDetails, *, secret: bool, lists: Mapping[str, str]) -> str:
    """State the rule, what was given, and what may have been meant."""
    kind, context, given = error["type"], error.get("ctx", {}), error["input"]
    rule = _RULES.get(kind, error["msg"].removeprefix("Value error, "))
    if kind in {"list_type", "tuple_type"}:
        holds = next((lists[one] for one in map(str, error["loc"][::-1]) if one in lists), None)
        rule = rule if holds is None else f"{rule} of {holds}"
    if kind in {UNKNOWN_KEY, "missing"} or secret:
        return rule
    if kind == "union_tag_not_found":
        key = context["discriminator"].strip("'")
        return f"must have the key `{key}`.{_instead(key, given)}"
    if kind == "union_tag_invalid":
        key, allowed = context["discriminator"].strip("'"), context["expected_tags"]
        rule, given = f"`{key}` must be one of {allowed}", context["tag"]
    elif kind == "literal_error":
        allowed = context["expected"]
        rule = f"must be {allowed}"
    else:
        allowed = ""
    if kind == "string_pattern_mismatch" and context["pattern"] == NAME_PATTERN:
        rule = (
            "must be at most 100 letters, digits, spaces and characters of `_.-`, and start with "
            "a letter or digit"
        )
    if not isinstance(given, str | int | float | bool):
        return f"{rule.rstrip('.')}."
    if isinstance(given, str) and "://" in given:  # the query of a URL may hold a key
        given = re.sub(r"\?.*", "?***", given, flags=re.DOTALL)
    return f"{rule.rstrip('.')}; got {given!r}.{did_you_mean(given, re.findall(QUOTED, allowed))}"


def _instead(key: str, section: Any) -> str:
    similar = [name for name in section if did_you_mean(name, [key])] if section else []
    return f" Did you write {similar[0]!r} instead?" if similar else ""
