"""Errors and mean scores by term: words of an identity that a model treats worse than all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, check_threshold
from bias_metrics._core.cuts import reaches_cut
from bias_metrics._core.intervals import (
    check_confidence,
    compute_effective_size,
    explain_few_clusters,
    student_quantile,
)
from bias_metrics._core.proportions import bounded_mean_interval
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.metrics import Rate
from bias_metrics.rows import Places, Rows
from bias_metrics.thresholds.shares import CountedShare, Events, Share

TERM_RATES = {
    "false_positive_rate": Rate(("negative",), "flagged"),
    "false_negative_rate": Rate(("positive",), "not flagged"),
}
"""The error rates counted by term."""
MEAN_NEGATIVE, MEAN_POSITIVE = "mean_score_negative", "mean_score_positive"
"""The mean scores measured by term: of harmless rows and of toxic rows."""


@dataclass(frozen=True)
class TermErrors:
    """The errors and mean scores of the rows with a term of a subgroup."""

    subgroup: str
    term: str
    n: int
    n_flagged: int
    """Rows with the term, and the flagged rows among these."""
    rates: dict[str, CountedShare]
    """Rates by name (`false_positive_rate`, `false_negative_rate`)."""
    mean_scores: dict[str, MetricValue] = field(default_factory=dict)
    """Mean scores by name (`mean_score_negative`, `mean_score_positive`)."""

    @property
    def numbers(self) -> dict[str, CountedShare | MetricValue]:
        """Rates and mean scores."""
        return {**self.rates, **self.mean_scores}


@dataclass(frozen=True)
class ErrorsByTerm:
    """The errors at a threshold and the mean scores, by term and of all rows."""

    threshold: float
    confidence: float
    """Joint confidence of all intervals."""
    overall: dict[str, CountedShare]
    """The rates of all rows."""
    terms: list[TermErrors]
    mean_scores: dict[str, MetricValue] = field(default_factory=dict)
    """The mean scores of all harmless rows and of all toxic rows."""

    @property
    def numbers(self) -> dict[str, CountedShare | MetricValue]:
        """Rates and mean scores of all rows."""
        return {**self.overall, **self.mean_scores}

    def list_worse_terms(self, name: str) -> list[TermErrors]:
        """Return the terms with a rate or mean score significantly worse than that of all rows.

        Higher rates are worse, as are higher mean scores of harmless rows and lower mean scores of
        toxic rows. The whole interval must be beyond that of all rows. The worst bound comes first.
        The only term of a subgroup is left out, since its numbers are the subgroup's.
        """
        overall = self.numbers[name]
        n_terms = Counter(term.subgroup for term in self.terms)
        excesses = []
        for term in self.terms:
            own = term.numbers[name]
            better, worse = (overall, own) if name != MEAN_POSITIVE else (own, overall)
            if n_terms[term.subgroup] > 1 and worse.low is not None and better.high is not None:
                excesses.append((worse.low - better.high, term))
        return [term for excess, term in sorted(excesses, key=lambda pair: -pair[0]) if excess > 0]


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

    A subgroup that is matched by many terms, such as given names, may look fair even if a model
    flags every row with a certain term.

    `terms` has the positions of the rows that have the term, by subgroup and term. A score at or
    above the threshold is flagged; the intervals take it as given. They hold jointly for all terms
    and all rows (Bonferroni), and are left out for rows that are not a sample (`intervals`).

    Intervals of rates are exact; with clusters they use the effective sample size. Intervals of
    mean scores are valid for few and skewed scores in a known range: 0 to 1 or, if any score is
    outside, that of all scores. With clusters, each cluster's mean counts as a score. Fewer than 20
    clusters give no interval.

    Raises
    ------
    ValueError, TypeError
        If the number of scores or rows differs, a value is not finite, or the rows have weights.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26. Gaffke (2005), Mathematical Methods of Statistics 14.

    Examples
    --------
    >>> rows = Rows([0, 0, 0, 1], {})
    >>> terms = {("names", "Ann"): [0, 1], ("names", "Bea"): [2, 3]}
    >>> errors = errors_by_term(rows, [0.9, 0.8, 0.1, 0.4], terms, threshold=0.5)
    >>> [(term.term, term.rates["false_positive_rate"].count) for term in errors.terms]
    [('Ann', 2), ('Bea', 0)]
    >>> round(errors.terms[0].mean_scores["mean_score_negative"], 2)
    0.85
    """
    rows.refuse_ignored("errors_by_term", "sample_weight")
    level, cut = check_confidence(confidence), check_threshold(threshold)
    scores = rows.check_scores("y_score", y_score)
    flags = reaches_cut(scores, cut)
    events = {name: Events.from_rate(rate, rows, [flags]) for name, rate in TERM_RATES.items()}
    places = {key: np.asarray(positions, dtype=np.intp) for key, positions in terms.items()}
    overall = {name: Share.from_counts(errors.count_all()) for name, errors in events.items()}
    shares = {
        key: {
            name: Share.from_counts(errors.count_among(term_places))
            for name, errors in events.items()
        }
        for key, term_places in places.items()
    }
    # A rate has as many rows as the mean score of the same class.
    n_numbers = 2 * sum(
        share.n > 0 for rates in (overall, *shares.values()) for share in rates.values()
    )
    joint = 1 - (1 - level) / max(n_numbers, 1) if intervals else None
    ends = float(scores.min(initial=0.0)), float(scores.max(initial=1.0))
    if ends != (0.0, 1.0):
        ends = float(scores.min()), float(scores.max())

    def measure_rates(rates: Mapping[str, Share]) -> dict[str, CountedShare]:
        return {name: CountedShare.from_share(share, joint) for name, share in rates.items()}

    def measure_means(term_places: Places) -> dict[str, MetricValue]:
        is_toxic = rows.y_true[term_places]
        classes = {MEAN_NEGATIVE: term_places[~is_toxic], MEAN_POSITIVE: term_places[is_toxic]}
        return {
            name: _measure_mean(rows, scores, members, ends, joint)
            for name, members in classes.items()
        }

    return ErrorsByTerm(
        threshold=cut,
        confidence=level,
        overall=measure_rates(overall),
        terms=[
            TermErrors(
                *(*key, term_places.size, int(flags[term_places].sum())),
                measure_rates(shares[key]),
                measure_means(term_places),
            )
            for key, term_places in places.items()
        ],
        mean_scores=measure_means(np.arange(rows.n)),
    )


