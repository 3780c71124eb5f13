"""The joint bootstrap: every number of `evaluate_bias` from resampled rows or clusters.

An alternative to the intervals of `evaluate_bias`, for those who want to see the same thing
without an asymptotic argument. The scores are ranked once; a replicate only counts how often
each row was drawn, so that no replicate sorts or searches anything. For Python users; no
command calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import Comparison
from bias_metrics._core.checks import (
    aligned,
    check_clusters,
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_subgroups,
)
from bias_metrics._core.frames import Subgroups
from bias_metrics._core.influence import CLASSES, Members, RankedRows, rank_rows
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.named import Named
from bias_metrics._core.options import check_choice
from bias_metrics._core.placements import Floats, inner
from bias_metrics._core.tables import Row, Tabular, labelled
from bias_metrics.borkan.aggregates import check_power, power_mean
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, PAIRS
from bias_metrics.report.report import BACKGROUNDS
from bias_metrics.report.request import Background, ranked_members

OVERALL, FINAL = ("overall", "auc"), ("aggregate", "final_score")
Key = tuple[str, str]


@dataclass(frozen=True)
class BootstrapValue:
    """One number's spread over the replicates.

    Attributes
    ----------
    std_error, low, high : float or None
        Standard deviation and percentile interval over the replicates in which the number
        is defined; None if there are fewer than two.
    n_undefined : int
        Replicates in which it is not, for want of rows: they are counted, not made up.
    """

    std_error: float | None
    low: float | None
    high: float | None
    n_undefined: int


@dataclass(frozen=True)
class BootstrapReport(Tabular):
    """The spread of every number.

    Attributes
    ----------
    overall : Named of BootstrapValue
        Of the ROC AUC over all rows: `auc`.
    subgroups : dict of str to Named of BootstrapValue
        By subgroup and metric.
    power_mean : Named of BootstrapValue
        By metric.
    final_score : BootstrapValue
        Of the Jigsaw final score.
    n_replicates : int
        How often rows were drawn.
    confidence : float
        Of each interval.
    """

    overall: Named[BootstrapValue]
    subgroups: dict[str, Named[BootstrapValue]]
    power_mean: Named[BootstrapValue]
    final_score: BootstrapValue
    n_replicates: int
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in the shape of `BiasReport.to_dict()`."""
        return {
            "n_replicates": self.n_replicates,
            "confidence": self.confidence,
            "overall": _plain(self.overall),
            "subgroups": {name: _plain(cells) for name, cells in self.subgroups.items()},
            "power_mean": _plain(self.power_mean),
            "final_score": dict(vars(self.final_score)),
        }

    def rows(self) -> list[Row]:
        """Return one record a number: those of each subgroup, then those of all rows."""
        others = {"auc": self.overall.auc}
        others |= {f"power_mean_{name}": one for name, one in self.power_mean.items()}
        others |= {"final_score": self.final_score}
        cells: dict[Any, Mapping[str, BootstrapValue]] = {**self.subgroups, None: others}
        return labelled(
            "subgroup",
            {
                name: [{"metric": metric} | vars(one) for metric, one in of_group.items()]
                for name, of_group in cells.items()
            },
        )


def _plain(named: Mapping[str, BootstrapValue]) -> dict[str, Any]:
    return {name: dict(vars(one)) for name, one in named.items()}


