"""Errors by term: which words of an identity are decided wrongly more often than other rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_threshold
from bias_metrics._core.cuts import reaches
from bias_metrics._core.intervals import check_confidence
from bias_metrics.metrics import Rate
from bias_metrics.rows import Places, Rows
from bias_metrics.thresholds.shares import CountedShare, Events, Share

TERM_RATES = {
    "false_positive_rate": Rate(("negative",), "flagged"),
    "false_negative_rate": Rate(("positive",), "not flagged"),
}
"""The rates that are counted by term."""


@dataclass(frozen=True)
class TermErrors:
    """The errors on the rows that have one term of a subgroup."""

    subgroup: str
    term: str
    n: int
    n_flagged: int
    """Rows with the term, and how many of them are flagged."""
    rates: dict[str, CountedShare]
    """By name: `false_positive_rate` and `false_negative_rate`."""


@dataclass(frozen=True)
class ErrorsByTerm:
    """The errors at a threshold by term, beside those of all rows."""

    threshold: float
    confidence: float
    """With which all intervals hold together."""
    overall: dict[str, CountedShare]
    """The rates of all rows."""
    terms: list[TermErrors]

    def shown_worse(self, rate: str) -> list[TermErrors]:
        """Return the terms whose rate is significantly higher than that of all rows.

        The lower bound must be above the upper bound of all rows. The only term of a subgroup is
        left out, since its rate is the subgroup's. The highest bound comes first.
        """
        most = self.overall[rate].high
        if most is None:
            return []
        n_terms = Counter(one.subgroup for one in self.terms)
        found = [
            (low, one)
            for one in self.terms
            if n_terms[one.subgroup] > 1 and (low := one.rates[rate].low) is not None and low > most
        ]
        return [one for _, one in sorted(found, key=lambda pair: -pair[0])]


def errors_by_term(
    rows: Rows,
    y_score: npt.ArrayLike,
    terms: Mapping[tuple[str, str], Places],
    *,
    threshold: float,
    confidence: float = 0.95,
    intervals: bool = True,
) -> ErrorsByTerm:
    """Count the errors on the rows with each term.

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
        Intervals are exact ones of shares; with clusters those of as many independent rows as the
        rows are worth, and of fewer than 20 clusters there is none.

    Raises
    ------
    ValueError, TypeError
        If scores are of another number or not finite, the threshold is not finite, or the rows have
        weights.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26.

    Examples
    --------
    >>> rows = Rows([0, 0, 0, 1], {})
    >>> terms = {("names", "Ann"): [0, 1], ("names", "Bea"): [2, 3]}
    >>> found = errors_by_term(rows, [0.9, 0.8, 0.1, 0.4], terms, threshold=0.5)
    >>> [(one.term, one.rates["false_positive_rate"].count) for one in found.terms]
    [('Ann', 2), ('Bea', 0)]
    """
    rows.refuse("errors_by_term", "sample_weight")
    level, cut = check_confidence(confidence), check_threshold(threshold)
    flags = reaches(rows.scores("y_score", y_score), cut)
    events = {name: Events.of_rate(rate, rows, [flags]) for name, rate in TERM_RATES.items()}
    places = {key: np.asarray(of_term, dtype=np.intp) for key, of_term in terms.items()}
    overall = {name: Share.of(one.everywhere()) for name, one in events.items()}
    shares = {
        key: {name: Share.of(one.among(of_term)) for name, one in events.items()}
        for key, of_term in places.items()
    }
    n_shares = sum(share.n > 0 for of in (overall, *shares.values()) for share in of.values())
    joint = 1 - (1 - level) / max(n_shares, 1) if intervals else None

    def counted(of_rates: Mapping[str, Share]) -> dict[str, CountedShare]:
        return {name: CountedShare.of(share, joint) for name, share in of_rates.items()}

    return ErrorsByTerm(
        threshold=cut,
        confidence=level,
        overall=counted(overall),
        terms=[
            TermErrors(*key, of_term.size, int(flags[of_term].sum()), counted(shares[key]))
            for key, of_term in places.items()
        ],
    )
