"""The errors that mean "your input, not our code"."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

from biasgate.tasks.common.secrets import masked

Result = TypeVar("Result")
_PLAIN_ID = re.compile(r"[!-~]{1,80}")
# Letters of scripts without spaces are not those of a name: a comment may be a single "word".
_PLAIN_NAME = re.compile(r"[A-Za-z_\u00C0-\u052F][\dA-Za-z_.@/\u00C0-\u052F-]{0,39}")
_HEADING = re.compile(r"\S+( \S+){0,4}")
_LONGEST_HEADING = 40
_MOST_NAMES = 10


class InputError(ValueError):
    """Input that its owner must fix: a file, a configuration, a score.

    The text states the rule, what was found, where (file, column, row, id) and, if it is not
    obvious, what to do next. It never contains a comment's text. Rows count from 0. What
    variables of the configuration hold, and passwords in URLs, are masked.
    """

    def __init__(self, text: str) -> None:
        super().__init__(masked(text))


class MisreadError(InputError):
    """Values which show that settings read them wrongly, whichever rows they are of."""


class CandidateError(RuntimeError):
    """A candidate failed while scoring; a retry may succeed.

    Its own message is withheld, since it may quote a comment.
    """


def to_install(extra: str) -> str:
    """Say how to install an extra of biasgate; no package index has it, so never by its name."""
    return (
        f'pip install ".[{extra}]" in a checkout of biasgate, '
        "or with the path of its wheel in place of the dot"
    )


def shown_id(value: object) -> str:
    """Return an id for a message; one with spaces or other letters may be a comment: left out."""
    text = str(value)
    if _PLAIN_ID.fullmatch(text):
        return text
    return "(with spaces)" if text.split() != [text] else "(withheld: may be a comment)"


def shown_names(names: Iterable[object], *, is_header: bool = False) -> str:
    """Return the names of columns for a message; what does not look like a name is counted.

    A table may have comments where names are expected: a file without a header, an answer of a
    model. Names may have spaces if these are known to be a header (`is_header`).
    """
    texts = [str(name) for name in names]
    pattern = _HEADING if is_header else _PLAIN_NAME
    short = [text for text in texts if len(text) <= _LONGEST_HEADING]
    shown = [repr(text) for text in short if pattern.fullmatch(text)][:_MOST_NAMES]
    if len(texts) > len(shown):
        shown.append(f"{len(texts) - len(shown)} {'more' if shown else 'columns with other names'}")
    return ", ".join(shown)


class CandidateStoppedError(CandidateError):
    """A candidate that took too long, used too much memory or failed several times: not retried."""


class SourceError(RuntimeError):
    """The source of an evaluation set failed; a retry may succeed.

    Its own message is withheld, since it may quote a comment.
    """


class ServerError(RuntimeError):
    """MLflow's server did not answer for as long as it is waited for: not retried."""

    def __init__(self, text: str) -> None:
        super().__init__(masked(text))


class AnalysisError(RuntimeError):
    """An analysis failed. Its own message is withheld, since it may quote a comment."""


FINAL = (ImportError, NameError, NotImplementedError, SyntaxError)
"""What fails in the same way however often it is tried."""
_FOR_GOOD = {CandidateError: CandidateStoppedError, SourceError: InputError}
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,9}", re.ASCII)


def lacking_module(error: BaseException | None) -> str | None:
    """Say which module cannot be imported, and the command that helps; None if none is behind."""
    while error is not None and not isinstance(error, ImportError):
        error = error.__cause__
    if error is None or error.name is None or not _MODULE.fullmatch(error.name[:200]):
        return None
    install = f"{sys.executable} -m pip install PACKAGE"
    if isinstance(error, ModuleNotFoundError):
        return f"module {error.name!r} must be installed; it is not. Install its package: {install}"
    return (
        f"module {error.name!r} must have what is imported from it. Install another version: "
        f"{install}"
    )


def without_quotes(
    call: Callable[[], Result], of: str, kind: type[CandidateError | SourceError | AnalysisError]
) -> Result:
    """Call code that reads comments; report a failure by its type and place, without its text.

    The error carries no cause, whose text a log would show. It is of a type that is not tried again
    if it cannot change.
    """
    raised: type[Exception] = kind
    try:
        return call()
    except (InputError, CandidateError, SourceError, ServerError, AnalysisError):
        raise
    except Exception as error:  # noqa: BLE001 - other people's code may raise anything
        frames = traceback.extract_tb(error.__traceback__)[-2:]
        places = ", ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
        msg = (
            f"{of} failed with {type(error).__name__} at {places}; its message is withheld, since "
            "it may quote a comment."
        )
        lacking = lacking_module(error)
        if lacking is not None:
            msg = f"{of} cannot run: {lacking}"
        if lacking is not None or isinstance(error, FINAL):
            raised = _FOR_GOOD.get(kind, kind)
    raise raised(msg)


def place(**parts: object) -> str:
    """Format where something was found, as in `(file a.csv, column score, row 3)`."""
    if "id" in parts and parts["id"] is not None:
        parts["id"] = shown_id(parts["id"])
    named = [f"{name} {value}" for name, value in parts.items() if value is not None]
    return f"({', '.join(named)})" if named else ""
