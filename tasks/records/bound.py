"""The files that determine the scores of a candidate, recorded in its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class FileRecord(Record):
    """A file below a folder: its relative path with `/`, its size in bytes, and its SHA-256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Bound(Record):
    """The files that determine a candidate's scores.

    `what` is `files` (of a model), `scores` (a file of scores) or `nothing`, with a null `digest`.
    `not_bound` describes other inputs that affect the scores; null without such inputs.
    `signed_by` is the SHA-256 of the key of a required signature of the files, which was valid.
    """

    what: Literal["files", "scores", "nothing"]
    digest: str | None
    files: list[FileRecord]
    not_bound: str | None
    signed_by: str | None = None
