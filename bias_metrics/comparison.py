"""Two models on the same rows: differences of every metric, and what they show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._cells import Cells
from bias_metrics._checks import (
    check_clusters,
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_subgroups,
)
from bias_metrics._covariance import TwoRankings, covariance
from bias_metrics._influence import Influence, Members, RankedRows, rank_rows
from bias_metrics._values import MetricValue
from bias_metrics.aggregates import check_power
from bias_metrics.evaluation import measure_members, summarise_bias
from bias_metrics.intervals import check_confidence, quantile, two_sided_p
from bias_metrics.report import BiasReport
from bias_metrics.uncertainty import (
    MIN_CLUSTERS,
    Spread,
    aggregate_influences,
    aggregate_of,
    replace_aggregates,
    with_clusters,
)

# Variances of a difference below this share of the estimates' own are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Difference:
    """One metric of two models on the same rows, and the first less the second.

    Attributes
    ----------
    first, second : float or None
        The metric under each model.
    value : float or None
        `first - second`; None where either is undefined.
    std_error, low, high : float or None
        Standard error and confidence interval of `value`, the two models paired.
    p_value : float or None
        Two-sided, of no difference.
    reason : str or None
        Why something is None.
    p_holm, p_bh : float or None
        `p_value` adjusted for all cells of the comparison, by Holm (any error among all) and
        by Benjamini and Hochberg (share of errors among findings).
    """

    first: float | None
    second: float | None
    value: float | None = None
    std_error: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    reason: str | None = None
    p_holm: float | None = None
    p_bh: float | None = None

    def not_worse_by(self, margin: float) -> bool | None:
        """Say whether the first is shown not to be worse by `margin` (AUCs: higher is better).

        True: shown; False: shown to be worse by more; None: neither.
        """
        if self.low is None or self.high is None:
            return None
        return True if self.low > -margin else False if self.high < -margin else None

    def within(self, margin: float) -> bool | None:
        """Say whether the two are shown to differ by less than `margin`.

        True: the interval lies within the margin on both sides; False: it lies outside;
        None: neither.
        """
        if self.low is None or self.high is None:
            return None
        if -margin < self.low and self.high < margin:
            return True
        return False if self.low > margin or self.high < -margin else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, `reason` only where there is one."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {key: value for key, value in found.items() if key != "reason" or value}


@dataclass(frozen=True)
class BiasComparison:
    """Every difference of one comparison.

    Attributes
    ----------
    first, second : BiasReport
        The two models' reports on the same rows.
    overall_auc, final_score : Difference
        Over all rows.
    subgroups : dict of str to dict of str to Difference
        By subgroup and metric.
    power_means : dict of str to Difference
        By metric.
    confidence : float
        Of each interval.
    """

    first: BiasReport
    second: BiasReport
    overall_auc: Difference
    subgroups: dict[str, dict[str, Difference]]
    power_means: dict[str, Difference]
    final_score: Difference
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values in the shape of `BiasReport.to_dict()`."""
        return {
            "confidence": self.confidence,
            "overall": {
                "n": self.first.n,
                "n_positive": self.first.n_positive,
                "auc": self.overall_auc.to_dict(),
            },
            "subgroups": {
                name: {metric: one.to_dict() for metric, one in cells.items()}
                for name, cells in self.subgroups.items()
            },
            "power_mean": {name: one.to_dict() for name, one in self.power_means.items()},
            "final_score": self.final_score.to_dict(),
        }