def _measure_mean(
    rows: Rows,
    scores: FloatArray,
    places: Places,
    ends: tuple[float, float],
    confidence: float | None,
) -> MetricValue:
    """Return the mean score of some rows, with its interval for scores in the range `ends`.

    `confidence` is None if rows are not a sample.
    """
    if not places.size:
        return make_undefined("no rows")
    values = scores[places]
    mean, sizes, n_clusters = float(values.mean()), np.ones(places.size), None
    if confidence is None:
        return MetricValue(mean)
    if rows.clusters is not None:
        _, codes, counts = np.unique(rows.clusters[places], return_inverse=True, return_counts=True)
        n_clusters = counts.size
        if reason := explain_few_clusters(n_clusters):
            return MetricValue(mean, reason, n_clusters=n_clusters)
        values = np.bincount(codes, values) / counts
        sizes = counts * compute_effective_size(counts.astype(float)) / places.size
    least, most = ends
    if least == most:
        return MetricValue(mean, "all scores are equal", n_clusters=n_clusters)
    span = most - least
    shares = np.clip((values - least) / span, 0.0, 1.0)
    low, high = (
        least + span * end
        for end in bounded_mean_interval(shares, sizes, student_quantile(confidence))
    )
    return MetricValue(mean, low=min(low, mean), high=max(high, mean), n_clusters=n_clusters)
