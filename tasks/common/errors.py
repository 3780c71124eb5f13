"""The errors that mean "your input, not our code"."""

from __future__ import annotations


class InputError(ValueError):
    """Input that must be mended by its owner: a file, a configuration, a score.

    The text says what the rule is, what was found, where (file, column, row, id) and, where
    it is not obvious, what to do next. It never contains a comment's text. Rows count from 0.
    """


class CandidateError(RuntimeError):
    """A candidate failed while it scored; the next try may do better.

    Whatever it said is withheld, since it may quote a comment.
    """


def shown_id(value: object) -> str:
    """Return an id for a message; one with spaces may be a comment and is left out."""
    return "(one with spaces)" if len(str(value).split()) > 1 else str(value)


class CandidateStoppedError(CandidateError):
    """A candidate was stopped, since it took too long or too much memory; it is not tried again."""


def place(**parts: object) -> str:
    """Format where something was found, as in `(file a.csv, column score, row 3)`."""
    if "id" in parts and parts["id"] is not None:
        parts["id"] = shown_id(parts["id"])
    named = [f"{name} {value}" for name, value in parts.items() if value is not None]
    return f"({', '.join(named)})" if named else ""
