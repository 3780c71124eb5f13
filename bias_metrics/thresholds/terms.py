"""Errors and mean scores by term: which words of an identity are treated worse than other rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, check_threshold
from bias_metrics._core.cuts import reaches
from bias_metrics._core.intervals import (
    check_confidence,
    effective_number,
    few_clusters,
    quantile,
)
from bias_metrics._core.proportions import bounded_mean_interval
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.metrics import Rate
from bias_metrics.rows import Places, Rows
from bias_metrics.thresholds.shares import CountedShare, Events, Share

TERM_RATES = {
    "false_positive_rate": Rate(("negative",), "flagged"),
    "false_negative_rate": Rate(("positive",), "not flagged"),
}
"""The rates that are counted by term."""
MEAN_NEGATIVE, MEAN_POSITIVE = "mean_score_negative", "mean_score_positive"
"""The mean scores of harmless rows and of toxic rows, which are measured by term."""


@dataclass(frozen=True)
class TermErrors:
    """The errors and mean scores of the rows that have one term of a subgroup."""

    subgroup: str
    term: str
    n: int
    n_flagged: int
    """Rows with the term, and how many of them are flagged."""
    rates: dict[str, CountedShare]
    """By name: `false_positive_rate` and `false_negative_rate`."""
    mean_scores: dict[str, MetricValue] = field(default_factory=dict)
    """By name: `mean_score_negative` and `mean_score_positive`."""

    @property
    def numbers(self) -> dict[str, CountedShare | MetricValue]:
        """Rates and mean scores."""
        return {**self.rates, **self.mean_scores}


@dataclass(frozen=True)
class ErrorsByTerm:
    """The errors at a threshold and the mean scores by term, beside those of all rows."""

    threshold: float
    confidence: float
    """With which all intervals hold together."""
    overall: dict[str, CountedShare]
    """The rates of all rows."""
    terms: list[TermErrors]
    mean_scores: dict[str, MetricValue] = field(default_factory=dict)
    """The mean scores of all harmless rows and of all toxic rows."""

    @property
    def numbers(self) -> dict[str, CountedShare | MetricValue]:
        """Rates and mean scores of all rows."""
        return {**self.overall, **self.mean_scores}

    def shown_worse(self, name: str) -> list[TermErrors]:
        """Return the terms with a rate or mean score significantly worse than that of all rows.

        A higher rate is worse, so is a higher mean score of harmless rows, or a lower one of toxic
        rows. The whole interval must be beyond that of all rows. The only term of a subgroup is
        left out, since its numbers are the subgroup's. The worst bound comes first.
        """
        overall = self.numbers[name]
        n_terms = Counter(one.subgroup for one in self.terms)
        excess = [
            (_excess(name, one.numbers[name], overall), one)
            for one in self.terms
            if n_terms[one.subgroup] > 1
        ]
        return [one for by, one in sorted(excess, key=lambda pair: -pair[0]) if by > 0]


def _excess(
    name: str, own: CountedShare | MetricValue, overall: CountedShare | MetricValue
) -> float:
    """Return how far a number is shown to be worse than that of all rows."""
    better, worse = (overall, own) if name != MEAN_POSITIVE else (own, overall)
    if worse.low is None or better.high is None:
        return -math.inf
    return worse.low - better.high


def errors_by_term(
    rows: Rows,
    y_score: npt.ArrayLike,
    terms: Mapping[tuple[str, str], Places],
    *,
    threshold: float,
    confidence: float = 0.95,
    intervals: bool = True,
) -> ErrorsByTerm:
    """Count the errors on the rows with each term, and measure their mean scores.

    A subgroup that is found by many terms, such as given names, may look fair although a model
    flags every row with one of them.

    Parameters
    ----------
    rows : Rows
        All rows, without weights.
    y_score : float array of shape (n,)
        Finite scores.
    terms : mapping of (str, str) to int array
        By subgroup and term, the numbers of the rows that have the term.
    threshold : float
        The score at or above which a row is flagged. It is taken as given.
    confidence : float, default=0.95
        With which the intervals of all terms and of all rows hold together (Bonferroni).
    intervals : bool, default=True
        False for rows that are not a sample.

    Returns
    -------
    ErrorsByTerm
        Intervals of rates are exact; with clusters those of as many independent rows as the rows
        are worth. Intervals of mean scores hold for few and skewed scores in a known range: 0 to 1
        or, if any score is outside, that of all scores. With clusters, each cluster's mean counts
        as one score. Of fewer than 20 clusters there is no interval.

    Raises
    ------
    ValueError, TypeError
        If scores are of another number or not finite, the threshold is not finite, or the rows have
        weights.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26. Gaffke (2005), Mathematical Methods of Statistics 14.

    Examples
    --------
    >>> rows = Rows([0, 0, 0, 1], {})
    >>> terms = {("names", "Ann"): [0, 1], ("names", "Bea"): [2, 3]}
    >>> found = errors_by_term(rows, [0.9, 0.8, 0.1, 0.4], terms, threshold=0.5)
    >>> [(one.term, one.rates["false_positive_rate"].count) for one in found.terms]
    [('Ann', 2), ('Bea', 0)]
    >>> round(found.terms[0].mean_scores["mean_score_negative"], 2)
    0.85
    """
    rows.refuse("errors_by_term", "sample_weight")
    level, cut = check_confidence(confidence), check_threshold(threshold)
    scores = rows.scores("y_score", y_score)
    flags = reaches(scores, cut)
    events = {name: Events.of_rate(rate, rows, [flags]) for name, rate in TERM_RATES.items()}
    places = {key: np.asarray(of_term, dtype=np.intp) for key, of_term in terms.items()}
    overall = {name: Share.of(one.everywhere()) for name, one in events.items()}
    shares = {
        key: {name: Share.of(one.among(of_term)) for name, one in events.items()}
        for key, of_term in places.items()
    }
    # A rate has as many rows as the mean score of the same class.
    n_numbers = 2 * sum(share.n > 0 for of in (overall, *shares.values()) for share in of.values())
    joint = 1 - (1 - level) / max(n_numbers, 1) if intervals else None
    ends = float(scores.min(initial=0.0)), float(scores.max(initial=1.0))
    if ends != (0.0, 1.0):
        ends = float(scores.min()), float(scores.max())

    def counted(of_rates: Mapping[str, Share]) -> dict[str, CountedShare]:
        return {name: CountedShare.of(share, joint) for name, share in of_rates.items()}

    def averaged(of_term: Places) -> dict[str, MetricValue]:
        toxic = rows.y_true[of_term]
        classes = {MEAN_NEGATIVE: of_term[~toxic], MEAN_POSITIVE: of_term[toxic]}
        return {name: _mean_score(rows, scores, of, ends, joint) for name, of in classes.items()}

    return ErrorsByTerm(
        threshold=cut,
        confidence=level,
        overall=counted(overall),
        terms=[
            TermErrors(
                *(*key, of_term.size, int(flags[of_term].sum())),
                counted(shares[key]),
                averaged(of_term),
            )
            for key, of_term in places.items()
        ],
        mean_scores=averaged(np.arange(rows.n)),
    )


def _mean_score(
    rows: Rows,
    scores: FloatArray,
    places: Places,
    ends: tuple[float, float],
    confidence: float | None,
) -> MetricValue:
    """Return the mean score of some rows, with its interval for scores that end at these ends.

    `confidence`: None for rows that are not a sample.
    """
    if not places.size:
        return undefined("no rows")
    values = scores[places]
    mean, sizes, n_clusters = float(values.mean()), np.ones(places.size), None
    if confidence is None:
        return MetricValue(mean)
    if rows.clusters is not None:
        _, codes, counts = np.unique(rows.clusters[places], return_inverse=True, return_counts=True)
        n_clusters = counts.size
        if reason := few_clusters(n_clusters):
            return MetricValue(mean, reason, n_clusters=n_clusters)
        values = np.bincount(codes, values) / counts
        sizes = counts * effective_number(counts.astype(float)) / places.size
    least, most = ends
    if least == most:
        return MetricValue(mean, "all scores are equal", n_clusters=n_clusters)
    span = most - least
    shares = np.clip((values - least) / span, 0.0, 1.0)
    low, high = (
        least + span * end for end in bounded_mean_interval(shares, sizes, quantile(confidence))
    )
    return MetricValue(mean, low=min(low, mean), high=max(high, mean), n_clusters=n_clusters)
