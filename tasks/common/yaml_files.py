"""Configuration files: YAML is read into checked settings, and errors name file and key."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bias_metrics.parts import format_count
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import suggest_path
from biasgate.tasks.common.settings import (
    NAME_PATTERN,
    NAME_RULE,
    UNKNOWN_KEY,
    Settings,
    expand_variables,
)

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
    """Read a YAML file into settings.

    Relative paths in the file start at its folder. `${NAME}` and `${NAME:-default}` are replaced by
    environment variables.
    """
    text = ""
    try:
        refuse_other_file(path)
        text = path.read_text("utf-8")
        content = load_yaml(text)
    except OSError as error:
        msg = f"file {path} cannot be read: {error.strerror}."
        if isinstance(error, FileNotFoundError):
            msg = f"file {path} does not exist.{suggest_path(path)}"
        raise InputError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"file {path} must be UTF-8."
        raise InputError(msg) from error
    except yaml.YAMLError as error:
        msg = f"file {path} must be YAML: {_describe_yaml_error(error, text)}"
        raise InputError(msg) from error
    except RecursionError as error:
        msg = f"file {path} must be YAML with fewer levels; it is nested too deeply."
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
        msg = _describe_errors(path, content, error, kind)
    # Without a cause, since Pydantic's error shows the values.
    raise InputError(msg) from None


def _describe_yaml_error(error: yaml.YAMLError, text: str) -> str:
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


def _describe_errors(path: Path, content: Any, error: ValidationError, kind: type[Settings]) -> str:
    errors = error.errors(include_url=False)
    parents = {detail["loc"][:n] for detail in errors for n in range(len(detail["loc"]))}
    # If a value may be a word or a list, report only the error of the list. A list with wrong items
    # is too short only because Pydantic did not count these items.
    reported = [
        detail
        for detail in errors
        if not any("literal[" in str(part) for part in detail["loc"][-1:])
        and not (detail["type"] == "too_short" and detail["loc"] in parents)
    ]
    lines = [
        f"  {_format_key(place, content)}: "
        f"{_format_rule(problem, secret=place[0] in kind.secret_keys, lists=kind.lists)}"
        if (place := problem["loc"])
        else f"  (the whole file): {_format_rule(problem, secret=False, lists={})}"
        for problem in reported or errors
    ]
    message = [f"file {path} has {format_count(len(lines), 'wrong value')}:", *lines]
    if kind.explained_by:
        sections = dict.fromkeys(
            _find_section(problem, content, kind) for problem in reported or errors
        )
        command = kind.explained_by.rpartition(" ")[0]
        commands = " and ".join(f"`{command} {section}`" for section in sections)
        message.append(f"  To list the keys: {commands}.")
    return "\n".join(message)


def _find_section(error: ErrorDetails, content: Any, kind: type[Settings]) -> str:
    """Return the section that explains an error: the kind of a list item, if it has a kind."""
    section = kind.explained_by.rpartition(" ")[2]
    place = error["loc"]
    if not place or place[0] not in kind.lists:
        return section
    path = place if error["type"].startswith("union_tag") else (*place, None)
    content = content.get(place[0])
    for part in path[1:]:
        if isinstance(content, dict):
            name = content.get("source", content.get("kind"))
            if isinstance(name, str) and re.fullmatch("[a-z_]+", name):
                section = name
            content = content.get(part)
        elif isinstance(content, list) and isinstance(part, int) and part < len(content):
            content = content[part]
    return section


def _format_key(place: tuple[int | str, ...], content: Any) -> str:
    """Return the keys that lead to a value, without Pydantic's own additions."""
    keys = []
    for part in place:
        is_item = isinstance(content, list) and isinstance(part, int) and part < len(content)
        if is_item or (isinstance(content, dict) and (part in content or part == place[-1])):
            keys.append(str(part))
            content = content[part] if is_item else content.get(part)
    return ".".join(keys)


