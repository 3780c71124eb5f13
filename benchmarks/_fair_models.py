"""False positive rates of the sentences about identities, for a fair model.

`python -m benchmarks._fair_models` prints the table. In the population, all identities have the
same distribution of scores. In a set, they have 10 to 120 toxic and 40 to 500 harmless comments,
and may overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchmarks._operating import get_error_allowance
from bias_metrics import Rows, evaluate_bias, rate_gaps
from bias_metrics.families import widen_selected
from biasgate.tasks.measuring.explaining import compute_joint_confidence, find_harms, look_first
from biasgate.tasks.records.numbers import widen_number

DRAWS, N, AUC, SIZES = 1000, 12_000, 0.9, (9, 24, 50)
NAMED, BELOW = 0.05, 0.025
_DISTANCE = math.sqrt(2) * NormalDist().inv_cdf(AUC)


@dataclass
class Shares:
    """Numbers of sets in which an identity is named, or an interval is below the true value."""

    draws: int = 0
    harmed: int = 0
    errors: int = 0
    named: int = 0
    """Sets in which any identity is named, for a low AUC or for more errors."""
    first_below: int = 0
    """Sets in which the interval of the lowest of all AUCs is below the true value."""
    worst_below: int = 0
    """Sets in which the interval of the worst BPSN AUC is below the true value."""

    def add_set(self, n_identities: int, rng: np.random.Generator) -> None:
        """Draw a set, measure it and count its errors."""
        labels = rng.random(N) < 0.2
        y_score = rng.standard_normal(N) + _DISTANCE * labels
        shares = np.geomspace(0.004, 0.05, n_identities)
        masks = {str(i): rng.random(N) < share for i, share in enumerate(shares)}
        bias = evaluate_bias(labels, y_score, masks, intervals="cells")
        level = compute_joint_confidence(n_identities)
        harms = find_harms(
            evaluate_bias(labels, y_score, masks, intervals="cells", confidence=level)
        )
        gaps_by_group = rate_gaps(Rows(labels, masks), y_score, threshold=_DISTANCE / 2).subgroups
        n_gaps = sum(map(len, gaps_by_group.values()))
        gaps = (
            widen_selected(gap, n_gaps)
            for group_gaps in gaps_by_group.values()
            for gap in group_gaps.values()
        )
        errors = any(gap.low is not None and gap.low > 0 for gap in gaps)
        first = look_first(bias, harms)
        lowest = widen_number(bias, str(first.subgroup), str(first.metric))
        self.draws += 1
        self.harmed += bool(harms)
        self.errors += errors
        self.named += bool(harms) or errors
        self.first_below += lowest.high is not None and lowest.high < AUC
        worst = bias.worst("bpsn_auc").value
        self.worst_below += worst.high is not None and worst.high < AUC

    def is_within_limits(self) -> bool:
        """Return whether all shares are within their limits plus two Monte Carlo errors."""
        is_named = self.named / self.draws <= NAMED + get_error_allowance(NAMED, self.draws)
        below = max(self.first_below, self.worst_below) / self.draws
        return is_named and below <= BELOW + get_error_allowance(BELOW, self.draws)


def simulate_shares(n_identities: int, draws: int = DRAWS) -> Shares:
    """Draw sets of a fair model, and count the errors in them."""
    rng, shares = np.random.default_rng(n_identities), Shares()
    for _ in range(draws):
        shares.add_set(n_identities, rng)
    return shares


def iter_table(draws: int = DRAWS) -> Iterator[str]:
    """Yield the lines of the table as they are computed."""
    yield (
        "| identities | a significantly low AUC | more errors at the threshold | either | the "
        "lowest AUC's interval is below the truth | that of the worst BPSN AUC |"
    )
    yield "|--:|--:|--:|--:|--:|--:|"
    for n_identities in SIZES:
        shares = simulate_shares(n_identities, draws)
        counts = shares.harmed, shares.errors, shares.named, shares.first_below, shares.worst_below
        yield f"| {n_identities} | {' | '.join(f'{n / draws:.1%}' for n in counts)} |"


if __name__ == "__main__":
    for line in iter_table():
        print(line, flush=True)
