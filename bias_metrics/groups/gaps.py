"""Results of the counterfactual comparisons: gaps between scores, on the scale of the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bias_metrics._core.tables import Row, Tabular, labelled, rows_of
from bias_metrics._core.values import MetricValue
from bias_metrics.groups.counts import as_dicts


@dataclass(frozen=True)
class CounterfactualGap(Tabular):
    """How one term's score differs from that of other terms in the same sentence.

    Attributes
    ----------
    n : int
        Sentences with this term and another.
    mean_gap : MetricValue
        Mean of the gaps, signed: above 0 the term scores higher than the others.
    std_error : MetricValue
        Standard error of the mean gap over sentences; undefined for fewer than 2.
    mean_absolute_gap : MetricValue
        Mean size of the gaps, at least 0.
    share_highest : MetricValue
        Share of the sentences in which this term scores highest, from 0 to 1; k terms that
        tie for the highest score count 1/k each.
    """

    n: int
    mean_gap: MetricValue
    std_error: MetricValue
    mean_absolute_gap: MetricValue
    share_highest: MetricValue

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        names = ("mean_gap", "std_error", "mean_absolute_gap", "share_highest")
        return {"n": self.n} | {name: getattr(self, name).to_dict() for name in names}


@dataclass(frozen=True)
class CounterfactualGaps(Tabular):
    """The gaps of every term.

    Attributes
    ----------
    n_sentences : int
        Sentences with two or more terms.
    n_alone : int
        Sentences with a single term, which has nothing to compare with; they are left out.
    terms : dict of str to CounterfactualGap
        Every term, sorted by name.
    """

    n_sentences: int
    n_alone: int
    terms: dict[str, CounterfactualGap]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        counts = {"n_sentences": self.n_sentences, "n_alone": self.n_alone}
        return counts | {"terms": as_dicts(self.terms)}

    def rows(self) -> list[Row]:
        """Return one record per term."""
        return labelled("term", rows_of(self.terms))


@dataclass(frozen=True)
class PairedGaps(Tabular):
    """How scores differ between two versions of the same texts.

    Attributes
    ----------
    n_higher, n_lower, n_equal : int
        Pairs whose swapped version scores higher, lower or the same.
    mean_gap : MetricValue
        Mean of swapped minus original score.
    std_error : MetricValue
        Standard error of the mean gap over pairs; undefined for fewer than 2.
    mean_absolute_gap : MetricValue
        Mean size of the gaps, at least 0.
    """

    n_higher: int
    n_lower: int
    n_equal: int
    mean_gap: MetricValue
    std_error: MetricValue
    mean_absolute_gap: MetricValue

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.n_higher + self.n_lower + self.n_equal

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        counts = ("n", "n_higher", "n_lower", "n_equal")
        values = ("mean_gap", "std_error", "mean_absolute_gap")
        return {name: getattr(self, name) for name in counts} | {
            name: getattr(self, name).to_dict() for name in values
        }
