"""Simulated rates of correct and false significant losses in verdicts.

Scores are normal within each class and group, so that the losses in the population are known.
`tests/bias_metrics/gate/test_losses.py` draws them.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np

from benchmarks._operating import find_gap_shift, get_error_allowance
from bias_metrics import Rows, compare_bias
from bias_metrics.gate.losses import ALPHA, Loss, Losses
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.report import compute_joint_level
from bias_metrics.table import BiasTable

Shift = tuple[float, float]


@dataclass(frozen=True)
class Change:
    """Two models, with the metric in which the first is worse."""

    name: str
    candidate: Shift
    """Upward shifts of the groups' toxic and harmless comments."""
    champion: Shift
    grew: str | None = None
    """The metric that got worse; None without a loss."""
    n_groups: int = 1
    n_of_class: int = 200
    """Rows per class in each group; the background has five times as many."""
    separation: float = 2.0
    """Distance between the classes, in standard deviations."""


_UP, _DOWN = find_gap_shift(0.1), find_gap_shift(-0.1)
_TINY = find_gap_shift(0.02)
CHANGES = (
    Change("no gap, equal AUCs", (0, 0), (0, 0)),
    Change("no gap, equal AUCs, 4 groups", (0, 0), (0, 0), n_groups=4),
    Change("no gap, equal AUCs near 1, 60 rows of a class", (0, 0), (0, 0), None, 4, 60, 3.0),
    Change("equal gaps of the same sign", (0, _UP), (0, _UP)),
    Change("equal gaps of opposite sign, harmless comments", (0, _DOWN), (0, _UP)),
    Change("equal gaps of opposite sign, toxic comments", (_UP, 0), (_DOWN, 0)),
    Change("equal gaps of opposite sign, 4 groups", (0, _DOWN), (0, _UP), n_groups=4),
    Change("equal small gaps of opposite sign", (0, -_TINY), (0, _TINY), n_of_class=500),
    Change("a gap that shrinks and turns", (0, _DOWN), (0, find_gap_shift(0.2))),
    Change("a gap of .18 where none was", (0, find_gap_shift(0.18)), (0, 0), "negative_aeg"),
    Change(
        "a gap from +.05 to -.20",
        (0, find_gap_shift(-0.2)),
        (0, find_gap_shift(0.05)),
        "negative_aeg",
    ),
    Change("BPSN AUC from .92 to .86", (0, 0.47), (0, 0), "bpsn_auc"),
)


def simulate_listings(change: Change, draws: int) -> float:
    """Return the share of samples with a significant loss in the metric that got worse.

    Without a loss in the population, losses in any metric count.
    """
    rng = np.random.default_rng(zlib.crc32(change.name.encode()))
    return sum(_is_listed(change, rng) for _ in range(draws)) / draws


def draw_sample(
    change: Change, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Draw labels, the two models' scores and the groups' members."""
    sizes = [change.n_of_class] * change.n_groups + [5 * change.n_of_class]
    group = np.repeat(np.arange(change.n_groups + 1), [2 * size for size in sizes])
    labels = np.concatenate([np.arange(2 * size) < size for size in sizes])
    common = rng.standard_normal(labels.size) * math.sqrt(0.8)

    def draw_scores(shift: Shift) -> np.ndarray:
        noise = rng.standard_normal(labels.size) * math.sqrt(0.2)
        shifts = np.where(labels, *shift) * (group < change.n_groups)
        return np.asarray(common + noise + change.separation * labels + shifts)

    first, second = draw_scores(change.candidate), draw_scores(change.champion)
    return labels, first, second, {str(i): group == i for i in range(change.n_groups)}


def _is_listed(change: Change, rng: np.random.Generator) -> bool:
    labels, first, second, members = draw_sample(change, rng)

    def list_losses(level: float) -> tuple[Loss, ...]:
        comparison = compare_bias(labels, first, second, members, confidence=level)
        differences = BiasTable({}, comparison.counts).add_numbers(comparison, against="champion")
        return Losses.from_table(
            differences, "champion", dict.fromkeys(members, SUBGROUP_METRICS), level
        ).cells

    # To save time: the joint level is at least as high, so that it cannot list more losses.
    if change.grew is None and not list_losses(1 - 2 * ALPHA):
        return False
    level = compute_joint_level(Rows(labels, members), (first, second), members, alpha=ALPHA)
    return any(change.grew in {None, loss.metric} for loss in list_losses(level))


def is_as_required(change: Change, share: float, draws: int) -> bool:
    """Return whether a share is as required, within two Monte Carlo errors."""
    if change.grew:
        return share >= 0.9 - get_error_allowance(0.9, draws)
    return share <= ALPHA + get_error_allowance(ALPHA, draws)
