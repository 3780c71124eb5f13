"""What `calibration_report` and `compare_calibration` return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bias_metrics._core.differences import Difference
from bias_metrics._core.tables import Row, Table, Tabular, labelled
from bias_metrics._core.values import MetricValue
from bias_metrics.calibration.numbers import ReliabilityBin
from bias_metrics.groups.counts import as_dicts
from bias_metrics.metrics import calibration_metrics

NUMBERS = ("bias", "brier", "slope", "calibration_error", "cumulative_error")


@dataclass(frozen=True)
class Calibrated:
    """The calibration of some rows."""

    n: int
    n_positive: int
    """n, n_positive: rows, and positives among them."""
    bias: MetricValue
    """Mean score minus the share of positives; 0 if calibrated in the mean."""
    brier: MetricValue
    """Mean squared distance of scores from labels; lower is better."""
    slope: MetricValue
    """Of a logistic regression of the labels on the log-odds of the scores: 1 if calibrated, below
    1 if scores are too extreme."""
    calibration_error: MetricValue
    """Debiased root mean square distance of scores from shares of positives, in bins."""
    cumulative_error: MetricValue
    """Range of the cumulative differences of labels and scores (ECCE-R), without bins: ideal 0, and
    about 1.6 times its `std_error` if calibrated. Not measured of backgrounds."""
    reliability: tuple[ReliabilityBin, ...] = ()
    """The bins, by ascending score."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        numbers = {name: getattr(self, name).to_dict(interval=True) for name in NUMBERS}
        counts: dict[str, Any] = {"n": self.n, "n_positive": self.n_positive}
        return (
            counts
            | numbers
            | {"reliability": [asdict(reliability_bin) for reliability_bin in self.reliability]}
        )


@dataclass(frozen=True)
class CalibrationReport(Tabular):
    """Calibration of all rows and of each subgroup."""

    overall: Calibrated
    """All rows."""
    subgroups: dict[str, Calibrated]
    backgrounds: dict[str, Calibrated]
    """subgroups, backgrounds: each subgroup, and what it is compared with (without bins)."""
    gaps: dict[str, dict[str, MetricValue]]
    """By subgroup and metric: `calibration_gap`, `brier_gap` and `slope_gap`, the subgroup's bias,
    Brier score and slope minus its background's."""
    reason: str | None = None
    """Why all numbers are undefined, if scores are not probabilities."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the gaps are beside a subgroup's own numbers."""
        subgroups = {
            name: one.to_dict()
            | {"background": self.backgrounds[name].to_dict()}
            | {metric: gap.to_dict(interval=True) for metric, gap in self.gaps[name].items()}
            for name, one in self.subgroups.items()
        }
        found = {"overall": self.overall.to_dict(), "subgroups": subgroups}
        return found if self.reason is None else found | {"reason": self.reason}

    def rows(self) -> list[Row]:
        """Return one record per number of each subgroup and of all rows (whose name is None)."""
        every: dict[Any, Calibrated] = {**self.subgroups, None: self.overall}
        return labelled(
            "subgroup",
            {
                name: [
                    {"metric": metric, "n": one.n, "n_positive": one.n_positive}
                    | {key: getattr(value, key) for key in _PARTS}
                    for metric, value in _numbers(one, self.gaps.get(str(name), {})).items()
                ]
                for name, one in every.items()
            },
        )

    def _table(self) -> Table:
        return Table(
            ["subgroup", "n", *NUMBERS, *calibration_metrics()],
            [
                [name, f"{one.n:,}", *map(str, _numbers(one, self.gaps[name]).values())]
                for name, one in self.subgroups.items()
            ],
            f"{self.overall.n:,} rows: bias {self.overall.bias}, Brier score {self.overall.brier}, "
            f"slope {self.overall.slope}, calibration error {self.overall.calibration_error}, "
            f"cumulative error {self.overall.cumulative_error}",
        )


_PARTS = ("value", "std_error", "low", "high", "reason")


@dataclass(frozen=True)
class CalibrationComparison(Tabular):
    """The calibration of two models on the same rows."""

    overall: dict[str, Difference]
    """`bias`, `brier` and `slope` of all rows, the first model minus the second."""
    subgroups: dict[str, dict[str, Difference]]
    """The same of each subgroup, and its gaps."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        named = {name: as_dicts(cells) for name, cells in self.subgroups.items()}
        return {"overall": as_dicts(self.overall), "subgroups": named}

    def rows(self) -> list[Row]:
        """Return one record per difference; those of all rows have no subgroup."""
        every: dict[Any, dict[str, Difference]] = {**self.subgroups, None: self.overall}
        return labelled(
            "subgroup",
            {
                name: [{"metric": metric} | vars(one) for metric, one in cells.items()]
                for name, cells in every.items()
            },
        )


def _numbers(one: Calibrated, gaps: Mapping[str, MetricValue]) -> dict[str, MetricValue]:
    return {name: getattr(one, name) for name in NUMBERS} | dict(gaps)
