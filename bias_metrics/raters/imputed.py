"""Every number under labels that are drawn repeatedly: multiple imputation.

Each draw gives every comment an underlying fraction, hence a label, and measures all numbers. What
varies between draws is what the votes leave open; what each draw's interval says is how much the
comments matter. The two are independent and their variances add up (Rubin 1987).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.intervals import quantile
from bias_metrics._core.ranks import Floats
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.metrics import METRICS
from bias_metrics.raters.expected import FINAL, OVERALL, Key
from bias_metrics.raters.results import RatedValue, numbers_of
from bias_metrics.raters.votes import VoteModel
from bias_metrics.report.evaluation import report_of
from bias_metrics.report.steps import Options
from bias_metrics.rows import Rows


@dataclass
class Imputed:
    """What the draws give."""

    # Variance of each comment's label if a new panel rates it: half of how often two new panels
    # disagree.
    unsure: Floats
    # Of each draw, under the labels that all raters together would give.
    numbers: list[dict[Key, MetricValue]] = field(default_factory=list)
    # Of each draw, under the labels of a new panel.
    redrawn: dict[Key, list[MetricValue]] = field(default_factory=dict)


def impute(
    model: VoteModel,
    rows: Rows,
    scores: FloatArray,
    options: Options,
    n_raters: npt.NDArray[np.int64],
    n_draws: int,
    rng: np.random.Generator,
) -> Imputed:
    """Draw labels of the rows, with the model of their votes, and measure them."""
    best, threshold = model.fit(), model.grid.threshold
    spread = model.spread(best, rows.clusters)
    found = Imputed(np.zeros(n_raters.size), redrawn={OVERALL: [], FINAL: []})
    for _ in range(n_draws):
        fraction = model.draw(best, spread, rng)
        panels = [rng.binomial(n_raters, fraction) >= threshold * n_raters for _ in range(2)]
        found.unsure += (panels[0] != panels[1]) / (2 * n_draws)
        report = report_of(rows.labelled(fraction >= threshold), scores, options)
        found.numbers.append(numbers_of(report))
        again = replace(options, confidence=None)
        known = numbers_of(report_of(rows.labelled(panels[0]), scores, again))
        for key, values in found.redrawn.items():
            values.append(known[key])
    return found


def combined(draws: Sequence[MetricValue], metric: str, confidence: float) -> RatedValue:
    """Combine the draws of one number.

    The interval reaches as far as the root of the sum of two squares: the mean reach of the
    draws' own intervals, and that of Student's for the variance between the draws. So each part
    has its own degrees of freedom, and a small cell stays as cautious as in each draw.
    """
    lacking = [one.reason for one in draws if one.value is None]
    if lacking:
        told = undefined(f"undefined in {len(lacking)} of {len(draws)} draws ({lacking[0]})")
        return RatedValue(told, undefined(str(told.reason)))
    values = np.array([one.value for one in draws])
    mean = float(values.mean())
    without = [one.reason for one in draws if one.low is None]
    if without:
        reason = f"no interval in {len(without)} of {len(draws)} draws ({without[0]})"
        return RatedValue(MetricValue(mean, reason), undefined(reason))
    between = float(values.var(ddof=1)) * (1 + 1 / len(draws))
    errors = np.array([one.std_error for one in draws], dtype=np.float64)
    within = float(np.mean(errors**2))
    t = quantile(confidence, len(draws) - 1)
    down, up = (
        math.sqrt(float(np.mean((values - ends) ** 2)) + t**2 * between)
        for ends in (np.array([one.low for one in draws]), np.array([one.high for one in draws]))
    )
    least = -METRICS[metric].centre
    found = MetricValue(
        mean,
        std_error=math.sqrt(within + between),
        low=max(mean - down, least),
        high=min(mean + up, least + 1.0),
        n_clusters=draws[0].n_clusters,
    )
    return RatedValue(found, share_of(between, within + between))


def share_of(variance: float, total: float) -> MetricValue:
    """Return the part of a variance, at most 1; undefined if there is none."""
    return MetricValue(min(variance / total, 1.0)) if total > 0 else undefined("no variance")


def mean_of(draws: Sequence[MetricValue]) -> MetricValue:
    """Return the mean of the draws; undefined if one of them is."""
    known = [one.value for one in draws if one.value is not None]
    if len(known) < len(draws):
        return undefined(f"undefined in {len(draws) - len(known)} of {len(draws)} draws")
    return MetricValue(math.fsum(known) / len(known))


def every(numbers: Mapping[Key, MetricValue], reason: str) -> dict[Key, RatedValue]:
    """Return undefined values for every number, with one reason."""
    return {key: RatedValue(undefined(reason), undefined(reason)) for key in numbers}
