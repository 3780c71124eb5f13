"""Rows, and scores of two models whose numbers are known for the population.

Rows are drawn with replacement from the 42,870 identity-rated test rows of Civil Comments: labels
and identities. For 24 identities, 15 more are drawn with about the shares that they have in
Jigsaw's training data, where some have no rows at all.

Scores are of two kinds. *Real*: those of toxic-bert on these rows, as normal scores, a tenth of
their variance within each class replaced by fresh noise for each draw and model, so that identities
differ as they do in life and there are no ties. *Normal*: every cell has one AUC, and every gap is
0. Both models are equal in distribution, and their scores have a correlation of .9 within each
class, unless a situation says otherwise.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bias_metrics.parts import PackedMasks
from biasgate.tasks.evidence.rows import EvidenceRows

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
AUC_MARGIN, GAP_MARGIN = 0.05, 0.10  # of `no-worse`
# Where the toxic and the harmless comments of an identity move; gaps move away from 0.
DIRECTIONS = {
    "subgroup_auc": (-1, 1),
    "bpsn_auc": (0, 1),
    "bnsp_auc": (-1, 0),
    "positive_aeg": (1, 0),
    "negative_aeg": (0, 1),
}
REAL = "real"
SCORES = (REAL, "0.80", "0.87", "0.93")
GAY, PSYCHIATRIC = "homosexual_gay_or_lesbian", "psychiatric_or_mental_illness"
SMALL = {9: (PSYCHIATRIC,), 24: ("hindu", "other_religion")}
_NORMAL = NormalDist()
_CORRELATION = 0.9
_FEW = (4, 8)  # toxic and harmless comments of a group of 12
_POINTS = 20_000
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Situation:
    """How a candidate differs from the champion.

    Attributes
    ----------
    name : str
        In words.
    group, metric : str or None
        The identity whose comments are moved, and the number that gets worse by `loss`.
    loss : float
        How far the population's number moves: an AUC down, the size of a gap up.
    better : float
        How far all toxic comments are moved upwards.
    clusters : bool
        Whether rows come from articles of about 8 comments, with a correlation of .1.
    passes : float or None
        The largest share of passes that the confidence allows; None if it should pass.
    to : float or None
        The population's number for both models, instead of a loss.
    few : bool
        Whether the identity has exactly 12 comments, toxic ones 2 standard deviations lower and
        harmless ones 2 higher.
    """

    name: str
    group: str | None = None
    metric: str | None = None
    loss: float = 0.0
    better: float = 0.0
    clusters: bool = False
    passes: float | None = None
    to: float | None = None
    few: bool = False


class Line(NamedTuple):
    """One line of the table."""

    scores: str
    policy: str
    situation: Situation
    n_identities: int
    n_rows: int


EQUAL = Situation("equal")
BETTER = Situation("better by .3 standard deviations", better=0.3)
FEW = Situation("12 comments of buddhist clearly worse", "buddhist", few=True, passes=0.05)
ON_NORMAL = (
    EQUAL,
    BETTER,
    Situation("equal, rows of articles", clusters=True),
    *(
        Situation(f"{metric} of {group} worse by {loss:.2f}", group, metric, loss, passes=0.05)
        for group, metric, loss in (
            (GAY, "bpsn_auc", AUC_MARGIN),
            (GAY, "bnsp_auc", AUC_MARGIN),
            (GAY, "negative_aeg", GAP_MARGIN),
            ("white", "bpsn_auc", AUC_MARGIN),
        )
    ),
)
AT_FLOOR = Situation("bpsn_auc of gay at the floor of .80", GAY, "bpsn_auc", to=0.8, passes=0.05)


def losses(group: str) -> Iterator[Situation]:
    """Yield losses of one and of two margins in each number of an identity."""
    for metric in DIRECTIONS:
        margin = GAP_MARGIN if metric.endswith("_aeg") else AUC_MARGIN
        for loss in (margin, 2 * margin):
            name = f"{metric} of {group} worse by {loss:.2f}"
            # A loss of one margin may pass where rows are few, but not without its name.
            yield Situation(name, group, metric, loss, passes=0.05 if loss > margin else 1.0)


def lines(scores: str, n_identities: int, n_rows: int, policy: str | None = None) -> Iterator[Line]:
    """Yield the lines of the table for one kind of scores, one set size and number of identities.

    `policy` is tried instead of `no-worse`, and of `default` where that has lines.
    """
    absolute: tuple[Situation, ...] = ()
    if scores == REAL:
        planted = [one for group in SMALL[n_identities] for one in losses(group)]
        relative: tuple[Situation, ...] = (EQUAL, BETTER, *planted, FEW)
    else:
        relative = ON_NORMAL
        absolute = (EQUAL, AT_FLOOR) if scores == "0.93" else ()
    for situation in relative:
        yield Line(scores, policy or "no-worse", situation, n_identities, n_rows)
    for situation in absolute if policy is None else ():
        yield Line(scores, "default", situation, n_identities, n_rows)


@cache
def real_rows() -> tuple[Bools, dict[str, Bools], Floats]:
    """Return labels, identities and normal scores of the real rows."""
    folder = Path(os.environ["BIASGATE_REAL_DATA"])
    table = pd.read_parquet(folder / "civil_comments_test_identities.parquet")
    scored = pd.read_csv(folder / "toxic_bert_submission.csv")
    table = table.merge(scored, on="id", validate="one_to_one")
    ranks = table["prediction"].rank().to_numpy()
    names = [name for name in table.columns if name not in {"id", "toxicity", "prediction"}]
    return (
        (table["toxicity"] >= 0.5).to_numpy(),
        {name: (table[name] >= 0.5).to_numpy() for name in names},
        np.array([_NORMAL.inv_cdf((float(rank) - 0.5) / len(table)) for rank in ranks]),
    )


def separation(auc: float) -> float:
    """Return how far apart two normal classes are, in standard deviations."""
    return math.sqrt(2) * _NORMAL.inv_cdf(auc)


def _mixed() -> tuple[Floats, Floats]:
    """Return what both models' scores of the real rows share, and the deviation of their noise."""
    labels, _, known = real_rows()
    shared, deviation = np.empty_like(known), np.empty_like(known)
    for rows in (labels, ~labels):
        centre, spread = known[rows].mean(), known[rows].std()
        shared[rows] = centre + math.sqrt(_CORRELATION) * (known[rows] - centre)
        deviation[rows] = math.sqrt(1 - _CORRELATION) * spread
    return shared, deviation


