"""How often a model passes at any of twenty nightly looks, by simulation.

Scores are normal within each class and group, so that every population value is known. The two
models' scores have a correlation of .9 within each class. In the first table the candidate is worse
by exactly the margin of .05 in one AUC of one group: a pass at any night is a false one. The rival
is the naive method, which looks every night at the bound for one look.

In the second table both models are equal, and are judged by `no-worse` on nights of 5,000 rows
drawn from the 42,870 real ones (`BIASGATE_REAL_DATA=FOLDER`).

`--shifts` prints when a candidate that is as good as the champion passes, whose scores shift from
night to night. `--drop` prints after how many nights a model is blocked that gets worse after 30
good ones, so that one AUC of the group is below its floor: by all nights, and by the last seven.

    python -m benchmarks._nights --draws 1000
    python -m benchmarks._nights --shifts --draws 40
    python -m benchmarks._nights --drop --draws 20
    BIASGATE_REAL_DATA=FOLDER python -m benchmarks._nights --equal --draws 50
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.gate_sizes.judging import TODAY
from benchmarks.gate_sizes.populations import EQUAL, Line, sample
from bias_metrics import always_valid_confidence, compare_bias, pool_nights
from bias_metrics._core.intervals import quantile
from bias_metrics.gate.decide import decide, evidence_needed
from bias_metrics.gate.rules import LEAST_ROWS, for_every_look
from bias_metrics.parts import PackedMasks
from biasgate.tasks.evidence.categories import with_categories
from biasgate.tasks.evidence.measure import Measuring
from biasgate.tasks.evidence.rows import Rows
from biasgate.tasks.gating.policy import read_policy

NIGHTS = 20
MARGIN, CONFIDENCE = 0.05, 0.9  # two-sided: each bound errs in 5 of 100
_NORMAL = NormalDist()
Night = dict[str, Any]


@dataclass(frozen=True)
class Situation:
    """Nights of one kind.

    Attributes
    ----------
    name : str
        In words.
    metric : str
        The AUC that is lower by the margin: `bpsn_auc`, or `bnsp_auc`.
    n_rows : int
        Rows of a night; if `unequal`, the median.
    group, toxic : float
        Share of the group, and of toxic rows; in the first night, if the group `grows`.
    auc : float
        The champion's.
    unequal, clustered, grows : bool
        Whether nights differ in size (lognormal, standard deviation 1), whether rows come in
        threads of about five with a correlation of .3, and whether the group's share grows from
        night to night until it is half of the rows.
    shift : float
        Standard deviation, from night to night, of a shift of all of the candidate's scores.
        Its loss is that of many nights pooled.
    loss : float
        How much lower that AUC is than the champion's.
    """

    name: str
    metric: str = "bpsn_auc"
    n_rows: int = 300
    group: float = 0.25
    toxic: float = 0.25
    auc: float = 0.93
    unequal: bool = False
    clustered: bool = False
    grows: bool = False
    shift: float = 0.0
    loss: float = MARGIN


SITUATIONS = (
    Situation("equal nights"),
    Situation("nights of unequal sizes", unequal=True),
    Situation("rows in threads", clustered=True),
    Situation("scores shift by .3 from night to night", shift=0.3),
    Situation("scores shift by .3, nights of 3,000 rows", shift=0.3, n_rows=3000),
    Situation("two toxic comments of the group a night", "bnsp_auc", group=0.05, toxic=0.13),
    Situation("a group that grows from 1 % to half", group=0.01, grows=True),
    Situation(
        "two toxic comments a night, AUC .995", "bnsp_auc", group=0.05, toxic=0.13, auc=0.995
    ),
)


def nights_of(situation: Situation, rng: np.random.Generator) -> Iterator[Night]:
    """Yield the nights of one candidate."""
    for number in range(NIGHTS):
        size = rng.lognormal(0.0, 1.0) if situation.unequal else 1.0
        n = max(int(situation.n_rows * size), 20)
        grown = (0.5 / situation.group) ** (number / (NIGHTS - 1)) if situation.grows else 1.0
        labels, group = rng.random(n) < situation.toxic, rng.random(n) < situation.group * grown
        threads = rng.integers(0, n // 5, n)
        common = math.sqrt(0.9) * _with_threads(situation, threads, rng)
        own = math.sqrt(0.1) * rng.standard_normal((2, n))
        of_toxic = situation.metric == "bnsp_auc"
        moved = (labels if of_toxic else ~labels) & group
        apart, lower = _separation(situation.auc), _separation(situation.auc - situation.loss)
        lower *= math.hypot(1.0, situation.shift)
        scores = common + own + apart * labels
        scores[0] += situation.shift * rng.standard_normal()
        scores[0] += (lower - apart if of_toxic else apart - lower) * moved
        yield {
            "id": 1_000_000 * number + np.arange(n),
            "y_true": labels,
            "y_score_a": scores[0],
            "y_score_b": scores[1],
            "subgroups": {"group": group},
        } | ({"clusters": 1000 * number + threads} if situation.clustered else {})


def _separation(auc: float) -> float:
    """Return how many standard deviations the classes are apart."""
    return math.sqrt(2) * _NORMAL.inv_cdf(auc)


def _with_threads(
    situation: Situation, threads: npt.NDArray[np.intp], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    own = rng.standard_normal(threads.size)
    if not situation.clustered:
        return own
    shared = rng.standard_normal(int(threads.max()) + 1)[threads]
    return math.sqrt(0.7) * own + math.sqrt(0.3) * shared


def first_pass(situation: Situation, planned_rows: int | None, rng: np.random.Generator) -> float:
    """Return the night at which a candidate passes; infinite if at none.

    Parameters
    ----------
    situation : Situation
        The nights.
    planned_rows : int or None
        Of the bounds that hold at every night together; None for the naive method.
    rng : Generator
        Source of the rows.
    """
    seen: list[Night] = []
    for night in nights_of(situation, rng):
        seen.append(night)
        n_rows = sum(one["y_true"].size for one in seen)
        level = CONFIDENCE
        if planned_rows is not None:
            level = always_valid_confidence(level, n_rows, planned_rows=planned_rows)
        if not _may_pass(seen, situation.metric, level, least=LEAST_ROWS if planned_rows else 2):
            continue
        low = _low(seen, situation.metric, level, by_night=planned_rows is not None)
        if low is not None and low > -MARGIN:
            return len(seen)
    return math.inf


def _low(seen: list[Night], metric: str, level: float, *, by_night: bool) -> float | None:
    """Return the lower bound of the change that decides."""
    pooled = pool_nights(seen)
    if not by_night:
        return compare_bias(**pooled, confidence=level).subgroups["group"][metric].low
    numbers = np.arange(len(seen))
    labels = pooled["y_true"]
    rows = Rows(
        labels=labels,
        members=PackedMasks.of(pooled["subgroups"].items(), labels.size),
        clusters=pooled.get("clusters"),
        weights=None,
        scores={"candidate": pooled["y_score_a"], "champion": pooled["y_score_b"]},
        nights=np.repeat(numbers, [night["y_true"].size for night in seen]),
    )
    champion = _measuring(rows).evidence(level).champion
    assert champion is not None
    found: float | None = champion["subgroups"]["group"][metric]["low"]
    return found


def _may_pass(seen: list[Night], metric: str, level: float, least: int) -> bool:
    """Say whether the group has enough rows, and the estimate is not far from passing.

    To save time: a bound is no closer to an estimate than nine tenths of what the error of the
    group's rows alone says. (Of 660 bounds that were looked at, none was closer than 1.1.)
    """
    labels, group, a, b = (
        np.concatenate([one[key] if key else one["subgroups"]["group"] for one in seen])
        for key in ("y_true", "", "y_score_a", "y_score_b")
    )
    own = labels if metric == "bnsp_auc" else ~labels
    x, y = own & group, ~own & ~group
    if x.sum() < least:
        return False
    moves = [_placements(score, x, y) - _placements(score, x, y).mean() for score in (a, b)]
    value = (_placements(a, x, y) - _placements(b, x, y)).mean()
    value = -value if metric == "bpsn_auc" else value
    error = float(np.std(moves[0] - moves[1])) / math.sqrt(x.sum())
    return bool(value + MARGIN > 0.9 * quantile(level) * error)


def _placements(
    score: npt.NDArray[np.float64], x: npt.NDArray[np.bool_], y: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the share of y below each x."""
    return np.searchsorted(np.sort(score[y]), score[x]) / y.sum()


