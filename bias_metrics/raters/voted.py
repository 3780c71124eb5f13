"""Numbers by the votes of one group of raters, and how far comments and raters move them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import LEAST_EFFECTIVE
from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.clusters import ClusterSums, Codes
from bias_metrics._core.counted import too_few
from bias_metrics._core.intervals import (
    MIN_CLUSTERS,
    auc_interval,
    effective_number,
    few_clusters,
    quantile,
)
from bias_metrics._core.ranks import Floats, inner, squares_of
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.metrics import METRICS
from bias_metrics.raters.expected import Key, SoftPair, SoftPairs, SortedRows
from bias_metrics.rows import BACKGROUNDS, any_of

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Ballots:
    """Votes of one group of raters.

    Attributes
    ----------
    comment : int array of shape (v,)
        Row number of the comment of each vote.
    vote : bool array of shape (v,)
        True for toxic.
    rater : int array of shape (v,) or None
        Code of the rater.
    """

    comment: Rows
    vote: BoolArray
    rater: Rows | None

    def on(self, comments: Rows) -> Ballots:
        """Return the votes on these comments."""
        kept = np.isin(self.comment, comments)
        return Ballots(
            self.comment[kept], self.vote[kept], None if self.rater is None else self.rater[kept]
        )


@dataclass(frozen=True, eq=False)
class VotedNumber:
    """A number by the votes of one group.

    Attributes
    ----------
    measured : MetricValue
        With its interval.
    sums : ClusterSums or None
        How far the comments, or their clusters, move it.
    by_rater : float
        What raters who are strict or mild on all comments add to the variance.
    freedom : float
        Degrees of freedom.
    """

    measured: MetricValue
    sums: ClusterSums | None = None
    by_rater: float = 0.0
    freedom: float = math.inf

    def apart(self, other: VotedNumber) -> tuple[float, float]:
        """Return the standard error of the difference from another group's number.

        And its degrees of freedom. Both must have intervals and be measured on the same comments.
        """
        assert self.sums is not None  # noqa: S101
        assert other.sums is not None  # noqa: S101
        each = self.sums.each - other.sums.each
        variance = inner(each, each) + self.by_rater + other.by_rater
        freedom = min(self.freedom, other.freedom, squares_of([each])[1])
        return math.sqrt(variance), freedom


@dataclass(frozen=True, eq=False)
class Voted:
    """Comments with scores, on which groups of raters vote.

    Attributes
    ----------
    scores : float array of shape (n,)
        Scores.
    masks : mapping of str to bool array of shape (n,)
        Subgroups.
    clusters : int array of shape (n,) or None
        Codes of the clusters.
    background : {"outside_subgroup", "no_identity"}
        What subgroups are compared with.
    confidence : float
        Confidence of the intervals.
    """

    scores: FloatArray
    masks: Mapping[str, BoolArray]
    clusters: Codes | None
    background: str
    confidence: float

    def numbers(self, ballots: Ballots) -> dict[Key, VotedNumber]:
        """Return every number by these votes, over the comments that have any."""
        comments, of_vote = np.unique(ballots.comment, return_inverse=True)
        n_votes = np.bincount(of_vote, minlength=comments.size).astype(np.float64)
        fraction = np.bincount(of_vote, ballots.vote, comments.size) / n_votes
        rows = SortedRows.of(self.scores[comments])
        masks = {name: mask[comments] for name, mask in self.masks.items()}
        alike = self.background == BACKGROUNDS[0] or not masks
        outside = None if alike else ~any_of(masks)
        place = np.empty(comments.size, dtype=np.intp)
        place[rows.order] = np.arange(comments.size)
        placed = Ballots(place[of_vote], ballots.vote, ballots.rater)
        codes = None if self.clusters is None else self.clusters[comments][rows.order]
        share = 1 / n_votes[rows.order]
        pairs = SoftPairs(rows, fraction[rows.order], masks, outside)
        return {key: self._number(key, pair, placed, share, codes) for key, pair in pairs}

    def _number(
        self, key: Key, pair: SoftPair, ballots: Ballots, share: Floats, codes: Codes | None
    ) -> VotedNumber:
        if lack := pair.lack:
            return VotedNumber(undefined(lack))
        centre = METRICS[key[1]].centre
        value = pair.value - centre
        if min(pair.sizes) < LEAST_EFFECTIVE:
            return VotedNumber(MetricValue(value, "fewer than 2 effective rows in a class"))
        sums = pair.sums(codes)
        raters = _of_raters(pair, ballots, share)
        variance = sums.std_error**2 + raters.variance
        std_error = math.sqrt(variance)
        reason = None if codes is None else few_clusters(sums.n_clusters)
        if reason := reason or raters.few:
            return VotedNumber(MetricValue(value, reason, std_error))
        freedom = min(sums.freedom, raters.effective - 1)
        by_row = pair.sums(None).std_error ** 2
        effect = max(variance / by_row, 1.0) if by_row > 0 else 1.0
        low, high = auc_interval(
            pair.value,
            std_error,
            pair.sizes[0] / effect,
            pair.sizes[1] / effect,
            quantile(self.confidence, freedom),
        )
        measured = MetricValue(value, None, std_error, low - centre, high - centre)
        return VotedNumber(measured, sums, raters.variance, freedom)


@dataclass(frozen=True)
class _Raters:
    """What raters who are strict or mild on all comments add to a variance.

    Attributes
    ----------
    variance : float
        At least 0.
    n : int or None
        Raters with votes that count; None if they are not known.
    effective : float
        How many raters with equally many votes they are worth.
    """

    variance: float = 0.0
    n: int | None = None
    effective: float = math.inf

    @property
    def few(self) -> str | None:
        """Say that there are too few raters for an interval, if so."""
        if self.n is None or self.n >= MIN_CLUSTERS:
            return None
        return too_few(self.n, "rater", MIN_CLUSTERS)


def _of_raters(pair: SoftPair, ballots: Ballots, share: Floats) -> _Raters:
    """Return what raters add to the variance, from the influence of every vote.

    `share` is the weight of each vote on its comment.
    """
    if ballots.rater is None:
        return _Raters()
    toxic, harmless = np.zeros(share.size), np.zeros(share.size)
    for one, of in zip((pair.high, pair.low), pair.moved, strict=True):
        (toxic if one.sign > 0 else harmless)[one.inside] += of[one.inside]
    of_vote = np.where(ballots.vote, toxic[ballots.comment], harmless[ballots.comment])
    of_vote *= share[ballots.comment]
    counted = (pair.high.inside | pair.low.inside)[ballots.comment]
    by_rater = np.bincount(ballots.rater, of_vote * counted).astype(np.float64)
    votes = np.bincount(ballots.rater, counted).astype(np.float64)
    n = int(np.count_nonzero(votes))
    more = inner(by_rater, by_rater) * n / max(n - 1, 1) - inner(of_vote, of_vote * counted)
    return _Raters(max(more, 0.0), n, effective_number(votes))