def compare_bias(
    y_true: npt.ArrayLike,
    score_a: npt.ArrayLike,
    score_b: npt.ArrayLike,
    subgroups: Mapping[str, npt.ArrayLike],
    *,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
) -> BiasComparison:
    """Compare the bias of two models' scores on the same rows.

    Every metric of `evaluate_bias` as the first model's less the second's. The models are
    paired: what makes a row hard for both does not widen the interval.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    score_a, score_b : float array of shape (n,)
        Scores of the first model (the candidate) and the second (the champion), of the same
        rows in the same order.
    subgroups : mapping of str to bool array of shape (n,)
        Name and membership of each subgroup.
    power : float, default=-5.0
        Exponent of the power means, not 0.
    power_mean_groups : sequence of str, optional
        The subgroups that the power means cover; default all.
    confidence : float, default=0.95
        Of each interval. For a one-sided statement at 5 % take 0.90.
    clusters : array of shape (n,), optional
        As in `evaluate_bias`.

    Returns
    -------
    BiasComparison
        Differences with paired intervals and p-values. Identical scores differ by 0 with
        zero width.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`.

    Notes
    -----
    The variance of a difference is DeLong's, with the covariance of the two estimates. In
    cells with fewer than 200 rows in a class it is too small, most of all near an AUC of 1:
    the distances of each estimate to the end of its own interval (see `auc_interval`) then
    replace the standard errors, to the degree to which the two estimates are uncorrelated.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44. Zou (2007), Psychological
    Methods 12 (intervals of differences from the limits of each).

    Examples
    --------
    >>> y_true, gay = [0, 1] * 6, [0, 0, 1, 1] * 3
    >>> first = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.6, 0.5, 0.2, 0.9, 0.4, 0.3]
    >>> second = [0.1, 0.9, 0.8, 0.8, 0.3, 0.7, 0.6, 0.5, 0.9, 0.9, 0.4, 0.3]
    >>> round(compare_bias(y_true, first, second, {"gay": gay}).overall_auc.value, 4)
    0.2361
    """
    labels = check_mask("y_true", y_true)
    scores = [
        check_scores(name, given, labels.size)
        for name, given in (("score_a", score_a), ("score_b", score_b))
    ]
    masks = check_subgroups(subgroups, labels.size)
    check_power(power)
    groups = check_power_mean_groups(power_mean_groups, masks)
    level = check_confidence(confidence)
    codes = check_clusters(clusters, labels.size)
    rows_of = {name: np.flatnonzero(mask) for name, mask in masks.items()}
    first, second = (
        _measure(labels, given, rows_of, power=power, groups=groups, confidence=level)
        for given in scores
    )
    return _Pairing(first, second, codes, level).compare()


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given."""
    order = np.argsort(p_values, kind="stable")
    n = len(order)
    found = np.empty(n)
    found[order] = np.maximum.accumulate(
        [min(1.0, (n - i) * p_values[at]) for i, at in enumerate(order)]
    )
    return [float(one) for one in found]


def adjust_benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p-values, in the order given."""
    order = np.argsort(p_values, kind="stable")[::-1]
    n = len(order)
    found = np.empty(n)
    found[order] = np.minimum.accumulate(
        [min(1.0, p_values[at] * n / (n - i)) for i, at in enumerate(order)]
    )
    return [float(one) for one in found]


@dataclass(frozen=True, eq=False)
class _Model:
    """One model's ranked rows and report."""

    ranked: RankedRows
    members: dict[str, Members]
    report: BiasReport


def _measure(
    labels: npt.NDArray[np.bool_],
    scores: npt.NDArray[np.floating],
    rows_of: Mapping[str, npt.NDArray[np.intp]],
    *,
    power: float,
    groups: Sequence[str],
    confidence: float,
) -> _Model:
    ranked = rank_rows(labels, scores)
    members = {name: ranked.members(rows) for name, rows in rows_of.items()}
    measured = {name: measure_members(one, confidence) for name, one in members.items()}
    report = summarise_bias(
        ranked.everyone, measured, power=power, power_mean_groups=groups, confidence=confidence
    )
    return _Model(ranked, members, report)


class _Pairing:
    """Two models, and how the uncertainty of their differences is measured."""

    def __init__(
        self,
        first: _Model,
        second: _Model,
        clusters: npt.NDArray[np.intp] | None,
        confidence: float,
    ) -> None:
        self.models = (first, second)
        self.confidence = confidence
        self.clusters = clusters
        self.spreads = [Spread(model.ranked, clusters, confidence) for model in self.models]
        self.rankings = TwoRankings.of(first.ranked, second.ranked)
        self.members = {
            name: self.rankings.match(members, second.members[name])
            for name, members in first.members.items()
        }

    def compare(self) -> BiasComparison:
        """Return every difference."""
        first, second = (
            with_clusters(model.report, model.members, spread)
            for model, spread in zip(self.models, self.spreads, strict=True)
        )
        described: tuple[dict[str, MetricValue], dict[str, MetricValue]] = ({}, {})
        aggregates = {}
        influences = (
            aggregate_influences(report, model.members, spread)
            for report, model, spread in zip(
                (first, second), self.models, self.spreads, strict=True
            )
        )
        for (name, of_first), (_, of_second) in zip(*influences, strict=True):
            a = self.spreads[0].describe(aggregate_of(first, name), of_first)
            b = self.spreads[1].describe(aggregate_of(second, name), of_second)
            described[0][name], described[1][name] = a, b
            aggregates[name] = self._aggregate(a, b, of_first, of_second)
        cells = {
            name: {one.name: self._cell(name, one.name, first, second) for one in fields(Cells)}
            for name in first.subgroups
        }
        return BiasComparison(
            first=replace_aggregates(first, described[0]),
            second=replace_aggregates(second, described[1]),
            overall_auc=aggregates.pop("overall"),
            final_score=aggregates.pop("final_score"),
            power_means=aggregates,
            subgroups=_adjusted(cells),
            confidence=self.confidence,
        )

    def _aggregate(
        self, a: MetricValue, b: MetricValue, of_first: Influence | str, of_second: Influence | str
    ) -> Difference:
        if isinstance(of_first, str) or isinstance(of_second, str):
            return _undefined(a, b)
        if self.clusters is not None:
            return self._clustered(a, b, of_first, of_second, None)
        error = self.rankings.difference_error(of_first, of_second)
        return _symmetric(a, b, error, quantile(self.confidence))

    def _cell(self, name: str, metric: str, first: BiasReport, second: BiasReport) -> Difference:
        a, b = (getattr(one.subgroups[name].cells, metric) for one in (first, second))
        if a.std_error is None or b.std_error is None:
            return _undefined(a, b)
        if self.clusters is None:
            shared = covariance(metric, self.rankings, self.members[name])
            return _paired(a, b, shared, quantile(self.confidence))
        members = [model.members[name] for model in self.models]
        of_first, of_second = (
            spread.of_auc(metric, one.compared[metric], one)
            for spread, one in zip(self.spreads, members, strict=True)
        )
        return self._clustered(a, b, of_first, of_second, members[0])

    def _clustered(
        self,
        a: MetricValue,
        b: MetricValue,
        of_first: Influence,
        of_second: Influence,
        members: Members | None,
    ) -> Difference:
        """Return a difference when the rows of a cluster move together."""
        by_row = of_first.by_row(self.models[0].ranked)
        by_row -= of_second.by_row(self.models[1].ranked)
        spread = self.spreads[0]
        n_clusters = spread.count(members)
        std_error = spread.clustered_error(by_row, n_clusters)
        if n_clusters < MIN_CLUSTERS:
            reason = f"{n_clusters} clusters where {MIN_CLUSTERS} are needed"
            return Difference(a.value, b.value, _less(a, b), std_error, reason=reason)
        return _symmetric(a, b, std_error, quantile(self.confidence, n_clusters - 1))


