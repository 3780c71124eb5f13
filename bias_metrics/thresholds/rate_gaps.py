"""FPR and FNR gaps: error rates of each subgroup against its background, at a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from bias_metrics._core.checks import aligned
from bias_metrics._core.differences import Difference
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.tables import Row, Tabular, labelled
from bias_metrics._core.values import MetricValue
from bias_metrics.report.report import cell_of
from bias_metrics.rows import Rows
from bias_metrics.thresholds.rate_cells import Gap, decisions, rate_cells


@dataclass(frozen=True)
class RateGaps(Tabular):
    """Every metric at one threshold."""

    threshold: float
    """Scores at or above it are flagged."""
    subgroups: dict[str, dict[str, MetricValue]]
    """By subgroup and metric (`fpr_gap`, `fnr_gap`)."""
    confidence: float
    """Confidence of each interval."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "threshold": self.threshold,
            "subgroups": {
                name: {metric: one.to_dict(interval=True) for metric, one in cells.items()}
                for name, cells in self.subgroups.items()
            },
        }

    def rows(self) -> list[Row]:
        """Return one record per gap, by `subgroup` and `metric`."""
        return labelled(
            "subgroup",
            {
                name: [{"metric": metric} | cell_of(one) for metric, one in cells.items()]
                for name, cells in self.subgroups.items()
            },
        )


