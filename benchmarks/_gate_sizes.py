"""What included policies decide on sets of the sizes that teams have, by simulation.

Rows are drawn from the 42,870 identity-rated test rows of Civil Comments: label and identities.
For 24 identities, 15 more are drawn with about the shares that they have in Jigsaw's training
data, where some have no rows at all. Scores are normal, so that population values are known:
every AUC is .93 and every gap 0 unless a situation says otherwise, and the two models' scores
have a correlation of .9 within each class.

    BIASGATE_REAL_DATA=FOLDER python -m benchmarks._gate_sizes [DRAWS [SIZE ...]]
"""

from __future__ import annotations

import math
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pandas as pd

from bias_metrics._core.packed import PackedMasks
from bias_metrics.gate.decide import decide, evidence_needed
from biasgate.tasks.gating.measured_rows import Measuring, Rows, with_categories
from biasgate.tasks.gating.policy import Policy, read_policy

TODAY = date(2026, 1, 1)
SIZES = (5_000, 10_000, 20_000, 42_870, 100_000)
# Share of all rated rows, and of toxic ones among them: rounded.
MORE = {
    "transgender": (0.0062, 0.21),
    "other_gender": (0.00001, 0.2),
    "heterosexual": (0.0032, 0.23),
    "bisexual": (0.0007, 0.2),
    "other_sexual_orientation": (0.00001, 0.2),
    "hindu": (0.0013, 0.12),
    "buddhist": (0.0014, 0.11),
    "atheist": (0.0035, 0.13),
    "other_religion": (0.0002, 0.15),
    "asian": (0.0113, 0.12),
    "latino": (0.005, 0.15),
    "other_race_or_ethnicity": (0.0015, 0.17),
    "physical_disability": (0.00004, 0.2),
    "intellectual_or_learning_disability": (0.00005, 0.2),
    "other_disability": (0.0, 0.2),
}
_NORMAL = NormalDist()
SEPARATION = math.sqrt(2) * _NORMAL.inv_cdf(0.93)
AUC_DOWN = SEPARATION - math.sqrt(2) * _NORMAL.inv_cdf(0.88)  # an AUC of .88
GAP = math.sqrt(2) * _NORMAL.inv_cdf(0.6)  # a gap of .10
TO_FLOOR = SEPARATION - math.sqrt(2) * _NORMAL.inv_cdf(0.8)
GAY, HINDU = "homosexual_gay_or_lesbian", "hindu"


@dataclass(frozen=True)
class Situation:
    """How a candidate differs from the champion.

    Attributes
    ----------
    name : str
        In words.
    policies : tuple of str
        The policies that are tried.
    group : str
        The group whose scores are moved.
    toxic, harmless : float
        How far its toxic and harmless comments are moved upwards, in standard deviations.
    better : float
        How far all toxic comments are moved upwards.
    clusters : bool
        Whether rows come from articles of about 8 comments, with a correlation of .1.
    passes : float or None
        The largest share of passes that the confidence allows; None if it should pass.
    both : bool
        Whether the champion is moved as well.
    """

    name: str
    policies: tuple[str, ...]
    group: str = GAY
    toxic: float = 0.0
    harmless: float = 0.0
    better: float = 0.0
    clusters: bool = False
    passes: float | None = None
    both: bool = False


RELATIVE, ABSOLUTE = ("no-worse",), ("default",)
SITUATIONS = (
    Situation("equal", (*RELATIVE, *ABSOLUTE)),
    Situation("better by .3 standard deviations", RELATIVE, better=0.3),
    Situation("equal, rows of articles", RELATIVE, clusters=True),
    Situation("BPSN of gay lower by the margin", RELATIVE, harmless=AUC_DOWN, passes=0.05),
    Situation("BNSP of gay lower by the margin", RELATIVE, toxic=-AUC_DOWN, passes=0.05),
    Situation("Negative AEG of gay wider by the margin", RELATIVE, harmless=GAP, passes=0.05),
    Situation(
        "BPSN of white lower by the margin", RELATIVE, group="white", harmless=AUC_DOWN, passes=0.05
    ),
    Situation("BPSN of hindu .45 lower", RELATIVE, group=HINDU, harmless=SEPARATION),
    Situation("BPSN of gay at the floor", ABSOLUTE, harmless=TO_FLOOR, both=True, passes=0.05),
)