def _less(a: MetricValue, b: MetricValue) -> float | None:
    return None if a.value is None or b.value is None else a.value - b.value


def _undefined(a: MetricValue, b: MetricValue) -> Difference:
    reason = a.reason or b.reason or "one of the two has no standard error"
    return Difference(a.value, b.value, _less(a, b), reason=reason)


def _symmetric(a: MetricValue, b: MetricValue, std_error: float, z: float) -> Difference:
    value = _less(a, b)
    assert value is not None  # noqa: S101
    return Difference(
        a.value,
        b.value,
        value,
        std_error,
        value - z * std_error,
        value + z * std_error,
        two_sided_p(value, std_error),
    )


def _paired(a: MetricValue, b: MetricValue, shared: float, z: float) -> Difference:
    """Return a difference from each estimate's own interval and their covariance."""
    assert a.std_error is not None  # noqa: S101
    assert b.std_error is not None  # noqa: S101
    product = a.std_error * b.std_error
    variance = max(a.std_error**2 + b.std_error**2 - 2 * shared, 0.0)
    correlation = shared / product if product > 0 else 0.0
    value = _less(a, b)
    assert value is not None  # noqa: S101
    if product > 0 and variance <= _ROUNDING * product:  # the same ranks but for rounding
        return _symmetric(a, b, 0.0, z)
    down = _reach(a, b, correlation, z, upwards=False)
    up = _reach(a, b, correlation, z, upwards=True)
    std_error = math.sqrt(variance)
    p_value = two_sided_p(value, std_error)
    return Difference(a.value, b.value, value, std_error, value - down, value + up, p_value)


def _reach(a: MetricValue, b: MetricValue, correlation: float, z: float, *, upwards: bool) -> float:
    """Return how far the interval of `a - b` reaches from the estimate.

    With no correlation, Zou's: the distances of `a` to its one end and of `b` to its other
    one, as a hypotenuse. With correlation 1 the standard errors' difference, which is 0 for
    the same scores. In between, in proportion. In large cells, where intervals are
    symmetric, this is the usual paired interval whatever the correlation.
    """
    to_a = _distance(a, upwards=upwards)
    to_b = _distance(b, upwards=not upwards)
    apart = to_a**2 + to_b**2
    if correlation <= 0:
        return math.sqrt(apart - 2 * correlation * to_a * to_b)
    correlation = min(correlation, 1.0)
    together = (z * ((a.std_error or 0.0) - (b.std_error or 0.0))) ** 2
    return math.sqrt((1 - correlation) * apart + correlation * together)


def _distance(value: MetricValue, *, upwards: bool) -> float:
    end = value.high if upwards else value.low
    assert value.value is not None  # noqa: S101
    assert end is not None  # noqa: S101 - with a standard error there is an interval
    return abs(end - value.value)


def _adjusted(cells: dict[str, dict[str, Difference]]) -> dict[str, dict[str, Difference]]:
    """Adjust the p-values of all cells for each other."""
    keys = [
        (name, metric)
        for name, of_group in cells.items()
        for metric, one in of_group.items()
        if one.p_value is not None
    ]
    p_values = [cells[name][metric].p_value or 0.0 for name, metric in keys]
    found = {name: dict(of_group) for name, of_group in cells.items()}
    adjusted = zip(keys, adjust_holm(p_values), adjust_benjamini_hochberg(p_values), strict=True)
    for (name, metric), p_holm, p_bh in adjusted:
        found[name][metric] = replace(found[name][metric], p_holm=p_holm, p_bh=p_bh)
    return found
