"""Calibration in a report: the agreement of scores with the share of positives."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics import MetricValue
from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class Bin(Record):
    """Rows with similar scores, and the share of positives with its confidence band."""

    n: int
    mean_score: float
    share_positive: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Calibrated(Record):
    """The calibration of a set of rows."""

    n: int
    n_positive: int
    bias: MetricValue
    reliability: list[Bin]


@dataclass(frozen=True, kw_only=True)
class CalibratedGroup(Calibrated):
    """The calibration of an identity, and of its background."""

    background: Calibrated


@dataclass(frozen=True, kw_only=True)
class CalibrationRecord(Record):
    """`CalibrationReport.to_dict()` with a sentence, and a `reason` if numbers are undefined.

    With more than 64 identities, it has only the numbers of all rows.
    """

    overall: Calibrated
    subgroups: dict[str, CalibratedGroup]
    sentence: str
    reason: str | None = None
