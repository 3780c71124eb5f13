"""YAML that is safe to read: plain values, no repeated keys, no aliases that grow without limit."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import yaml

from biasgate.tasks.common.errors import InputError

_MOST_BYTES = 16 * 2**20
_MOST_VALUES = 1_000_000
# NUL ends a path, and half a surrogate pair cannot be written to any file.
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_PLAIN = (str, int, float, bool, dt.date, type(None))


def refuse_other_file(path: Path) -> None:
    """Refuse what is no file of a reasonable size: a pipe or a device may never end.

    Raises
    ------
    InputError
        If it exists, and is no such file.
    """
    size = path.stat().st_size
    if path.is_dir() or (path.is_file() and size <= _MOST_BYTES):
        return
    got = f"it has {size:,}" if path.is_file() else "it is a pipe or a device"
    msg = f"file {path} must be a file of at most {_MOST_BYTES:,} bytes; {got}."
    raise InputError(msg)


def load_yaml(text: str) -> Any:
    """Read YAML.

    Raises
    ------
    yaml.YAMLError
        If it cannot be parsed, a key is repeated or not plain, a value does not fit its tag, or
        aliases make too many values; with the line.
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
    """Refuse values that no setting can have, and text that cannot be written.

    Raises
    ------
    InputError
        With the keys that lead to the value.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            at = f"{where}, {key}" if isinstance(key, str | int) else where
            refuse_odd_values(key, at)
            refuse_odd_values(item, at)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            refuse_odd_values(item, f"{where}, {number}")
    elif not isinstance(value, _PLAIN):
        msg = (
            f"a value must be text, a number, true, false, a date, a list or a section; got "
            f"{type(value).__name__} ({where})."
        )
        raise InputError(msg)
    elif isinstance(value, str) and _UNWRITABLE.search(value):
        msg = f"text must be without NUL and half characters; this one has some ({where!r})."
        raise InputError(msg)


class _Loader(yaml.SafeLoader):
    """Safe loading in which a repeated key is an error, not a silent replacement."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        """Name the line of a value that does not fit its tag, as in `2026-13-45`."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            problem = f"this is not a valid value of the kind {kind}; put quotes around text"
            raise yaml.MarkedYAMLError(None, None, problem, node.start_mark) from error

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Refuse repeated keys, and keys that are lists or sections."""
        seen = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else []:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # `<<: *anchor`, whose keys may be overridden
            if not isinstance(key_node, yaml.ScalarNode):
                problem = "a key must be text, not a list or section"
                raise yaml.MarkedYAMLError(None, None, problem, key_node.start_mark)
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                problem = f"the key {key!r} is given twice"
                raise yaml.MarkedYAMLError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _refuse_too_many(node: yaml.Node) -> None:
    """Refuse aliases that stand for too many values, or for what they are part of."""
    sizes: dict[int, int | None] = {}

    def size(one: yaml.Node) -> int:
        if id(one) not in sizes:
            sizes[id(one)] = None  # until it is known
            parts = one.value if isinstance(one, yaml.CollectionNode) else []
            pairs = (part if isinstance(part, tuple) else (part,) for part in parts)
            sizes[id(one)] = 1 + sum(size(part) for pair in pairs for part in pair)
        known = sizes[id(one)]
        if known is None or known > _MOST_VALUES:
            problem = (
                "an alias is part of what it stands for"
                if known is None
                else f"with its aliases this stands for more than {_MOST_VALUES:,} values"
            )
            raise yaml.MarkedYAMLError(None, None, problem, one.start_mark)
        return known

    size(node)
