"""The errors that mean "your input, not our code"."""

from __future__ import annotations


class InputError(ValueError):
    """Input that its owner must fix: a file, a configuration, a score.

    The text states the rule, what was found, where (file, column, row, id) and, if it is not
    obvious, what to do next. It never contains a comment's text. Rows count from 0.
    """


class CandidateError(RuntimeError):
    """A candidate failed while scoring; a retry may succeed.

    Its own message is withheld, since it may quote a comment.
    """


def shown_id(value: object) -> str:
    """Return an id for a message; one with spaces may be a comment and is left out."""
    return "(one with spaces)" if len(str(value).split()) > 1 else str(value)


class CandidateStoppedError(CandidateError):
    """A candidate was stopped: it took too long or used too much memory. It is not retried."""


def place(**parts: object) -> str:
    """Format where something was found, as in `(file a.csv, column score, row 3)`."""
    if "id" in parts and parts["id"] is not None:
        parts["id"] = shown_id(parts["id"])
    named = [f"{name} {value}" for name, value in parts.items() if value is not None]
    return f"({', '.join(named)})" if named else ""