@dataclass(frozen=True)
class RateGapComparison(Tabular):
    """Every metric of two models, each at its own threshold."""

    first: RateGaps
    second: RateGaps
    """first, second: the gaps of each model."""
    subgroups: dict[str, dict[str, Difference]]
    """By subgroup and metric, the first minus the second, with bounds on how much wider the first
    gap is."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "thresholds": [self.first.threshold, self.second.threshold],
            "subgroups": {
                name: {metric: one.to_dict() for metric, one in cells.items()}
                for name, cells in self.subgroups.items()
            },
        }

    def rows(self) -> list[Row]:
        """Return one record per difference, by `subgroup` and `metric`."""
        return labelled(
            "subgroup",
            {
                name: [{"metric": metric} | one.rows()[0] for metric, one in cells.items()]
                for name, cells in self.subgroups.items()
            },
        )


@aligned
def rate_gaps(
    rows: Rows,
    y_score: npt.ArrayLike,
    *,
    threshold: float,
    threshold_range: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> RateGaps:
    """Compare each subgroup's error rates at one threshold with those of its background.

    `fpr_gap` is the false positive rate of the subgroup minus that of the background: above 0,
    harmless mentions are flagged more often than other harmless rows. `fnr_gap` is the same for
    the false negative rate: above 0, abuse of the subgroup is missed more often. Not to be
    confused with `fped` and `fned`, which are sums of absolute differences from the rate of
    *all* rows and have no interval, nor with the AEGs, which compare scores at all thresholds.

    Parameters
    ----------
    rows : Rows
        The rows, without weights.
    y_score : float array of shape (n,)
        Finite scores.
    threshold : float
        Finite; a score at or above it is flagged. The intervals take it as given.
    threshold_range : tuple of two floats, optional
        If the threshold was estimated from these rows: the range in which it lies, as from
        `equal_error_range`. The intervals then allow for how far each gap changes within it.
    confidence : float, default=0.95
        Confidence of each interval. There is none if subgroup or background has fewer than 20
        clusters with rows of the counted class.

    Returns
    -------
    RateGaps
        Gaps in [-1, 1], ideal 0, with intervals. A gap without rows in subgroup or background
        has the value None and a reason.

    Raises
    ------
    ValueError, TypeError
        If scores are of another number or not finite, a threshold is not finite, or the rows
        have weights.

    Notes
    -----
    The interval is the union of Newcombe's hybrid score interval and that of Agresti and Caffo,
    which holds its level for few rows and rates near 0; with clusters it reaches at least as far
    as the linearised variance requires, with Student's quantile.

    References
    ----------
    Hardt, Price and Srebro (2016), section 2 (equalised odds). Newcombe (1998), Statistics in
    Medicine 17, 873-890. Agresti and Caffo (2000), The American Statistician 54.

    Examples
    --------
    >>> rows = Rows([0, 0, 0, 0, 1, 1], {"gay": [1, 1, 0, 0, 0, 1]})
    >>> found = rate_gaps(rows, [0.9, 0.2, 0.3, 0.1, 0.8, 0.4], threshold=0.5)
    >>> cells = found.subgroups["gay"]
    >>> cells["fpr_gap"].value, cells["fnr_gap"].value  # 1 of 2 minus 0 of 2; 1 of 1 minus 0 of 1
    (0.5, 1.0)
    """
    rows.refuse("rate_gaps", "sample_weight")
    model = decisions(rows, "y_score", y_score, threshold, threshold_range)
    level = check_confidence(confidence)
    return _gaps(list(rate_cells(rows, [model], level)), 0, threshold, rows, level)


@aligned
def compare_rate_gaps(
    rows: Rows,
    y_score_a: npt.ArrayLike,
    y_score_b: npt.ArrayLike,
    *,
    threshold_a: float,
    threshold_b: float,
    threshold_range_a: tuple[float, float] | None = None,
    threshold_range_b: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> RateGapComparison:
    """Compare the error rate gaps of two models on the same rows, each at its own threshold.

    The models are paired: rows that both get wrong do not widen the interval.

    Parameters
    ----------
    rows : Rows
        The rows, without weights.
    y_score_a, y_score_b : float array of shape (n,)
        Scores of the first model (the candidate) and the second (the champion).
    threshold_a, threshold_b : float
        The score at or above which each model flags a row.
    threshold_range_a, threshold_range_b : tuple of two floats, optional
        If the thresholds were estimated: give both or neither; see `rate_gaps`.
    confidence : float, default=0.95
        As in `rate_gaps`.

    Returns
    -------
    RateGapComparison
        Differences of the gaps, and bounds on how much wider the first is (`size_low`,
        `size_high`). For models that decide alike the difference is 0 with zero width.

    Raises
    ------
    ValueError, TypeError
        As `rate_gaps`.

    References
    ----------
    Newcombe (1998), Statistics in Medicine 17, 2635-2650 (paired rows). Zou (2007),
    Psychological Methods 12 (intervals of differences from the limits of each).

    Examples
    --------
    >>> rows = Rows([0, 0, 0, 0] * 10, {"gay": [0, 0, 1, 1] * 10})
    >>> a, b = [0.1, 0.2, 0.9, 0.2] * 10, [0.1, 0.2, 0.3, 0.2] * 10
    >>> found = compare_rate_gaps(rows, a, b, threshold_a=0.5, threshold_b=0.5)
    >>> one = found.subgroups["gay"]["fpr_gap"]
    >>> one.first, one.second, round(one.size_low, 2)
    (0.5, 0.0, 0.18)
    """
    rows.refuse("compare_rate_gaps", "sample_weight")
    models = [
        decisions(rows, "y_score_a", y_score_a, threshold_a, threshold_range_a),
        decisions(rows, "y_score_b", y_score_b, threshold_b, threshold_range_b),
    ]
    level = check_confidence(confidence)
    compared = list(rate_cells(rows, models, level))
    differences: dict[str, dict[str, Difference]] = {name: {} for name in rows.subgroups}
    for name, metric, gap in compared:
        differences[name][metric] = gap.difference()
    return RateGapComparison(
        _gaps(compared, 0, threshold_a, rows, level),
        _gaps(compared, 1, threshold_b, rows, level),
        differences,
    )


def _gaps(
    compared: Sequence[tuple[str, str, Gap]],
    model: int,
    threshold: float,
    rows: Rows,
    confidence: float,
) -> RateGaps:
    """Measure one model's gaps."""
    found: dict[str, dict[str, MetricValue]] = {name: {} for name in rows.subgroups}
    for name, metric, gap in compared:
        found[name][metric] = gap.measure(model)
    return RateGaps(float(threshold), found, confidence)