def share_of_passes(situation: Situation, planned_nights: int | None, draws: int) -> float:
    """Return the share of candidates that pass at any night; None for the naive method."""
    rng = np.random.default_rng(zlib.crc32(f"{situation.name} {planned_nights}".encode()))
    planned = None if planned_nights is None else planned_nights * situation.n_rows
    firsts = [first_pass(situation, planned, rng) for _ in range(draws)]
    return sum(map(math.isfinite, firsts)) / draws


def nights_to_pass(
    planned_nights: int, n_rows: int, draws: int, *, roll_up: bool = True
) -> list[float]:
    """Return the first night at which each of some equal models passes; infinite if none.

    Without `roll_up`, each of the nine identities must have enough rows of its own.
    """
    rng, policy = np.random.default_rng(5), read_policy("no-worse", Path())
    rules = for_every_look(policy.decision_rules())
    [key] = evidence_needed(rules)
    found = []
    for _ in range(draws):
        rows, first = sample(Line("0.93", "no-worse", EQUAL, 9, NIGHTS * n_rows), rng), math.inf
        for night in range(1, NIGHTS + 1):
            n = night * n_rows
            measuring = _measuring(_first(rows, n))
            if roll_up and policy.hierarchy is not None:
                joined = policy.hierarchy.joined(list(measuring.rows.members))
                measuring = replace(measuring, categories=joined)
            level = always_valid_confidence(key[1], n, planned_rows=planned_nights * n_rows)
            known = measuring.evidence(level)
            if roll_up and policy.hierarchy is not None:
                small = policy.small_groups(TODAY)
                known = with_categories(measuring, known, level, small, rules)
            if decide({key: known}, rules, today=TODAY).outcome == "pass":
                first = night
                break
        found.append(first)
    return found


