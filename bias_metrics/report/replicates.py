"""Replicates of the bootstrap: every number from rows counted as often as they were drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bias_metrics._core.cells import Comparison
from bias_metrics._core.checks import BoolArray
from bias_metrics._core.clusters import Codes
from bias_metrics._core.influence import CLASSES, Members, RankedRows
from bias_metrics._core.ranks import Floats, inner
from bias_metrics.borkan.aggregates import power_mean
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, PAIRS
from bias_metrics.report.pairing import Model

# Subgroup and metric; None for the numbers of all rows, among them the power mean of each metric.
Key = tuple[str | None, str]
OVERALL, FINAL = (None, "auc"), (None, "final_score")
RESAMPLED = tuple(metric for metric in CLASSES if metric != "auc")


class _Weights:
    """How often each row of one class was drawn, in score order."""

    def __init__(self, weights: Floats) -> None:
        self.each = weights
        self.cumulative = np.concatenate(([0.0], np.cumsum(weights)))

    @property
    def total(self) -> float:
        return float(self.cumulative[-1])


@dataclass(frozen=True, eq=False)
class Resampling:
    """Ranked rows, from which replicates are drawn."""

    ranked: RankedRows
    members: Mapping[str, Members]
    clusters: Codes | None
    power: float
    groups: tuple[str, ...]

    @classmethod
    def of(cls, model: Model, clusters: Codes | None) -> Resampling:
        """Prepare to draw from the rows of one model."""
        means = model.report.power_mean
        return cls(model.ranked, model.members, clusters, means.power, means.groups)

    def draw(self, rng: np.random.Generator) -> Iterator[tuple[Key, float]]:
        """Yield the defined numbers of one replicate."""
        if self.clusters is not None:
            return self.of_rows(draw_rows(rng, self.ranked.y_true, self.clusters))
        sizes = self.ranked.everyone.positive.n, self.ranked.everyone.negative.n
        positive, negative = (_Weights(_draw_counts(rng, n)) for n in sizes)
        return self._numbers(positive, negative)

    def of_rows(self, rows: Floats) -> Iterator[tuple[Key, float]]:
        """Yield the defined numbers if each row counts as often as it was drawn."""
        drawn = []
        for label in (True, False):
            of_class = np.flatnonzero(self.ranked.y_true == label)
            weights = np.empty(of_class.size)
            weights[self.ranked.position[of_class]] = rows[of_class]
            drawn.append(_Weights(weights))
        return self._numbers(*drawn)

    def _numbers(self, positive: _Weights, negative: _Weights) -> Iterator[tuple[Key, float]]:
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
                yield (None, metric), means[-1]
        if auc is not None and len(means) == len(parts):
            yield FINAL, (auc + sum(means)) / 4


def draw_rows(rng: np.random.Generator, y_true: BoolArray, clusters: Codes | None) -> Floats:
    """Draw rows within each label, or whole clusters; return how often each row was drawn."""
    if clusters is not None:
        return _draw_counts(rng, int(clusters.max(initial=-1)) + 1)[clusters]
    counts = np.empty(y_true.size)
    for of_class in (y_true, ~y_true):
        counts[of_class] = _draw_counts(rng, int(of_class.sum()))
    return counts


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