def _format_rule(error: ErrorDetails, *, secret: bool, lists: Mapping[str, str]) -> str:
    """Return the rule, the given value, and a suggestion."""
    kind, context, given = error["type"], error.get("ctx", {}), error["input"]
    rule = _RULES.get(kind, error["msg"].removeprefix("Value error, "))
    if kind in {"list_type", "tuple_type"}:
        # The content of a list of the file, not of a list nested in its items.
        own_keys = takewhile(lambda part: isinstance(part, str), error["loc"][::-1])
        list_content = next((lists[str(name)] for name in own_keys if name in lists), None)
        rule = rule if list_content is None else f"{rule} of {list_content}"
    if kind in {UNKNOWN_KEY, "missing"} or secret:
        return rule
    if kind == "union_tag_not_found":
        key = context["discriminator"].strip("'")
        similar = [name for name in given or () if did_you_mean(name, [key])]
        hint = f" Did you write {similar[0]!r} instead?" if similar else ""
        return f"must have the key `{key}`.{hint}"
    if kind == "union_tag_invalid":
        key, allowed = context["discriminator"].strip("'"), context["expected_tags"]
        rule, given = f"`{key}` must be one of {allowed}", context["tag"]
    elif kind == "literal_error":
        allowed = context["expected"]
        rule = f"must be {allowed}"
    else:
        allowed = ""
    if kind == "string_pattern_mismatch" and context["pattern"] == NAME_PATTERN:
        rule = NAME_RULE
    if not isinstance(given, str | int | float | bool):
        return f"{rule.rstrip('.')}."
    if isinstance(given, str) and "://" in given:  # the query of a URL may hold a key
        given = re.sub(r"\?.*", "?***", given, flags=re.DOTALL)
    return f"{rule.rstrip('.')}; got {given!r}.{did_you_mean(given, re.findall(QUOTED, allowed))}"


_MAX_BYTES = 16 * 2**20
_MAX_VALUES = 1_000_000
# NUL ends a path, and unpaired surrogates cannot be written to a file.
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_PLAIN_TYPES = (str, int, float, bool, dt.date, type(None))


def refuse_other_file(path: Path) -> None:
    """Refuse large files, and pipes and devices, which may never end."""
    size = path.stat().st_size
    if path.is_dir() or (path.is_file() and size <= _MAX_BYTES):
        return
    got = f"it has {size:,}" if path.is_file() else "it is a pipe or a device"
    msg = f"file {path} must be a file of at most {_MAX_BYTES:,} bytes; {got}."
    raise InputError(msg)


def load_yaml(text: str) -> Any:
    """Parse YAML.

    Raises YAMLError with the line, also if a key is repeated or not a scalar, or if aliases expand
    to too many values.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_too_many(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def refuse_odd_values(value: Any, where: str) -> None:
    """Refuse values of types that settings never have, and text that cannot be written."""
    if isinstance(value, dict):
        for key, item in value.items():
            place = f"{where}, {key}" if isinstance(key, str | int) else where
            refuse_odd_values(key, place)
            refuse_odd_values(item, place)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            refuse_odd_values(item, f"{where}, {number}")
    elif not isinstance(value, _PLAIN_TYPES):
        msg = (
            f"a value must be text, a number, true, false, a date, a list or a section; got "
            f"{type(value).__name__} ({where})."
        )
        raise InputError(msg)
    elif isinstance(value, str) and _UNWRITABLE.search(value):
        msg = f"text must not hold NUL or unpaired surrogates; it does ({where!r})."
        raise InputError(msg)


_TEXT_TAG = "tag:yaml.org,2002:str"


class _Loader(yaml.SafeLoader):
    """Safe loader that refuses repeated keys, which YAML parsers usually overwrite silently."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        """Add the line to the error of a value that does not fit its tag, as in `2026-13-45`."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            problem = f"this is not a valid value of the kind {kind}; put quotes around text"
            raise yaml.MarkedYAMLError(None, None, problem, node.start_mark) from error

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Refuse repeated keys, and keys that are lists or sections.

        All keys are read as text, so that `no: 0` and `1: 0` have the keys "no" and "1".
        """
        seen = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else []:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # `<<: *anchor`, whose keys may be overridden
            if not isinstance(key_node, yaml.ScalarNode):
                problem = "a key must be text, not a list or section"
                raise yaml.MarkedYAMLError(None, None, problem, key_node.start_mark)
            key_node.tag = _TEXT_TAG
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                problem = f"the key {key!r} is given twice"
                raise yaml.MarkedYAMLError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _refuse_too_many(node: yaml.Node) -> None:
    """Refuse aliases that expand to too many values, or that contain themselves."""
    sizes: dict[int, int | None] = {}

    def count_values(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = None  # marks a node in progress
            parts = node.value if isinstance(node, yaml.CollectionNode) else []
            pairs = (part if isinstance(part, tuple) else (part,) for part in parts)
            sizes[id(node)] = 1 + sum(count_values(part) for pair in pairs for part in pair)
        n_values = sizes[id(node)]
        if n_values is None or n_values > _MAX_VALUES:
            problem = (
                "an alias refers to itself"
                if n_values is None
                else f"its aliases expand to more than {_MAX_VALUES:,} values"
            )
            raise yaml.MarkedYAMLError(None, None, problem, node.start_mark)
        return n_values

    count_values(node)
