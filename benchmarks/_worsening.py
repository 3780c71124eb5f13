"""How often a verdict correctly and wrongly lists what got worse, by simulation.

Scores are normal within each class and group, so that it is known what got worse in the
population. `python -m benchmarks._worsening` prints the table.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks._operating import allowed_error
from benchmarks._situations import gap_shift_of
from bias_metrics import Rows, compare_bias
from bias_metrics.gate.losses import ALPHA, Loss, Losses
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.report.jointly import compute_joint_level
from bias_metrics.table import BiasTable

DRAWS = 2000
Shift = tuple[float, float]


@dataclass(frozen=True)
class Change:
    """Two models, and whether the first is worse anywhere.

    Attributes
    ----------
    name : str
        Description in words.
    candidate, champion : tuple of float
        How far toxic and harmless comments of each group are shifted upwards.
    grew : str or None
        The metric that got worse; None if none did.
    n_groups : int
        Number of groups, all shifted alike.
    n_of_class : int
        Rows of each class in each group; the background has five times as many.
    separation : float
        Distance between the classes, in standard deviations.
    """

    name: str
    candidate: Shift
    champion: Shift
    grew: str | None = None
    n_groups: int = 1
    n_of_class: int = 200
    separation: float = 2.0


_UP, _DOWN = gap_shift_of(0.1), gap_shift_of(-0.1)
_TINY = gap_shift_of(0.02)
CHANGES = (
    Change("no gap, equal AUCs", (0, 0), (0, 0)),
    Change("no gap, equal AUCs, 4 groups", (0, 0), (0, 0), n_groups=4),
    Change("no gap, equal AUCs near 1, 60 rows of a class", (0, 0), (0, 0), None, 4, 60, 3.0),
    Change("equal gaps of the same sign", (0, _UP), (0, _UP)),
    Change("equal gaps of opposite sign, harmless comments", (0, _DOWN), (0, _UP)),
    Change("equal gaps of opposite sign, toxic comments", (_UP, 0), (_DOWN, 0)),
    Change("equal gaps of opposite sign, 4 groups", (0, _DOWN), (0, _UP), n_groups=4),
    Change("equal small gaps of opposite sign", (0, -_TINY), (0, _TINY), n_of_class=500),
    Change("a gap that shrinks and turns", (0, _DOWN), (0, gap_shift_of(0.2))),
    Change("a gap of .18 where none was", (0, gap_shift_of(0.18)), (0, 0), "negative_aeg"),
    Change(
        "a gap from +.05 to -.20", (0, gap_shift_of(-0.2)), (0, gap_shift_of(0.05)), "negative_aeg"
    ),
    Change("BPSN AUC from .92 to .86", (0, 0.47), (0, 0), "bpsn_auc"),
)


def listed(change: Change, draws: int) -> float:
    """Return the share of samples that list the metric that got worse, or anything if none did."""
    rng = np.random.default_rng(zlib.crc32(change.name.encode()))
    return sum(_is_listed(change, rng) for _ in range(draws)) / draws


def sample(
    change: Change, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Draw labels, the two models' scores and the groups' members."""
    sizes = [change.n_of_class] * change.n_groups + [5 * change.n_of_class]
    group = np.repeat(np.arange(change.n_groups + 1), [2 * one for one in sizes])
    labels = np.concatenate([np.arange(2 * one) < one for one in sizes])
    common = rng.standard_normal(labels.size) * math.sqrt(0.8)

    def scores(shift: Shift) -> np.ndarray:
        own = rng.standard_normal(labels.size) * math.sqrt(0.2)
        moved = np.where(labels, *shift) * (group < change.n_groups)
        return np.asarray(common + own + change.separation * labels + moved)

    first, second = scores(change.candidate), scores(change.champion)
    return labels, first, second, {str(one): group == one for one in range(change.n_groups)}


def _is_listed(change: Change, rng: np.random.Generator) -> bool:
    labels, first, second, members = sample(change, rng)

    def shown(level: float) -> tuple[Loss, ...]:
        compared = compare_bias(labels, first, second, members, confidence=level)
        differences = BiasTable({}, compared.counts).add_numbers(compared, against="champion")
        return Losses.from_table(
            differences, "champion", dict.fromkeys(members, SUBGROUP_METRICS), level
        ).cells

    # To save time: at the joint level, which is never below this one, no more is listed.
    if change.grew is None and not shown(1 - 2 * ALPHA):
        return False
    level = compute_joint_level(Rows(labels, members), (first, second), members, alpha=ALPHA)
    return any(change.grew in {None, loss.metric} for loss in shown(level))


def rows(draws: int = DRAWS) -> Iterator[str]:
    """Yield the lines of the table as they are computed."""
    yield "| population | listed | required |\n|---|--:|---|"
    for one in CHANGES:
        demand = "at least 90 %" if one.grew else f"at most {100 * ALPHA:.0f} %"
        yield f"| {one.name} | {100 * listed(one, draws):.1f} % | {demand} |"


def as_demanded(change: Change, share: float, draws: int) -> bool:
    """Say whether a share is as required, allowing for two Monte Carlo errors."""
    if change.grew:
        return share >= 0.9 - allowed_error(0.9, draws)
    return share <= ALPHA + allowed_error(ALPHA, draws)


if __name__ == "__main__":
    for line in rows():
        print(line, flush=True)