@aligned
def bootstrap_bias(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    rng: np.random.Generator,
    n_replicates: int = 1000,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> BootstrapReport:
    """Resample rows and see how every number of `evaluate_bias` spreads.

    Rows are drawn with replacement within each label, all subgroups together, so that a row
    counts equally often in each number of a replicate. With `clusters` whole clusters are
    drawn instead, whatever their labels.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    rng : numpy.random.Generator
        Source of the draws; the same generator gives the same report.
    n_replicates : int, default=1000
        How often to draw, at least 2.
    power, power_mean_groups
        As in `evaluate_bias`.
    confidence : float, default=0.95
        Of the percentile intervals.
    clusters : array of shape (n,), optional
        Article, thread or template of each row.
    background : {"outside_subgroup", "no_identity"}, default="outside_subgroup"
        As in `evaluate_bias`.

    Returns
    -------
    BootstrapReport
        Standard errors and percentile intervals. A percentile interval has zero width where
        every replicate gives the same, as at an AUC of 1: `evaluate_bias` does not.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `n_replicates` is below 2 or `rng` is no Generator.

    References
    ----------
    Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapters 6 and 13.

    Examples
    --------
    >>> y_true, gay = [0, 1] * 20, [0, 0, 1, 1] * 10
    >>> y_score = [0.1, 0.6, 0.3, 0.7, 0.5, 0.4, 0.2, 0.9] * 5
    >>> rng = np.random.default_rng(0)
    >>> spread = bootstrap_bias(y_true, y_score, {"gay": gay}, rng=rng, n_replicates=200)
    >>> spread.overall.auc.low < 0.9375 < spread.overall.auc.high
    True
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    if not isinstance(rng, np.random.Generator):
        msg = f"`rng` must be a numpy Generator, as in default_rng(0); got {type(rng).__name__}."
        raise TypeError(msg)
    if n_replicates < 2:
        msg = f"`n_replicates` must be at least 2; got {n_replicates}."
        raise ValueError(msg)
    level = check_confidence(confidence)
    ranked = rank_rows(labels, scores)
    resampling = _Resampling(
        ranked,
        ranked_members(ranked, masks, check_choice("background", background, BACKGROUNDS)),
        check_clusters(clusters, labels.size),
        check_power(power),
        check_power_mean_groups(power_mean_groups, masks),
    )
    drawn: dict[Key, list[float]] = {key: [] for key in resampling.numbers()}
    for _ in range(n_replicates):
        for key, value in resampling.draw(rng):
            drawn[key].append(value)
    found = {key: _spread(values, n_replicates, level) for key, values in drawn.items()}
    return BootstrapReport(
        overall=Named(auc=found[OVERALL]),
        subgroups={
            name: Named({metric: found[name, metric] for metric in _METRICS}) for name in masks
        },
        power_mean=Named({metric: found["power_mean", metric] for metric in FINAL_SCORE_PARTS}),
        final_score=found[FINAL],
        n_replicates=n_replicates,
        confidence=level,
    )


_METRICS = tuple(metric for metric in CLASSES if metric != "auc")


class _Weights:
    """How often each row of one class was drawn, in score order."""

    def __init__(self, weights: Floats) -> None:
        self.each = weights
        self.cumulative = np.concatenate(([0.0], np.cumsum(weights)))

    @property
    def total(self) -> float:
        return float(self.cumulative[-1])


@dataclass(frozen=True, eq=False)
class _Resampling:
    """Ranked rows, drawn again and again."""

    ranked: RankedRows
    members: Mapping[str, Members]
    clusters: npt.NDArray[np.intp] | None
    power: float
    groups: tuple[str, ...]

    def numbers(self) -> list[Key]:
        """Return what a replicate can hold."""
        cells = [(name, metric) for name in self.members for metric in _METRICS]
        return [OVERALL, FINAL, *cells, *(("power_mean", one) for one in FINAL_SCORE_PARTS)]

    def draw(self, rng: np.random.Generator) -> Iterator[tuple[Key, float]]:
        """Yield the defined numbers of one replicate."""
        positive, negative = self._weights(rng)
        by_class = {True: positive, False: negative}
        everyone = self.ranked.everyone
        overall = Comparison(everyone.negative, None, everyone.positive, "negatives", "positives")
        auc = _share(overall, positive, negative, None)
        if auc is not None:
            yield OVERALL, auc
        parts: dict[str, dict[str, float]] = {metric: {} for metric in FINAL_SCORE_PARTS}
        for name, members in self.members.items():
            own, excluded = (
                {
                    label: _Weights(by_class[label].each[one.of_class(positive=label).position])
                    for label in (True, False)
                }
                for one in (members, members.excluded)
            )
            for metric, comparison in members.compared.items():
                x_positive, y_positive = CLASSES[metric]
                inside = PAIRS[metric].inside
                base = own[y_positive] if inside else by_class[y_positive]
                share = _share(
                    comparison, own[x_positive], base, None if inside else excluded[y_positive]
                )
                if share is None:
                    continue
                yield (name, metric), share - METRICS[metric].centre
                if metric in parts:
                    parts[metric][name] = share
        yield from self._aggregates(auc, parts)

    def _aggregates(
        self, auc: float | None, parts: Mapping[str, Mapping[str, float]]
    ) -> Iterator[tuple[Key, float]]:
        means = []
        for metric, values in parts.items():
            if self.groups and all(name in values for name in self.groups):
                means.append(power_mean([values[name] for name in self.groups], self.power))
                yield ("power_mean", metric), means[-1]
        if auc is not None and len(means) == len(parts):
            yield FINAL, (auc + sum(means)) / 4

    def _weights(self, rng: np.random.Generator) -> tuple[_Weights, _Weights]:
        if self.clusters is None:
            sizes = self.ranked.everyone.positive.n, self.ranked.everyone.negative.n
            positive, negative = (_Weights(_draw_counts(rng, n)) for n in sizes)
            return positive, negative
        rows = _draw_counts(rng, int(self.clusters.max()) + 1)[self.clusters]
        drawn = []
        for label in (True, False):
            of_class = np.flatnonzero(self.ranked.y_true == label)
            weights = np.empty(of_class.size)
            weights[self.ranked.position[of_class]] = rows[of_class]
            drawn.append(_Weights(weights))
        return drawn[0], drawn[1]


def _draw_counts(rng: np.random.Generator, n: int) -> Floats:
    """Draw `n` of `n` with replacement; return how often each was drawn."""
    if n == 0:
        return np.zeros(0)
    return np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)


def _share(
    comparison: Comparison, x: _Weights, base: _Weights, excluded: _Weights | None
) -> float | None:
    """Return the AUC with rows counted as often as they were drawn; None without pairs."""
    total = base.total - (0.0 if excluded is None else excluded.total)
    if x.total == 0 or total <= 0:
        return None
    everyone, starts = comparison.among_all, comparison.runs.starts
    below = base.cumulative[everyone.left] + base.cumulative[everyone.right]
    if excluded is not None:
        left = everyone.left - comparison.placed.left
        right = everyone.right - comparison.placed.right
        below = below - excluded.cumulative[left] - excluded.cumulative[right]
    weights = np.diff(x.cumulative[starts])
    share = inner(weights, below) / (2 * total * x.total)
    return 1 - share if comparison.flip else share


def _spread(values: Sequence[float], n_replicates: int, confidence: float) -> BootstrapValue:
    missing = n_replicates - len(values)
    if len(values) < 2:
        return BootstrapValue(None, None, None, missing)
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return BootstrapValue(float(np.std(values, ddof=1)), float(low), float(high), missing)
