"""What a verdict binds: the files that decide the scores of a candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class FileRecord(Record):
    """A file below a folder: its path with `/`, its bytes, and their SHA-256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Bound(Record):
    """The files that decide a candidate's scores.

    `what` is `files` (a model's), `scores` (a file of scores) or `nothing`; `digest` is null for
    nothing. `not_bound` says what else decides the scores; null if nothing else does.
    `signed_by` is the SHA-256 of the key whose signature of the files was demanded, and held.
    """

    what: Literal["files", "scores", "nothing"]
    digest: str | None
    files: list[FileRecord]
    not_bound: str | None
    signed_by: str | None = None
