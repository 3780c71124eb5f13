"""Calibration in a report: whether scores are probabilities."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from biasgate.tasks.records.numbers import Cell


class Bin(TypedDict):
    """Rows of similar scores, with the band of their share of positives."""

    n: int
    mean_score: float
    share_positive: float
    low: float
    high: float


class Calibrated(TypedDict):
    """The calibration of some rows."""

    n: int
    n_positive: int
    bias: Cell
    brier: Cell
    slope: Cell
    calibration_error: Cell
    reliability: list[Bin]


class CalibratedGroup(Calibrated):
    """The calibration of an identity, of its background, and the gaps between them."""

    background: Calibrated
    calibration_gap: Cell
    brier_gap: Cell
    slope_gap: Cell


class Calibration(TypedDict):
    """`CalibrationReport.to_dict()`, in words too; `reason` says why numbers are undefined.

    With very many identities there are only the numbers of all rows.
    """

    overall: Calibrated
    subgroups: dict[str, CalibratedGroup]
    sentence: str
    reason: NotRequired[str]
