"""False passes of a margin for models with a true loss equal to it, by its concentration.

`python -m benchmarks._few_rows` prints the table. Candidate and champion agree closely, except in
the comments in which the candidate loses: all comments of a class of the identity, a few comments,
or the comments of a few articles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np

from benchmarks._operating import get_error_allowance
from bias_metrics import Rows, compare_bias
from bias_metrics.thresholds import compare_rate_gaps

DRAWS, BACKGROUND, OTHERS = 2000, (400, 1600), 300
IN_ARTICLE = 4
_NOISE = 0.15  # of each model, in standard deviations: the two models have a correlation of .98
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Loss:
    """A loss in the toxic or the harmless comments of an identity."""

    where: Literal["all", "few", "articles", "none"]
    metric: Literal["subgroup_auc", "bpsn_auc", "bnsp_auc", "fpr_gap", "fnr_gap"]
    n: int
    """Comments of the class that loses."""
    auc: float
    """AUC of the champion."""
    margin: float
    allowed: float
    """The largest allowed share of passes."""

    @property
    def in_toxic(self) -> bool:
        """True if toxic comments lose."""
        return self.metric in {"bnsp_auc", "fnr_gap", "subgroup_auc"}

    def __str__(self) -> str:
        label = "toxic" if self.in_toxic else "harmless"
        return f"{self.metric} {self.auc:g}, margin {self.margin:g}, {self.n} {label}"


LEVELS = ((0.9, 0.05, 0.05), (0.95, 0.03, 0.025), (0.985, 0.03, 0.05))
SIZES = (25, 50, 100, 200)
LOSSES = (
    [
        Loss(where, metric, n, *level)
        for where in ("few", "all")
        for metric in ("bpsn_auc", "bnsp_auc", "subgroup_auc")
        for level in LEVELS
        for n in SIZES
    ]
    + [Loss("articles", "bnsp_auc", 4 * n, *level) for level in LEVELS[:2] for n in SIZES]
    + [
        Loss("few", metric, n, *level)
        for metric in ("fpr_gap", "fnr_gap")
        for level in LEVELS[:2]
        for n in SIZES
    ]
)


def simulate_passes(loss: Loss, draws: int = DRAWS, seed: int = 0) -> float:
    """Return the share of samples in which the loss is significantly within the margin."""
    rng = np.random.default_rng((seed, loss.n, round(1000 * loss.auc), len(loss.metric)))
    return sum(_is_passed(loss, rng) for _ in range(draws)) / draws


def _is_passed(loss: Loss, rng: np.random.Generator) -> bool:
    own_sizes = (loss.n, OTHERS) if loss.in_toxic else (OTHERS, loss.n)
    labels = np.repeat([True, False, True, False], [*own_sizes, *BACKGROUND])
    inside = np.arange(labels.size) < sum(own_sizes)
    rows = Rows(labels, {"identity": inside})
    articles = np.arange(labels.size) // IN_ARTICLE
    # The noise of a model increases the overlap of its classes.
    spread = math.hypot(1, _NOISE)
    separation = math.sqrt(2) * _NORMAL.inv_cdf(loss.auc) * spread
    common = rng.standard_normal(labels.size) + separation * labels
    champion, candidate = (common + _NOISE * rng.standard_normal(labels.size) for _ in range(2))
    losing = inside & (labels == loss.in_toxic)
    uniform = (
        rng.random(articles[-1] + 1)[articles]
        if loss.where == "articles"
        else rng.random(labels.size)
    )
    opposite = spread * rng.standard_normal(labels.size) + (0 if loss.in_toxic else separation)
    confidence = 1 - 2 * loss.allowed
    if loss.metric in {"fpr_gap", "fnr_gap"}:
        threshold = separation / 2
        error_rate = _NORMAL.cdf(-threshold / spread)
        replaced = losing & (uniform < loss.margin / (1 - error_rate)) & (loss.where != "none")
        candidate = np.where(replaced, -9.0 if loss.in_toxic else 99.0, champion)
        comparison = compare_rate_gaps(
            rows,
            candidate,
            champion,
            threshold_a=threshold,
            threshold_b=threshold,
            confidence=confidence,
        )
        high = comparison.subgroups["identity"][loss.metric].high
        return high is not None and high < loss.margin
    if loss.where == "all":
        shift = separation - math.sqrt(2) * _NORMAL.inv_cdf(loss.auc - loss.margin) * spread
        candidate = candidate + np.where(losing, -shift if loss.in_toxic else shift, 0.0)
    elif loss.where != "none":
        replaced = losing & (uniform < loss.margin / (loss.auc - 0.5))
        candidate = np.where(replaced, opposite, candidate)
    clusters = articles if loss.where == "articles" else None
    comparison = compare_bias(
        labels, candidate, champion, {"identity": inside}, confidence=confidence, clusters=clusters
    )
    low = comparison.subgroups["identity"][loss.metric].low
    return low is not None and low > -loss.margin


def is_allowed(loss: Loss, share: float, draws: int) -> bool:
    """Return whether a share is within the allowed share plus two Monte Carlo errors."""
    return share <= loss.allowed + get_error_allowance(loss.allowed, draws)


def iter_table(draws: int = DRAWS) -> Iterator[str]:
    """Yield the lines of the table as they are computed."""
    yield "| where | number and margin | passes | +- | allowed | an equal model passes |"
    yield "|---|---|--:|--:|--:|--:|"
    for loss in LOSSES:
        share = simulate_passes(loss, draws)
        equal = simulate_passes(replace(loss, where="none"), max(draws // 10, 20))
        error = 2 * math.sqrt(max(share, 1 / draws) * (1 - share) / draws)
        shares = f"{share:.1%} | {error:.1%} | {loss.allowed:.1%} | {equal:.0%}"
        yield f"| {loss.where} | {loss} | {shares} |"


if __name__ == "__main__":
    for line in iter_table():
        print(line, flush=True)
