"""Documents from others: read with bounds, then checked.

Tags, ledger entries, verdicts, reports, attestations and records of sets all pass through here
before anything looks into them. Whatever is wrong with one becomes an `InputError` that names it.
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
from biasgate.tasks.common.plain import differences, plain, read_plain
from biasgate.tasks.common.printable import printable

MOST_BYTES = 128 * 2**20
MOST_LEVELS = 64
_MOST_INT = 2**63
# A link is not followed, and opening a named pipe does not wait. Windows has neither.
PLAIN_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
PLAIN_FILE |= getattr(os, "O_BINARY", 0)
# What numbers and texts that others cannot read look like; other documents are not searched.
_SUSPECT = re.compile(rb"\\u[dD][89a-fA-F]|[0-9]{19}|[0-9][eE]\+?[0-9]{3}")
_TWICE = "a key is repeated"
_SHOWN = 200

Checked = TypeVar("Checked")


def read_bytes(path: Path, what: str, most: int = MOST_BYTES) -> bytes:
    """Read a regular file, which may not be larger than `most` bytes.

    Raises FileNotFoundError if there is none.
    """
    with os.fdopen(_open(path, what), "rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        msg = f"{what} must have at most {most:,} bytes; {path} has more."
        raise InputError(msg)
    return content


def require_regular(path: Path, what: str) -> None:
    """Refuse anything but a regular file, before another library opens it.

    Raises FileNotFoundError if there is none.
    """
    os.close(_open(path, what))


def read_json(path: Path, what: str) -> Any:
    """Read a JSON file as `read_bytes` and `parse_json` do."""
    return parse_json(read_bytes(path, what), what)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, JsonValue]:
    """Return an object; programs disagree on the value of a repeated key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(_TWICE)
    return found


def parse_json(content: bytes | str, what: str) -> Any:
    """Read JSON that can be written again: no key twice, NaN, half characters or deep nesting."""
    try:
        text = content.decode() if isinstance(content, bytes) else content
        found = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        told = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        msg = f"{what} must be JSON; got: {printable(told)[:_SHOWN]}."
        raise InputError(msg) from None
    suspect = isinstance(content, str) or _SUSPECT.search(content) is not None
    for problem in _problems(found, suspect=suspect):
        msg = f"{what} must be plain JSON; {problem}."
        raise InputError(msg)
    return found


def check(
    content: Any,
    kind: type[Checked],
    what: str,
    *,
    rule: str = "as biasgate writes it",
    exact: bool = True,
) -> Checked:
    """Return a document if it has the expected keys and types.

    A record is returned as its class. Every part of the file must then be a part of the record:
    what a digest covers is what was read.

    `kind`: a record, or a typed dict, whose other keys are left as they are. `exact`: refuse other
    keys than the record's; where a standard says so, they are ignored.

    The error names the first place that is wrong, without its value.
    """
    try:
        found = read_plain(kind, json.dumps(content))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        problem = f"{printable(place)[:_SHOWN]}: {printable(first['msg'])[:_SHOWN]}"
        msg = f"{what} must be {rule}; {problem}."
        raise InputError(msg) from None
    if isinstance(found, dict):
        same: Checked = cast("Checked", content)
        return same
    try:
        written = plain(found)
    except LookupError as error:
        msg = f"{what} must be {rule}; {printable(str(error))[:_SHOWN]} is missing."
        raise InputError(msg) from None
    if exact and (wrong := next(differences(content, written), None)) is not None:
        problem = f"{printable(wrong or 'it')[:_SHOWN]} differs"
        msg = f"{what} must be {rule}; {problem}."
        raise InputError(msg)
    return found


def read_record(path: Path, kind: type[Checked], what: str | None = None) -> Checked:
    """Read a file as `read_json` and `check` do; `what` it is, if its path does not say it."""
    what = what or str(path)
    return check(read_json(path, what), kind, what)


def _open(path: Path, what: str) -> int:
    try:
        opened = os.open(path, PLAIN_FILE)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        if path.is_symlink():
            _refuse_kind(path, what, "a symbolic link")
        reason = getattr(error, "strerror", None) or type(error).__name__
        msg = f"{what} must be readable at {path}; got: {reason}."
        raise InputError(msg) from error
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        _refuse_kind(path, what, "a folder, a device, a socket or a named pipe")
    return opened


def _refuse_kind(path: Path, what: str, kind: str) -> NoReturn:
    msg = f"{what} must be a regular file; {path} is {kind}."
    raise InputError(msg)


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not a number"
    raise ValueError(msg)


def _problems(content: Any, *, suspect: bool) -> Iterator[str]:
    """Yield what is wrong, level by level: nothing here calls itself."""
    level = [content]
    for _ in range(MOST_LEVELS):
        if suspect:
            yield from filter(None, map(_problem, level))
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
                if suspect:
                    yield from filter(None, map(_problem, one))
            elif isinstance(one, list):
                below += one
        if not below:
            return
        level = below
    yield f"it is nested more than {MOST_LEVELS} levels deep"


def _problem(value: Any) -> str | None:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "it has an unpaired surrogate"
    if isinstance(value, float) and not math.isfinite(value):
        return "it has a number that is too large"
    if isinstance(value, int) and abs(value) >= _MOST_INT:
        return "it has a number that is too large"
    return None