def sample(line: Line, rng: np.random.Generator) -> EvidenceRows:
    """Draw rows and scores of two models."""
    situation, n = line.situation, line.n_rows
    labels, members, _ = real_rows()
    drawn = rng.integers(0, labels.size, n)
    labels, members = labels[drawn], {name: mask[drawn] for name, mask in members.items()}
    if line.n_identities > len(members):
        share = labels.mean()
        for name, (of_all, toxic) in MORE.items():
            chance = np.where(labels, toxic / share, (1 - toxic) / (1 - share)) * of_all
            members[name] = rng.random(n) < chance
    if situation.few:
        of_class = zip((labels, ~labels), _FEW, strict=True)
        chosen = [rng.choice(np.flatnonzero(rows), k, replace=False) for rows, k in of_class]
        members[str(situation.group)] = np.isin(np.arange(n), np.concatenate(chosen))
    clusters, deviation = None, np.full(n, math.sqrt(1 - _CORRELATION))
    if line.scores == REAL:
        base, deviation = (of_rows[drawn] for of_rows in _mixed())
    else:
        base = rng.standard_normal(n)
        if situation.clusters:
            clusters = rng.integers(0, n // 8, n)
            base = math.sqrt(0.9) * base + math.sqrt(0.1) * rng.standard_normal(n // 8)[clusters]
        base = math.sqrt(_CORRELATION) * base + separation(float(line.scores)) * labels
    moved = np.where(labels, *shifts(line.scores, situation))
    if situation.group is not None:
        moved = moved * members[situation.group]
    own = deviation * rng.standard_normal((2, n))
    candidate = base + own[0] + moved + situation.better * labels
    champion = base + own[1] + (0.0 if situation.to is None else moved)
    masks = PackedMasks.from_masks(members.items(), n)
    return EvidenceRows(labels, masks, {"candidate": candidate, "champion": champion}, clusters)


@cache
def shifts(scores: str, situation: Situation) -> tuple[float, float]:
    """Return how far toxic and harmless comments of the group move upwards."""
    if situation.few:
        return -2.0, 2.0
    if situation.metric is None:
        return 0.0, 0.0
    assert situation.group is not None
    cells = _cells(scores, situation.group)
    metric, is_gap = situation.metric, situation.metric.endswith("_aeg")
    now = number(metric, cells)
    sign = -1 if is_gap and now < -0.001 else 1
    toxic, harmless = (sign * one for one in DIRECTIONS[metric])
    target = now + sign * situation.loss if is_gap else now - situation.loss
    if situation.to is not None:
        target = situation.to
    low, high = 0.0, 8.0
    for _ in range(40):  # the number moves away from `now` with the shift
        middle = (low + high) / 2
        reached = number(metric, cells, toxic * middle, harmless * middle)
        near = abs(reached - now) < abs(target - now)
        low, high = (middle, high) if near else (low, middle)
    return toxic * high, harmless * high


def number(
    metric: str, cells: Mapping[str, Floats], toxic: float = 0.0, harmless: float = 0.0
) -> float:
    """Return an identity's number in the population, its comments moved upwards."""
    positives, negatives = cells["toxic"] + toxic, cells["harmless"] + harmless
    if metric == "subgroup_auc":
        return _above(positives, negatives)
    if metric == "bpsn_auc":
        return 1 - _above(negatives, cells["other toxic"])
    if metric == "bnsp_auc":
        return _above(positives, cells["other harmless"])
    if metric == "positive_aeg":
        return _above(positives, cells["other toxic"]) - 0.5
    return _above(negatives, cells["other harmless"]) - 0.5


def _above(scores: Floats, others: Floats) -> float:
    """Return the chance that a score is above another one; `others` are sorted."""
    return float(np.searchsorted(others, scores).mean() / others.size)


@cache
def _quantiles(n: int) -> Floats:
    return np.array([_NORMAL.inv_cdf((k + 0.5) / n) for k in range(n)])


@cache
def _cells(scores: str, group: str) -> dict[str, Floats]:
    """Return an identity's scores and those of the others in the population, sorted, by class.

    Each real row stands for 50, with the quantiles of the noise, and 20,000 quantiles for all of
    them. An identity that is drawn at random from each class has the scores of the class.
    """
    labels, members, _ = real_rows()
    shared, deviation = _mixed()
    every = np.ones(labels.size, dtype=np.bool_)
    inside = members.get(group, every)
    outside = ~inside if group in members else every

    def spread(rows: Bools, *, toxic: bool) -> Floats:
        if scores == REAL:
            noise = np.multiply.outer(deviation[rows], _quantiles(50))
            each = np.sort((shared[rows, np.newaxis] + noise).ravel())
            at = (np.arange(_POINTS) + 0.5) / _POINTS * (each.size - 1)
            return np.interp(at, np.arange(each.size), each)
        return _quantiles(_POINTS) + toxic * separation(float(scores))

    return {
        "toxic": spread(inside & labels, toxic=True),
        "harmless": spread(inside & ~labels, toxic=False),
        "other toxic": spread(outside & labels, toxic=True),
        "other harmless": spread(outside & ~labels, toxic=False),
    }
