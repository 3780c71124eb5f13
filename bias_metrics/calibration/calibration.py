"""Whether scores are probabilities, for each subgroup against its background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy.typing as npt

from bias_metrics._core.checks import aligned
from bias_metrics._core.differences import Difference
from bias_metrics._core.frames import Subgroups
from bias_metrics._core.tables import Row, Table, Tabular, labelled
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics._core.weighting import WeightKind
from bias_metrics.calibration.binned import N_BINS, ReliabilityBin
from bias_metrics.calibration.estimates import Sample
from bias_metrics.calibration.numbers import Number
from bias_metrics.calibration.rows import CalibratedRows
from bias_metrics.groups.counts import as_dicts
from bias_metrics.metrics import calibration_metrics
from bias_metrics.report.request import Background

NUMBERS = ("bias", "brier", "slope", "calibration_error")


@dataclass(frozen=True)
class Calibrated:
    """The calibration of some rows.

    Attributes
    ----------
    n, n_positive : int
        Rows, and positives among them.
    bias : MetricValue
        Mean score minus the share of positives; 0 if calibrated in the mean.
    brier : MetricValue
        Mean squared distance of scores from labels; lower is better.
    slope : MetricValue
        Of a logistic regression of the labels on the log-odds of the scores: 1 if calibrated,
        below 1 if scores are too extreme.
    calibration_error : MetricValue
        Debiased root mean square distance of scores from shares of positives, in bins.
    reliability : tuple of ReliabilityBin
        The bins, by ascending score.
    """

    n: int
    n_positive: int
    bias: MetricValue
    brier: MetricValue
    slope: MetricValue
    calibration_error: MetricValue
    reliability: tuple[ReliabilityBin, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        numbers = {name: getattr(self, name).to_dict(interval=True) for name in NUMBERS}
        counts: dict[str, Any] = {"n": self.n, "n_positive": self.n_positive}
        return counts | numbers | {"reliability": [asdict(one) for one in self.reliability]}


@dataclass(frozen=True)
class CalibrationReport(Tabular):
    """Calibration of all rows and of each subgroup.

    Attributes
    ----------
    overall : Calibrated
        All rows.
    subgroups, backgrounds : dict of str to Calibrated
        Each subgroup, and what it is compared with (without bins).
    gaps : dict of str to dict of str to MetricValue
        By subgroup and metric: `calibration_gap`, `brier_gap` and `slope_gap`, the subgroup's
        bias, Brier score and slope minus its background's.
    reason : str or None
        Why all numbers are undefined, if scores are not probabilities.
    """

    overall: Calibrated
    subgroups: dict[str, Calibrated]
    backgrounds: dict[str, Calibrated]
    gaps: dict[str, dict[str, MetricValue]]
    reason: str | None = None

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
            f"slope {self.overall.slope}, calibration error {self.overall.calibration_error}",
        )


_PARTS = ("value", "std_error", "low", "high", "reason")


@dataclass(frozen=True)
class CalibrationComparison(Tabular):
    """The calibration of two models on the same rows.

    Attributes
    ----------
    overall : dict of str to Difference
        `bias`, `brier` and `slope` of all rows, the first model minus the second.
    subgroups : dict of str to dict of str to Difference
        The same of each subgroup, and its gaps.
    """

    overall: dict[str, Difference]
    subgroups: dict[str, dict[str, Difference]]

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


@aligned
def calibration_report(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    sample_weight: npt.ArrayLike | None = None,
    weight_kind: WeightKind = "probability",
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
    n_bins: int = N_BINS,
) -> CalibrationReport:
    """Measure whether scores are probabilities, for each subgroup and its background.

    Scores of .8 are calibrated if 80 % of such rows are positive. AUCs cannot tell: they only use
    the order of scores. A threshold has the same meaning for two subgroups only if both are
    calibrated.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    y_score : float array of shape (n,)
        Probabilities. If any is outside [0, 1], all numbers are undefined, with that reason.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    sample_weight, weight_kind, clusters, background
        As in `evaluate_bias`.
    confidence : float, default=0.95
        Confidence of each interval and of the bands.
    n_bins : int, default=10
        Bins of equally many rows, at least 2; fewer where scores are tied.

    Returns
    -------
    CalibrationReport
        For each subgroup `bias`, `brier`, `slope`, `calibration_error` and `reliability`, the same
        of its background, and the gaps between them (ideal 0): above 0, the subgroup's scores are
        too high compared with others (`calibration_gap`), farther from the labels (`brier_gap`)
        or less overconfident (`slope_gap`). A Brier score also depends on the share of positives,
        so that a gap may be only in the labels.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `n_bins` is below 2.

    Notes
    -----
    Intervals are linearised, with Student's quantile for as many degrees of freedom as the fourth
    moments of the influences, or the clusters, allow. For the slope, scores within 1e-6 of 0 or 1
    are moved to that distance.

    References
    ----------
    Brier (1950), Monthly Weather Review 78. Cox (1958), Biometrika 45 (slope). Kumar, Liang and
    Ma (2019), Advances in Neural Information Processing Systems 32 (debiased calibration error).

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> y_score = [0.3, 0.5, 0.5, 0.7] * 10 + [0.5, 0.7, 0.7, 0.9] * 10
    >>> found = calibration_report(y_true, y_score, {"gay": gay})
    >>> print(found.subgroups["gay"].bias, found.gaps["gay"]["calibration_gap"])
    0.200 [0.068, 0.332] 0.200 [0.015, 0.385]
    """
    if n_bins < 2:
        msg = f"`n_bins` must be at least 2; got {n_bins}."
        raise ValueError(msg)
    rows = CalibratedRows.of(
        y_true,
        {"y_score": y_score},
        subgroups,
        sample_weight=sample_weight,
        weight_kind=weight_kind,
        confidence=confidence,
        clusters=clusters,
        background=background,
    )
    everyone = rows.everyone()
    overall = _calibrated(rows, everyone, rows.numbers(everyone), n_bins)
    own, others, gaps = {}, {}, {}
    for name in rows.masks:
        inside, outside = rows.subgroup(name)
        numbers, of_outside = rows.numbers(inside), rows.numbers(outside)
        own[name] = _calibrated(rows, inside, numbers, n_bins)
        others[name] = _calibrated(rows, outside, of_outside, n_bins, curve=False)
        gaps[name] = {
            metric: gap.measured(rows.confidence)
            for metric, gap in rows.gaps(numbers, of_outside).items()
        }
    return CalibrationReport(overall, own, others, gaps, rows.reason)


@aligned
def compare_calibration(
    y_true: npt.ArrayLike,
    y_score_a: npt.ArrayLike,
    y_score_b: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    sample_weight: npt.ArrayLike | None = None,
    weight_kind: WeightKind = "probability",
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> CalibrationComparison:
    """Compare the calibration of two models on the same rows.

    The models are paired: rows that both get wrong do not widen the interval.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    y_score_a, y_score_b : float array of shape (n,)
        Probabilities of the first model (the candidate) and the second (the champion).
    subgroups, sample_weight, weight_kind, confidence, clusters, background
        As in `calibration_report`.

    Returns
    -------
    CalibrationComparison
        Differences of `bias`, `brier` and `slope`, of all rows and of each subgroup; and of each
        subgroup's gaps, with bounds on how much wider the first is. For identical scores they are
        0 and have zero width.

    Raises
    ------
    ValueError, TypeError
        As `calibration_report`.

    References
    ----------
    Brier (1950), Monthly Weather Review 78. Zou (2007), Psychological Methods 12 (intervals of
    differences from the limits of each).

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> a = [0.3, 0.5, 0.5, 0.7] * 20
    >>> b = [0.3, 0.5, 0.5, 0.7] * 10 + [0.5, 0.7, 0.7, 0.9] * 10
    >>> print(compare_calibration(y_true, a, b, {"gay": gay}).subgroups["gay"]["brier"])
    -0.040 [-0.093, +0.013]
    """
    rows = CalibratedRows.of(
        y_true,
        {"y_score_a": y_score_a, "y_score_b": y_score_b},
        subgroups,
        sample_weight=sample_weight,
        weight_kind=weight_kind,
        confidence=confidence,
        clusters=clusters,
        background=background,
    )
    everyone = rows.everyone()
    overall = _changes(rows, *(rows.numbers(everyone, model) for model in (0, 1)))
    found = {}
    for name in rows.masks:
        inside, outside = rows.subgroup(name)
        own = [rows.numbers(inside, model) for model in (0, 1)]
        others = [rows.numbers(outside, model) for model in (0, 1)]
        first, second = (rows.gaps(*both) for both in zip(own, others, strict=True))
        found[name] = _changes(rows, *own) | _changes(rows, first, second, is_gap=True)
    return CalibrationComparison(overall, found)


def _changes(
    rows: CalibratedRows,
    first: Mapping[str, Number],
    second: Mapping[str, Number],
    *,
    is_gap: bool = False,
) -> dict[str, Difference]:
    return {
        name: one.changed(second[name], rows.confidence, is_gap=is_gap)
        for name, one in first.items()
    }


def _calibrated(
    rows: CalibratedRows,
    sample: Sample,
    numbers: Mapping[str, Number],
    n_bins: int,
    *,
    curve: bool = True,
) -> Calibrated:
    bins = rows.bins(sample, n_bins)
    measured = {name: one.measured(rows.confidence) for name, one in numbers.items()}
    return Calibrated(
        n=int(sample.rows.size),
        n_positive=sample.n_positive,
        **measured,
        calibration_error=undefined(rows.reason or "no rows")
        if bins is None
        else bins.error(rows.confidence),
        reliability=bins.curve(rows.confidence) if bins is not None and curve else (),
    )


def _numbers(one: Calibrated, gaps: Mapping[str, MetricValue]) -> dict[str, MetricValue]:
    return {name: getattr(one, name) for name in NUMBERS} | dict(gaps)
