"""Errors of input, candidates, sources, servers and analyses."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

from biasgate.tasks.common.secrets import mask_secrets

Result = TypeVar("Result")
_PLAIN_ID = re.compile(r"[!-~]{1,80}")
# Names with letters of scripts without spaces are refused, since a comment may be a single word.
_PLAIN_NAME = re.compile(r"[A-Za-z_\u00C0-\u052F][\dA-Za-z_.@/\u00C0-\u052F-]{0,39}")
_HEADING = re.compile(r"\S+( \S+){0,4}")
_MAX_HEADING_LENGTH = 40
_MAX_NAMES = 10


class InputError(ValueError):
    """Input that the user must fix: a file, a configuration or a score.

    The text states the rule, the value, its place (file, column, row, id) and, if it is not
    obvious, what to do next. It never contains a comment's text. Rows count from 0. Values of
    environment variables in the configuration, and passwords in URLs, are masked.
    """

    def __init__(self, text: str) -> None:
        super().__init__(mask_secrets(text))


class MisreadError(InputError):
    """Values that contradict the settings of the source, independent of single rows."""


class CandidateError(RuntimeError):
    """Failure of a candidate during scoring; a retry may succeed.

    The original message is withheld, since it may quote a comment.
    """


def format_install_hint(extra: str) -> str:
    """Return the command that installs an extra of biasgate, which no package index offers."""
    return (
        f'pip install ".[{extra}]" in a checkout of biasgate, '
        "or with the path of its wheel in place of the dot"
    )


def format_id(value: object) -> str:
    """Return an id for a message, without any id that may be the text of a comment."""
    text = str(value)
    if _PLAIN_ID.fullmatch(text):
        return text
    return "(with spaces)" if text.split() != [text] else "(withheld: may be a comment)"


def format_column_names(names: Iterable[object], *, is_header: bool = False) -> str:
    """Return the names of columns for a message; texts that may be comments are only counted.

    A file without a header, or the answer of a model, may have comments in place of names. Names
    may have spaces if they are known to be a header (`is_header`).
    """
    texts = [str(name) for name in names]
    pattern = _HEADING if is_header else _PLAIN_NAME
    short = [text for text in texts if len(text) <= _MAX_HEADING_LENGTH]
    listed = [repr(text) for text in short if pattern.fullmatch(text)][:_MAX_NAMES]
    if len(texts) > len(listed):
        listed.append(
            f"{len(texts) - len(listed)} {'more' if listed else 'columns with other names'}"
        )
    return ", ".join(listed)


class CandidateStoppedError(CandidateError):
    """Candidate that took too long, used too much memory or failed repeatedly; not retried."""


class SourceError(RuntimeError):
    """Failure of the source of an evaluation set; a retry may succeed.

    The original message is withheld, since it may quote a comment.
    """


class ServerError(RuntimeError):
    """Timeout of MLflow's server; not retried, since the timeout covers all attempts."""

    def __init__(self, text: str) -> None:
        super().__init__(mask_secrets(text))


class AnalysisError(RuntimeError):
    """Failure of an analysis; the original message is withheld, since it may quote a comment."""


FINAL_ERRORS = (ImportError, NameError, NotImplementedError, SyntaxError)
"""Errors of missing or broken code, which every retry would raise again."""
_FINAL_KINDS = {CandidateError: CandidateStoppedError, SourceError: InputError}
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,9}", re.ASCII)


def describe_missing_module(error: BaseException | None) -> str | None:
    """Return a hint for a failed import with the command that fixes it; None for other errors."""
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


def withhold_message(
    call: Callable[[], Result],
    subject: str,
    kind: type[CandidateError | SourceError | AnalysisError],
) -> Result:
    """Call code that reads comments; report a failure by its type and place, without its text.

    The error is raised without a cause, since a log would show the text of the cause. If a retry
    cannot succeed, its type is not retried.
    """
    raised: type[Exception] = kind
    try:
        return call()
    except (InputError, CandidateError, SourceError, ServerError, AnalysisError):
        raise
    except Exception as error:  # noqa: BLE001 - third-party code may raise anything
        frames = traceback.extract_tb(error.__traceback__)[-2:]
        places = ", ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
        msg = (
            f"{subject} failed with {type(error).__name__} at {places}; its message is withheld, "
            "since it may quote a comment."
        )
        missing = describe_missing_module(error)
        if missing is not None:
            msg = f"{subject} cannot run: {missing}"
        if missing is not None or isinstance(error, FINAL_ERRORS):
            raised = _FINAL_KINDS.get(kind, kind)
    raise raised(msg)


def format_place(**parts: object) -> str:
    """Format the place of an error, as in `(file a.csv, column score, row 3)`."""
    if "id" in parts and parts["id"] is not None:
        parts["id"] = format_id(parts["id"])
    labelled = [f"{name} {value}" for name, value in parts.items() if value is not None]
    return f"({', '.join(labelled)})" if labelled else ""
