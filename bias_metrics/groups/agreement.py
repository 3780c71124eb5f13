"""Do human identity labels and term matching select the same comments?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bias_metrics._core.checks import BoolArray, aligned, check_subgroups
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.tables import Row, Tabular, labelled, rows_of
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.groups.counts import as_dicts, ratio

_Z = 1.959963984540054  # of a 95 % interval


@dataclass(frozen=True)
class Agreement(Tabular):
    """Agreement of two ways to decide which comments mention an identity.

    `precision`, `recall`, `f1`: of term matching, from 0 to 1, taking the human labels as the
    truth; `kappa`: cohen's kappa, from -1 to 1.
    """

    n_both: int
    n_labelled_only: int
    n_matched_only: int
    n_neither: int
    """n_both, n_labelled_only, n_matched_only, n_neither: rows by human label and by term
    matching."""

    @property
    def precision(self) -> MetricValue:
        """Share of the matched rows that are labelled, with Wilson's 95 % interval."""
        return _share(self.n_both, self.n_both + self.n_matched_only, "no matched rows")

    @property
    def recall(self) -> MetricValue:
        """Share of the labelled rows that are matched, with Wilson's 95 % interval."""
        return _share(self.n_both, self.n_both + self.n_labelled_only, "no labelled rows")

    @property
    def f1(self) -> MetricValue:
        """Harmonic mean of precision and recall."""
        either = 2 * self.n_both + self.n_labelled_only + self.n_matched_only
        return ratio(2 * self.n_both, either, "no labelled and no matched rows")

    @property
    def kappa(self) -> MetricValue:
        """Agreement beyond that expected by chance, 1 when both always agree."""
        labelled, matched = self.n_both + self.n_labelled_only, self.n_both + self.n_matched_only
        unlabelled = self.n_matched_only + self.n_neither
        unmatched = self.n_labelled_only + self.n_neither
        return ratio(
            2 * (self.n_both * self.n_neither - self.n_labelled_only * self.n_matched_only),
            labelled * unmatched + matched * unlabelled,
            "both say the same of every row" if labelled + unlabelled else "no rows",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        counts = ("n_both", "n_labelled_only", "n_matched_only", "n_neither")
        shares = ("precision", "recall", "f1", "kappa")
        return {name: getattr(self, name) for name in counts} | {
            name: getattr(self, name).to_dict() for name in shares
        }


@dataclass(frozen=True)
class LabelAgreement(Tabular):
    """Agreement for each identity, over the same `n` rows."""

    n: int
    identities: dict[str, Agreement]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"n": self.n, "identities": as_dicts(self.identities)}

    def rows(self) -> list[Row]:
        """Return one record per identity."""
        return labelled("identity", rows_of(self.identities))


@aligned
def label_agreement(labelled: Subgroups, matched: Subgroups) -> LabelAgreement:
    """Compare human identity labels with term matching, identity by identity.

    Matching needs no raters, but it misses comments that allude to an identity without naming
    it, and matches terms used in another sense. Low precision: the bias measured on the matched
    rows is partly that of comments about something else. Low recall: it is only that of comments
    that use the plain term. Kappa is the agreement beyond chance; since most rows mention no
    identity, plain accuracy would be near 1 whatever the matching.

    Parameters
    ----------
    labelled : mapping of str to bool array of shape (n,), or data frame
        For each identity, the rows that raters say mention it. Threshold fractions with
        `>= 0.5`, and leave out rows that were never shown to identity raters.
    matched : mapping of str to bool array of shape (n,), or data frame
        The rows that contain one of its terms, for the same identities.

    Returns
    -------
    LabelAgreement
        Counts; precision, recall and F1 from 0 to 1 and kappa from -1 to 1, ideal 1. The intervals
        of precision and recall take rows as independent.
        Precision is undefined without matched rows, recall without labelled ones, kappa if
        both say the same of every row.

    Raises
    ------
    ValueError
        If a length differs, a membership is not 0 or 1, or the identities are not the same.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    Borkan et al. (2019), on identity labels by raters and by terms (future work). Cohen
    (1960), A Coefficient of Agreement for Nominal Scales.

    Examples
    --------
    >>> found = label_agreement({"gay": [1, 1, 0, 0]}, {"gay": [1, 0, 0, 0]}).identities["gay"]
    >>> found.precision.value, found.recall.value, found.kappa.value
    (1.0, 0.5, 0.5)
    """
    humans = check_subgroups(labelled, name="labelled")
    n, like = next(((mask.size, f"labelled[{name!r}]") for name, mask in humans.items()), (0, ""))
    terms = check_subgroups(matched, n if humans else None, name="matched", like=like)
    if humans.keys() != terms.keys():
        different = ", ".join(sorted(humans.keys() ^ terms.keys()))
        msg = f"`matched` must have the identities of `labelled`; in only one: {different}."
        raise ValueError(msg)
    return LabelAgreement(n, {name: _agreement(humans[name], terms[name]) for name in humans})


def _share(part: int, whole: int, lack: str) -> MetricValue:
    if not whole:
        return undefined(lack)
    low, high = wilson_interval(part / whole, whole, _Z)
    return MetricValue(part / whole, low=max(low, 0.0), high=min(high, 1.0))


def _agreement(labelled: BoolArray, matched: BoolArray) -> Agreement:
    both = int(np.count_nonzero(labelled & matched))
    n_labelled, n_matched = int(np.count_nonzero(labelled)), int(np.count_nonzero(matched))
    neither = labelled.size - n_labelled - n_matched + both
    return Agreement(both, n_labelled - both, n_matched - both, neither)
