"""Rows, and scores of two models with known numbers for the population.

Labels and identities of rows are drawn with replacement from the 42,870 identity-rated test rows of
Civil Comments. For 24 identities, 15 more are drawn with about the shares of Jigsaw's training
data, in which some are absent.

Scores are the normal scores of toxic-bert on these rows. A tenth of their variance within each
class is replaced by fresh noise for each draw and model, so that identities differ as in reality
and scores have no ties. Both models are equal in distribution, and their scores have a correlation
of .9 within each class, unless the situation is another.
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

# Share of all rated rows, and share of toxic rows among them: rounded.
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
# Signs of the shifts of an identity's toxic and harmless comments; gaps move away from 0.
DIRECTIONS = {
    "subgroup_auc": (-1, 1),
    "bpsn_auc": (0, 1),
    "bnsp_auc": (-1, 0),
    "positive_aeg": (1, 0),
    "negative_aeg": (0, 1),
}
REAL = "real"
GAY, PSYCHIATRIC = "homosexual_gay_or_lesbian", "psychiatric_or_mental_illness"
SMALL = {9: (PSYCHIATRIC,), 24: ("hindu", "other_religion")}
_NORMAL = NormalDist()
_CORRELATION = 0.9
_FEW = (4, 8)  # toxic and harmless comments of a group of 12
_POINTS = 20_000
Key = tuple[str, str, str, int, int]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Situation:
    """Difference between a candidate and the champion."""

    name: str
    group: str | None = None
    """The identity with shifted comments."""
    metric: str | None = None
    """The number that gets worse by `loss`."""
    loss: float = 0.0
    """Change of the population's number: an AUC down, the size of a gap up."""
    better: float = 0.0
    """Upward shift of all toxic comments."""
    passes: float | None = None
    """The largest share of passes that the confidence allows; None if it should pass."""
    few: bool = False
    """True if the identity has exactly 12 comments, toxic comments 2 standard deviations lower and
    harmless comments 2 higher."""


class Line(NamedTuple):
    """One line of the table."""

    policy: str
    situation: Situation
    n_identities: int
    n_rows: int

    @property
    def key(self) -> Key:
        """The key of the line in the saved draws."""
        return REAL, self.policy, self.situation.name, self.n_identities, self.n_rows


EQUAL = Situation("equal")
BETTER = Situation("better by .3 standard deviations", better=0.3)
FEW = Situation("12 comments of buddhist clearly worse", "buddhist", few=True, passes=0.05)


def iter_losses(group: str) -> Iterator[Situation]:
    """Yield losses of a margin and of two margins in each number of an identity."""
    for metric in DIRECTIONS:
        margin = GAP_MARGIN if metric.endswith("_aeg") else AUC_MARGIN
        for loss in (margin, 2 * margin):
            name = f"{metric} of {group} worse by {loss:.2f}"
            # A loss of one margin may pass with few rows, but not without its name.
            yield Situation(name, group, metric, loss, passes=0.05 if loss > margin else 1.0)


def iter_lines(n_identities: int, n_rows: int, policy: str) -> Iterator[Line]:
    """Yield the lines of the table for a set size and a number of identities."""
    planted = [loss for group in SMALL[n_identities] for loss in iter_losses(group)]
    for situation in (EQUAL, BETTER, *planted, FEW):
        yield Line(policy, situation, n_identities, n_rows)


@cache
def load_rows() -> tuple[Bools, dict[str, Bools], Floats]:
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


def _split_scores() -> tuple[Floats, Floats]:
    """Return the common part of both models' scores, and the deviation of their noise."""
    labels, _, scores = load_rows()
    shared, deviation = np.empty_like(scores), np.empty_like(scores)
    for rows in (labels, ~labels):
        centre, spread = scores[rows].mean(), scores[rows].std()
        shared[rows] = centre + math.sqrt(_CORRELATION) * (scores[rows] - centre)
        deviation[rows] = math.sqrt(1 - _CORRELATION) * spread
    return shared, deviation


