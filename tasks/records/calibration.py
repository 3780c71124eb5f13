"""Calibration in a report: whether scores are probabilities."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics import MetricValue
from biasgate.tasks.records.record import Record


@dataclass(frozen=True, kw_only=True)
class Bin(Record):
    """Rows of similar scores, with the band of their share of positives."""

    n: int
    mean_score: float
    share_positive: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Calibrated(Record):
    """The calibration of some rows."""

    n: int
    n_positive: int
    bias: MetricValue
    reliability: list[Bin]


@dataclass(frozen=True, kw_only=True)
class CalibratedGroup(Calibrated):
    """The calibration of an identity, and of its background."""

    background: Calibrated


@dataclass(frozen=True, kw_only=True)
class Calibration(Record):
    """`CalibrationReport.to_dict()`, in words too; `reason` says why numbers are undefined.

    With very many identities there are only the numbers of all rows.
    """

    overall: Calibrated
    subgroups: dict[str, CalibratedGroup]
    sentence: str
    reason: str | None = None
