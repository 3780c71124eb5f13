"""Bounded reading and strict checks of untrusted documents.

Tags, ledger entries, verdicts, reports, attestations and records of sets are read by this module
before any use. Every defect becomes an `InputError` with the name of the document.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from pydantic import JsonValue, ValidationError

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import convert_to_plain, find_differences, read_plain
from biasgate.tasks.common.printable import escape_invisible

MOST_BYTES = 128 * 2**20
MOST_LEVELS = 64
_MAX_INT = 2**63
# Do not follow links, and do not wait for named pipes. Windows has neither.
PLAIN_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
PLAIN_FILE |= getattr(os, "O_BINARY", 0)
# Signs of numbers and texts that other parsers refuse. Documents without them are not searched.
_SUSPECT = re.compile(rb"\\u[dD][89a-fA-F]|[0-9]{19}|[0-9][eE]\+?[0-9]{3}")
_REPEATED_KEY = "a key is repeated"
_MAX_SHOWN = 200

Checked = TypeVar("Checked")


def read_bytes(path: Path, name: str, max_bytes: int = MOST_BYTES) -> bytes:
    """Read a regular file of at most `max_bytes` bytes.

    Raises FileNotFoundError if the file does not exist.
    """
    with os.fdopen(_open_regular(path, name), "rb") as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        msg = f"{name} must have at most {max_bytes:,} bytes; {path} has more."
        raise InputError(msg)
    return content


def require_regular(path: Path, name: str) -> None:
    """Refuse links, pipes, devices and folders before another library opens the path.

    Raises FileNotFoundError if the file does not exist.
    """
    os.close(_open_regular(path, name))


def read_json(path: Path, name: str) -> Any:
    """Read a JSON file as `read_bytes` and `parse_json` do."""
    return parse_json(read_bytes(path, name), name)


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, JsonValue]:
    """Return an object; refuse repeated keys, since parsers disagree on their value."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError(_REPEATED_KEY)
    return content


def parse_json(content: bytes | str, name: str) -> Any:
    """Parse JSON; refuse repeated keys, NaN, unpaired surrogates, huge numbers and deep nesting."""
    try:
        text = content.decode() if isinstance(content, bytes) else content
        document = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated_keys
        )
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        msg = f"{name} must be JSON; got: {escape_invisible(reason)[:_MAX_SHOWN]}."
        raise InputError(msg) from None
    is_suspect = isinstance(content, str) or _SUSPECT.search(content) is not None
    for problem in _find_problems(document, is_suspect=is_suspect):
        msg = f"{name} must be plain JSON; {problem}."
        raise InputError(msg)
    return document


def check_document(
    content: Any,
    kind: type[Checked],
    name: str,
    *,
    rule: str = "as biasgate writes it",
    exact: bool = True,
) -> Checked:
    """Return a document if it has the expected keys and types.

    Parameters
    ----------
    content : JSON value
        The parsed document.
    kind : type
        A record class, whose instance is returned, or a typed dict, whose unknown keys are kept.
    name : str
        The name of the document in errors.
    rule : str
        The requirement in errors.
    exact : bool, default=True
        Refuse keys that the record lacks, so that a digest covers only values that were read.
        Standards that require unknown keys to be ignored need False.

    Raises
    ------
    InputError
        With the first wrong place, but not its value.
    """
    try:
        record = read_plain(kind, json.dumps(content))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        problem = (
            f"{escape_invisible(place)[:_MAX_SHOWN]}: {escape_invisible(first['msg'])[:_MAX_SHOWN]}"
        )
        msg = f"{name} must be {rule}; {problem}."
        raise InputError(msg) from None
    if isinstance(record, dict):
        checked: Checked = cast("Checked", content)
        return checked
    try:
        rewritten = convert_to_plain(record)
    except LookupError as error:
        msg = f"{name} must be {rule}; {escape_invisible(str(error))[:_MAX_SHOWN]} is missing."
        raise InputError(msg) from None
    if exact and (difference := next(find_differences(content, rewritten), None)) is not None:
        problem = f"{escape_invisible(difference or 'it')[:_MAX_SHOWN]} differs"
        msg = f"{name} must be {rule}; {problem}."
        raise InputError(msg)
    return record


def read_record(path: Path, kind: type[Checked], name: str | None = None) -> Checked:
    """Read and check a JSON file. `name`: its name in errors; default: its path."""
    name = name or str(path)
    return check_document(read_json(path, name), kind, name)


def _open_regular(path: Path, name: str) -> int:
    try:
        descriptor = os.open(path, PLAIN_FILE)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        if path.is_symlink():
            _refuse_kind(path, name, "a symbolic link")
        reason = getattr(error, "strerror", None) or type(error).__name__
        msg = f"{name} must be readable at {path}; got: {reason}."
        raise InputError(msg) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        _refuse_kind(path, name, "a folder, a device, a socket or a named pipe")
    return descriptor


def _refuse_kind(path: Path, name: str, kind: str) -> NoReturn:
    msg = f"{name} must be a regular file; {path} is {kind}."
    raise InputError(msg)


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not a number"
    raise ValueError(msg)


def _find_problems(content: Any, *, is_suspect: bool) -> Iterator[str]:
    """Yield the problems of a document, level by level, since recursion could overflow."""
    level = [content]
    for _ in range(MOST_LEVELS):
        if is_suspect:
            yield from filter(None, map(_describe_problem, level))
        children: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                children += value.values()
                if is_suspect:
                    yield from filter(None, map(_describe_problem, value))
            elif isinstance(value, list):
                children += value
        if not children:
            return
        level = children
    yield f"it is nested more than {MOST_LEVELS} levels deep"


def _describe_problem(value: Any) -> str | None:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "it has an unpaired surrogate"
    if isinstance(value, float) and not math.isfinite(value):
        return "it has a number that is too large"
    if isinstance(value, int) and abs(value) >= _MAX_INT:
        return "it has a number that is too large"
    return None