def draw_rows(line: Line, rng: np.random.Generator) -> EvidenceRows:
    """Draw rows and scores of two models."""
    situation, n = line.situation, line.n_rows
    labels, members, _ = load_rows()
    drawn = rng.integers(0, labels.size, n)
    labels, members = labels[drawn], {name: mask[drawn] for name, mask in members.items()}
    if line.n_identities > len(members):
        share = labels.mean()
        for name, (share_of_rows, toxic) in MORE.items():
            chance = np.where(labels, toxic / share, (1 - toxic) / (1 - share)) * share_of_rows
            members[name] = rng.random(n) < chance
    if situation.few:
        classes = zip((labels, ~labels), _FEW, strict=True)
        chosen = [rng.choice(np.flatnonzero(rows), k, replace=False) for rows, k in classes]
        members[str(situation.group)] = np.isin(np.arange(n), np.concatenate(chosen))
    base, deviation = (part[drawn] for part in _split_scores())
    shift = np.where(labels, *find_shifts(situation))
    if situation.group is not None:
        shift = shift * members[situation.group]
    own = deviation * rng.standard_normal((2, n))
    scores = {
        "candidate": base + own[0] + shift + situation.better * labels,
        "champion": base + own[1],
    }
    return EvidenceRows(labels, PackedMasks.from_masks(members.items(), n), scores)


@cache
def find_shifts(situation: Situation) -> tuple[float, float]:
    """Return the upward shifts of toxic and harmless comments of the group."""
    if situation.few:
        return -2.0, 2.0
    if situation.metric is None:
        return 0.0, 0.0
    assert situation.group is not None
    cells = _list_scores(situation.group)
    metric, is_gap = situation.metric, situation.metric.endswith("_aeg")
    now = compute_number(metric, cells)
    sign = -1 if is_gap and now < -0.001 else 1
    toxic, harmless = (sign * direction for direction in DIRECTIONS[metric])
    target = now + sign * situation.loss if is_gap else now - situation.loss
    low, high = 0.0, 8.0
    for _ in range(40):  # the number moves away from `now` with the shift
        middle = (low + high) / 2
        reached = compute_number(metric, cells, toxic * middle, harmless * middle)
        is_short = abs(reached - now) < abs(target - now)
        low, high = (middle, high) if is_short else (low, middle)
    return toxic * high, harmless * high


def compute_number(
    metric: str, cells: Mapping[str, Floats], toxic: float = 0.0, harmless: float = 0.0
) -> float:
    """Return an identity's number in the population, with its comments shifted upwards."""
    positives, negatives = cells["toxic"] + toxic, cells["harmless"] + harmless
    if metric == "subgroup_auc":
        return _compute_auc(positives, negatives)
    if metric == "bpsn_auc":
        return 1 - _compute_auc(negatives, cells["other toxic"])
    if metric == "bnsp_auc":
        return _compute_auc(positives, cells["other harmless"])
    if metric == "positive_aeg":
        return _compute_auc(positives, cells["other toxic"]) - 0.5
    return _compute_auc(negatives, cells["other harmless"]) - 0.5


def _compute_auc(scores: Floats, others: Floats) -> float:
    """Return the chance that a score is above the others, which are sorted."""
    return float(np.searchsorted(others, scores).mean() / others.size)


@cache
def _list_scores(group: str) -> dict[str, Floats]:
    """Return an identity's scores and those of the others in the population, sorted, by class.

    Each real row is replaced by 50 rows with the quantiles of the noise, and these by 20,000
    quantiles. An identity that is drawn at random from each class has the scores of the class.
    """
    labels, members, _ = load_rows()
    shared, deviation = _split_scores()
    all_rows = np.ones(labels.size, dtype=np.bool_)
    inside = members.get(group, all_rows)
    outside = ~inside if group in members else all_rows

    quantiles = np.array([_NORMAL.inv_cdf((k + 0.5) / 50) for k in range(50)])

    def list_quantiles(rows: Bools) -> Floats:
        noise = np.multiply.outer(deviation[rows], quantiles)
        ordered = np.sort((shared[rows, np.newaxis] + noise).ravel())
        places = (np.arange(_POINTS) + 0.5) / _POINTS * (ordered.size - 1)
        return np.interp(places, np.arange(ordered.size), ordered)

    return {
        "toxic": list_quantiles(inside & labels),
        "harmless": list_quantiles(inside & ~labels),
        "other toxic": list_quantiles(outside & labels),
        "other harmless": list_quantiles(outside & ~labels),
    }