@cache
def real_rows() -> tuple[npt.NDArray[np.bool_], dict[str, npt.NDArray[np.bool_]]]:
    """Return labels and identities of the real rows."""
    folder = Path(os.environ["BIASGATE_REAL_DATA"])
    table = pd.read_parquet(folder / "civil_comments_test_identities.parquet")
    names = [name for name in table.columns if name not in {"id", "toxicity"}]
    return (table["toxicity"] >= 0.5).to_numpy(), {
        name: (table[name] >= 0.5).to_numpy() for name in names
    }


def sample(situation: Situation, n_rows: int, n_identities: int, rng: np.random.Generator) -> Rows:
    """Draw rows and scores of two models."""
    labels, members = real_rows()
    drawn = rng.integers(0, labels.size, n_rows)
    labels, members = labels[drawn], {name: mask[drawn] for name, mask in members.items()}
    if n_identities > len(members):
        share = labels.mean()
        for name, (of_all, toxic) in MORE.items():
            chance = np.where(labels, toxic / share, (1 - toxic) / (1 - share)) * of_all
            members[name] = rng.random(n_rows) < chance
    clusters, within = None, 0.0
    common = rng.standard_normal(n_rows)
    if situation.clusters:
        clusters, within = rng.integers(0, n_rows // 8, n_rows), 0.1
        common = math.sqrt(1 - within) * common
        common += math.sqrt(within) * rng.standard_normal(n_rows // 8)[clusters]
    base = math.sqrt(0.9) * common + SEPARATION * labels
    own = math.sqrt(0.1) * rng.standard_normal((2, n_rows))
    moved = np.where(labels, situation.toxic, situation.harmless)
    moved = moved * members.get(situation.group, np.zeros(n_rows, dtype=np.bool_))
    candidate = base + own[0] + moved + situation.better * labels
    champion = base + own[1] + (moved if situation.both else 0.0)
    masks = PackedMasks.of(members.items(), n_rows)
    return Rows(labels, masks, clusters, {"candidate": candidate, "champion": champion})


def outcome(policy: Policy, rows: Rows) -> str:
    """Judge as an evaluation does."""
    rules = policy.decision_rules()
    measuring = Measuring(
        rows=rows,
        power_mean_groups=None,
        background="outside_subgroup",
        is_sample=True,
        thresholds={},
        span=lambda *_: None,
    )
    evidence = {}
    for key in evidence_needed(rules):
        found = measuring.evidence(key[1])
        if policy.hierarchy is not None:
            found = with_categories(measuring, found, key[1], policy.hierarchy, rules)
        evidence[key] = found
    return decide(evidence, rules, today=TODAY, allow_first=True).outcome


def simulate(
    situation: Situation, n_rows: int, n_identities: int, draws: int, policies: dict[str, Policy]
) -> dict[str, Counter[str]]:
    """Return how often each policy gave each outcome."""
    rng = np.random.default_rng(zlib.crc32(f"{situation.name} {n_rows} {n_identities}".encode()))
    found: dict[str, Counter[str]] = {name: Counter() for name in policies}
    for _ in range(draws):
        rows = sample(situation, n_rows, n_identities, rng)
        for name, policy in policies.items():
            found[name][outcome(policy, rows)] += 1
    return found


def lines(draws: int, sizes: tuple[int, ...], more: dict[str, Policy]) -> Iterator[str]:
    """Yield the table as it is computed; `more` are policies to compare with, by name."""
    yield "| identities | rows | situation | policy | passes | fails | insufficient |"
    yield "|--:|--:|---|---|--:|--:|--:|"
    for n_identities in (9, 24):
        for situation in SITUATIONS:
            for n_rows in sizes:
                policies = {name: read_policy(name, Path()) for name in situation.policies}
                policies |= {name: one for name, one in more.items() if one.name in policies}
                if situation.group == HINDU and n_identities == 9:
                    continue
                found = simulate(situation, n_rows, n_identities, draws, policies)
                for name, counts in found.items():
                    shares = " | ".join(
                        f"{counts[kind] / draws:.0%}" for kind in ("pass", "fail", "insufficient")
                    )
                    yield (
                        f"| {n_identities} | {n_rows:,} | {situation.name} | {name} | {shares} |"
                    )


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    chosen = tuple(map(int, sys.argv[2:])) or SIZES
    for line in lines(number, chosen, {}):
        print(line, flush=True)
