"""Whether scores are probabilities, for each subgroup against its background."""

from __future__ import annotations

from collections.abc import Mapping

import numpy.typing as npt

from bias_metrics._core.checks import aligned
from bias_metrics._core.differences import Difference
from bias_metrics._core.frames import Subgroups
from bias_metrics._core.values import undefined
from bias_metrics._core.weighting import WeightKind
from bias_metrics.calibration.binned import N_BINS
from bias_metrics.calibration.estimates import Sample
from bias_metrics.calibration.numbers import Number
from bias_metrics.calibration.results import (
    Calibrated,
    CalibrationComparison,
    CalibrationReport,
)
from bias_metrics.calibration.rows import CalibratedRows
from bias_metrics.report.request import Background


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