GOOD_NIGHTS, MOST_NIGHTS, WINDOW, PLANNED = 30, 60, 7, 30_000
# By how much a number drops, and how far above its floor it was.
DROPS = ((0.0, 0.0), (0.0, 0.01), (0.05, 0.03), (0.1, 0.03))


def dropping(n_rows: int, drop: float, rng: np.random.Generator) -> Rows:
    """Return nights of a model of which one AUC of the group drops after `GOOD_NIGHTS`."""
    situation, n = Situation("a drop"), (GOOD_NIGHTS + MOST_NIGHTS) * n_rows
    nights = np.arange(n) // n_rows
    labels, group = rng.random(n) < situation.toxic, rng.random(n) < situation.group
    apart, lower = _separation(situation.auc), _separation(situation.auc - drop)
    moved = group & ~labels & (nights >= GOOD_NIGHTS)
    return Rows(
        labels=labels,
        members=PackedMasks.of([("group", group)], n),
        scores={"candidate": rng.standard_normal(n) + apart * labels + (apart - lower) * moved},
        nights=nights,
    )


def first_block(rows: Rows, floor: float, window: int | None) -> float:
    """Return after how many nights of a drop a floor blocks; infinite if it does not.

    All nights block if they do not show any more that the floor holds, the last ones, `window`, if
    they show that it does not.
    """
    assert rows.nights is not None
    for last in range(GOOD_NIGHTS + 1, GOOD_NIGHTS + MOST_NIGHTS + 1):
        known = rows.nights < last
        n_rows = int(known.sum())
        level = always_valid_confidence(CONFIDENCE, n_rows, planned_rows=PLANNED)
        if window is not None:
            known, level = known & (rows.nights >= last - window), CONFIDENCE
        found = _measuring(rows.within(known)).evidence(level).report["subgroups"]["group"]
        if found["bpsn_auc"]["low" if window is None else "high"] < floor:
            return last - GOOD_NIGHTS
    return math.inf


def print_drops(draws: int) -> None:
    """Print after how many nights drops block: the median, the least and the most."""
    for n_rows, (drop, to_spare) in product((1_000, 5_000), DROPS):
        floor = Situation("a drop").auc - to_spare
        rng = np.random.default_rng(zlib.crc32(f"{n_rows} {drop}".encode()))
        drawn = [dropping(n_rows, drop, rng) for _ in range(draws)]
        for window in (None, WINDOW) if drop else (WINDOW,):
            found = [first_block(rows, floor, window) for rows in drawn]
            shown = f"{median(found)} ({min(found)} to {max(found)}), {found.count(math.inf)} never"
            by = f"last {window}" if window else "all"
            print(f"| {n_rows:,} | {to_spare} | {drop} | {by} | {shown} |", flush=True)


def _measuring(rows: Rows) -> Measuring:
    return Measuring(
        rows=rows,
        power_mean_groups=None,
        background="outside_subgroup",
        is_sample=True,
        thresholds={},
        span=lambda *_: None,
    )


def _first(rows: Rows, n: int) -> Rows:
    chosen = np.arange(rows.labels.size) < n
    return Rows(
        labels=rows.labels[:n],
        members=rows.members.within(chosen),
        clusters=None,
        weights=None,
        scores={name: scores[:n] for name, scores in rows.scores.items()},
        nights=np.arange(n) // (rows.labels.size // NIGHTS),
    )


def main() -> None:
    """Print a table as it is computed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--planned", type=int, nargs="+", default=[6])
    parser.add_argument("--words", default="", help="in the names of situations")
    parser.add_argument("--valid", action="store_true", help="without the naive method")
    parser.add_argument("--equal", action="store_true", help="how soon equal models pass")
    parser.add_argument("--alone", action="store_true", help="equal, without roll-up")
    parser.add_argument("--shifts", action="store_true", help="how soon shifting models pass")
    parser.add_argument("--drop", action="store_true", help="how soon a drop is noticed")
    given = parser.parse_args()
    if given.drop:
        print_drops(given.draws)
        return
    if given.shifts:
        for shift in (0.0, 0.1, 0.3):
            situation = Situation("equal", n_rows=3_000, shift=shift, loss=0.0)
            rng = np.random.default_rng(5)
            found = [first_pass(situation, 6 * 3_000, rng) for _ in range(given.draws)]
            print(f"shift {shift}: median {median(found)}, {sorted(found)}", flush=True)
        return
    if given.equal or given.alone:
        for planned in given.planned:
            found = nights_to_pass(planned, 5000, given.draws, roll_up=not given.alone)
            print(f"planned {planned}: median {median(found)}, {Counter(found)}", flush=True)
        return
    for situation in SITUATIONS:
        if given.words not in situation.name:
            continue
        for planned in given.planned if given.valid else (None, *given.planned):
            share = share_of_passes(situation, planned, given.draws)
            error = 2 * math.sqrt(share * (1 - share) / given.draws)
            print(f"| {situation.name} | {planned} | {share:.1%} +- {error:.1%} |", flush=True)


if __name__ == "__main__":
    main()
