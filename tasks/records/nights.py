"""The nights whose rows a verdict pools."""

from __future__ import annotations

from dataclasses import dataclass

from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class NightRecord(Record):
    """The rows of one night: the digest of its set, and the number and digest of measured rows."""

    set_digest: str
    n_rows: int
    rows_digest: str


@dataclass(frozen=True, kw_only=True)
class NightsRecord(Record):
    """All nights in a file of evidence, and why the first is the first."""

    began: str
    each: list[NightRecord]


LAST_NIGHTS = 7
"""On how many nights' rows floors and ceilings are looked at alone, where more are pooled."""


@dataclass(frozen=True, kw_only=True)
class JudgedNights(NightsRecord):
    """What a verdict says of the nights that it pools.

    `number` is that of the night, `n_rows` the measured rows of all nights, `planned_rows` the
    number for which the bounds are tightest, and `bound` the kind of the bounds.
    """

    number: int
    n_rows: int
    planned_rows: int
    bound: str
