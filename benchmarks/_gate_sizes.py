"""What included policies decide on sets of the sizes that teams have, by simulation.

Rows are drawn from the 42,870 identity-rated test rows of Civil Comments: label and identities.
For 24 identities, 15 more are drawn with about the shares that they have in Jigsaw's training
data, where some have no rows at all. Scores are normal, so that population values are known:
every AUC is .93 and every gap 0 unless a situation says otherwise, and the two models' scores
have a correlation of .9 within each class.

    BIASGATE_REAL_DATA=FOLDER python -m benchmarks._gate_sizes --help
"""

from __future__ import annotations

import argparse
import math
import os
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
from biasgate.tasks.gating.evidence_rows import Rows
from biasgate.tasks.gating.measured_categories import with_categories
from biasgate.tasks.gating.measured_rows import Measuring
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
    Situation("BPSN of hindu .43 lower", RELATIVE, group=HINDU, harmless=SEPARATION),
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
    return Rows(labels, masks, clusters, None, {"candidate": candidate, "champion": champion})


def before(policy: Policy) -> Policy:
    """Return the policy as it was before groups were rolled up: 25 rows of each class needed."""
    content = policy.model_dump(mode="json") | {"roll_up": None}
    for rule in content["rules"]:
        least = 25 if rule["scope"] == "each" else 2
        rule |= {"min_positives": least, "min_negatives": least}
    return Policy.model_validate(content)


def outcomes(policy: Policy, rows: Rows) -> tuple[str, str]:
    """Judge as an evaluation does: by the policy as it was before, and as it is."""
    measuring = Measuring(
        rows=rows,
        power_mean_groups=None,
        background="outside_subgroup",
        is_sample=True,
        thresholds={},
        span=lambda *_: None,
    )
    rules = policy.decision_rules()
    [key] = evidence_needed(rules)
    plain = measuring.evidence(key[1])
    assert policy.hierarchy is not None
    rolled = with_categories(measuring, plain, key[1], policy.hierarchy, rules)
    pairs = (plain, before(policy).decision_rules()), (rolled, rules)
    first, second = (
        decide({key: found}, of, today=TODAY, allow_first=True).outcome for found, of in pairs
    )
    return first, second


def simulate(
    situation: Situation, n_rows: int, n_identities: int, draws: int, policy: Policy
) -> tuple[Counter[str], Counter[str]]:
    """Return how often the policy gave each outcome, before and now."""
    rng = np.random.default_rng(zlib.crc32(f"{situation.name} {n_rows} {n_identities}".encode()))
    found: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for _ in range(draws):
        rows = sample(situation, n_rows, n_identities, rng)
        for counts, one in zip(found, outcomes(policy, rows), strict=True):
            counts[one] += 1
    return found


def line(situation: Situation, policy: str, n_identities: int, n_rows: int, draws: int) -> str:
    """Return one line of the table: pass, fail and insufficient in percent, before and now."""
    found = simulate(situation, n_rows, n_identities, draws, read_policy(policy, Path()))
    shares = [
        " / ".join(f"{100 * of[kind] / draws:.0f}" for kind in ("pass", "fail", "insufficient"))
        for of in found
    ]
    asked = "" if situation.passes is None else f"at most {situation.passes:.0%} pass"
    return (
        f"| {policy} | {situation.name} | {n_identities} | {n_rows:,} | {draws} | "
        f"{shares[0]} | {shares[1]} | {asked} |"
    )


def cases(
    names: str, identities: tuple[int, ...], sizes: tuple[int, ...]
) -> Iterator[tuple[Situation, str, int, int]]:
    """Yield the cases whose situation has one of some words in its name."""
    for n_identities in identities:
        for situation in SITUATIONS:
            if not any(word in situation.name for word in names.split(",")):
                continue
            if situation.group == HINDU and n_identities == len(real_rows()[1]):
                continue
            for policy in situation.policies:
                yield from ((situation, policy, n_identities, n_rows) for n_rows in sizes)


HEAD = """\
| policy | situation | identities | rows | samples | before | now | required |
|---|---|--:|--:|--:|---|---|---|"""


def main() -> None:
    """Print the table as it is computed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--situations", default="", help="words in their names, with commas")
    parser.add_argument("--identities", type=int, nargs="+", default=[9, 24])
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    given = parser.parse_args()
    print(HEAD, flush=True)
    for case in cases(given.situations, tuple(given.identities), tuple(given.rows)):
        print(line(*case, given.draws), flush=True)


if __name__ == "__main__":
    main()
