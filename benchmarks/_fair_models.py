"""How often a fair model names somebody, and how often what is said of the worst is wrong.

`python -m benchmarks._fair_models` prints the table. All identities have the same scores in the
population; they have 10 to 120 toxic and 40 to 500 harmless comments in a set, and may overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchmarks._operating import allowed_error
from bias_metrics import Rows, evaluate_bias, rate_gaps
from bias_metrics.families import widen_selected
from biasgate.tasks.measuring.explaining import find_harms, joint_confidence, look_first
from biasgate.tasks.records.numbers import named_number

DRAWS, N, AUC, SIZES = 1000, 12_000, 0.9, (9, 24, 50)
NAMED, BELOW = 0.05, 0.025
_DISTANCE = math.sqrt(2) * NormalDist().inv_cdf(AUC)


@dataclass
class Shares:
    """Of some sets: how many named somebody, and how many had an interval below the truth."""

    draws: int = 0
    harmed: int = 0
    errors: int = 0
    named: int = 0
    """Somebody, by either sentence."""
    first_below: int = 0
    """The interval of the lowest AUC of all."""
    worst_below: int = 0
    """The interval of the worst BPSN AUC."""

    def add(self, n_identities: int, rng: np.random.Generator) -> None:
        """Draw a set, and look at what is said of it."""
        labels = rng.random(N) < 0.2
        y_score = rng.standard_normal(N) + _DISTANCE * labels
        shares = np.geomspace(0.004, 0.05, n_identities)
        masks = {str(at): rng.random(N) < share for at, share in enumerate(shares)}
        bias = evaluate_bias(labels, y_score, masks, intervals="cells")
        level = joint_confidence(n_identities)
        harms = find_harms(
            evaluate_bias(labels, y_score, masks, intervals="cells", confidence=level)
        )
        found = rate_gaps(Rows(labels, masks), y_score, threshold=_DISTANCE / 2).subgroups
        n_gaps = sum(map(len, found.values()))
        gaps = (widen_selected(gap, n_gaps) for of in found.values() for gap in of.values())
        errors = any(gap.low is not None and gap.low > 0 for gap in gaps)
        first = look_first(bias, harms)
        lowest = named_number(bias, str(first.subgroup), str(first.metric))
        self.draws += 1
        self.harmed += bool(harms)
        self.errors += errors
        self.named += bool(harms) or errors
        self.first_below += lowest.high is not None and lowest.high < AUC
        worst = bias.worst("bpsn_auc").value
        self.worst_below += worst.high is not None and worst.high < AUC

    def holds(self) -> bool:
        """Say whether all shares are as promised, allowing for two Monte Carlo errors."""
        named = self.named / self.draws <= NAMED + allowed_error(NAMED, self.draws)
        below = max(self.first_below, self.worst_below) / self.draws
        return named and below <= BELOW + allowed_error(BELOW, self.draws)


def shares_of(n_identities: int, draws: int = DRAWS) -> Shares:
    """Draw sets of a fair model."""
    rng, found = np.random.default_rng(n_identities), Shares()
    for _ in range(draws):
        found.add(n_identities, rng)
    return found


def table(draws: int = DRAWS) -> Iterator[str]:
    """Yield the lines of the table as they are computed."""
    yield (
        "| identities | a significantly low AUC | more errors at the threshold | either | the "
        "lowest AUC's interval is below the truth | that of the worst BPSN AUC |"
    )
    yield "|--:|--:|--:|--:|--:|--:|"
    for n_identities in SIZES:
        one = shares_of(n_identities, draws)
        counts = one.harmed, one.errors, one.named, one.first_below, one.worst_below
        yield f"| {n_identities} | {' | '.join(f'{n / draws:.1%}' for n in counts)} |"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
