"""All error metrics at one decision threshold, from one count of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    aligned,
    check_mask,
    check_power_mean_groups,
    check_rng,
    check_scores,
    check_subgroups,
    check_threshold,
)
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.tables import Row, Table, Tabular, labelled, rows_of
from bias_metrics.groups.counts import as_dicts
from bias_metrics.thresholds.accuracy import CellAccuracy, WorstGroupAccuracy
from bias_metrics.thresholds.dixon import EqualityDifference
from bias_metrics.thresholds.errors import ErrorRates, flagged
from bias_metrics.thresholds.permutation import (
    NullReference,
    check_n_permutations,
    summarise_permutations,
)
from bias_metrics.thresholds.thresholds import threshold_table

QUANTILES = (0.05, 0.5, 0.95)
# Memberships are packed into integers, this many at a time.
_BITS = 31
# Memberships that are counted at a time.
_LISTED = 1 << 20
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ThresholdReport(Tabular):
    """Errors at one threshold."""

    threshold: float
    """Scores at or above it are flagged."""
    overall: ErrorRates
    """Errors of all rows."""
    subgroups: dict[str, ErrorRates]
    """Errors of each subgroup, in the order given."""
    groups: tuple[str, ...]
    """The subgroups that the two sums cover."""
    fped: NullReference
    fned: NullReference
    """fped, fned: the sums, each with what chance alone would give."""
    worst_group_accuracy: WorstGroupAccuracy
    """The worst cell of identity and label, over all subgroups."""

    @classmethod
    def of(
        cls,
        overall: ErrorRates,
        rates: dict[str, ErrorRates],
        groups: tuple[str, ...],
        sums: tuple[NullReference, NullReference],
    ) -> ThresholdReport:
        """Return the report of counted errors; `sums` are FPED and FNED."""
        cells = [
            CellAccuracy(name, label, int(right + wrong), int(right))
            for name, one in rates.items()
            for label, right, wrong in (
                (True, one.n_true_positive, one.n_false_negative),
                (False, one.n_true_negative, one.n_false_positive),
            )
        ]
        worst = WorstGroupAccuracy(overall.threshold, tuple(cells))
        return cls(overall.threshold, overall, rates, groups, *sums, worst)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        worst = self.worst_group_accuracy.to_dict()
        return {
            "threshold": self.threshold,
            "overall": self.overall.to_dict(),
            "subgroups": as_dicts(self.subgroups),
            "groups": list(self.groups),
            "fped": self.fped.to_dict(),
            "fned": self.fned.to_dict(),
            # Without its `cells`, which would repeat `subgroups`.
            "worst_group_accuracy": {key: worst[key] for key in worst if key != "cells"},
        }

    def rows(self) -> list[Row]:
        """Return one record per subgroup, and one of all rows, without a name."""
        return labelled("subgroup", rows_of(self.subgroups, self.overall))

    def _table(self) -> Table:
        fped, fned = self.fped, self.fned
        return Table.of(
            self.rows(),
            f"FPED {fped.value} (by chance {fped.mean}), FNED {fned.value} (by chance {fned.mean}),"
            f" worst group accuracy {self.worst_group_accuracy.value}",
        )


@aligned
def threshold_report(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    threshold: float,
    rng: np.random.Generator,
    groups: Sequence[str] | None = None,
    n_permutations: int = 1000,
) -> ThresholdReport:
    """Report all errors at one threshold: each subgroup's, their sums with chance, the worst.

    The values are those of `error_rates`, `fped`, `fned` and `worst_group_accuracy`; the
    references have the distribution of `permuted_reference`. At a threshold only the *number*
    of errors within each pattern of memberships matters, and when memberships are permuted
    within each label, that number is multivariate hypergeometric. It is drawn directly, without
    permuting rows, so that a thousand permutations of millions of rows take a second.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup; rows may belong to several or to none.
    threshold : float
        Finite; a score equal to it is flagged.
    rng : numpy.random.Generator
        Source of the permutations.
    groups : sequence of str, optional
        The subgroups that FPED and FNED sum over; default all. A sum is undefined when one
        of them lacks the class in question.
    n_permutations : int, default=1000
        At least 1.

    Returns
    -------
    ThresholdReport
        Rates in [0, 1] with counts; the sums, 0 or more with ideal 0, each with mean and
        quantiles of its permutations; the lowest accuracy of an identity and a label.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `threshold` is not finite, `rng` is not a Generator,
        `n_permutations` is under 1 or `groups` names an unknown subgroup.

    References
    ----------
    Dixon et al. (2018), equations 1 and 2; Koh et al. (2021), WILDS, appendix E.6. Good
    (2005), Permutation, Parametric and Bootstrap Tests of Hypotheses.

    Examples
    --------
    >>> found = threshold_report(
    ...     [0, 0, 0, 0, 1, 1], [0.1, 0.2, 0.3, 0.7, 0.6, 0.9], {"gay": [0, 0, 1, 1, 0, 1]},
    ...     threshold=0.5, rng=np.random.default_rng(0),
    ... )
    >>> found.subgroups["gay"].false_positive_rate.value, found.fped.value.value
    (0.5, 0.25)
    >>> found.fped.mean.value  # one of four is flagged: two members have it at .5 or at 0
    0.25
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    threshold = check_threshold(threshold)
    generator = check_rng(rng)
    check_n_permutations(n_permutations)
    summed = check_power_mean_groups(groups, masks, "groups")
    table = threshold_table(labels, scores, masks, thresholds=[threshold])
    overall = table.overall.at(0)
    rates = {name: curve.at(0) for name, curve in table.subgroups.items()}
    decided = flagged(scores, threshold)
    inside = masks if summed == tuple(masks) else {name: masks[name] for name in summed}
    sums = {}
    for rate, of_class in (("false_positive_rate", ~labels), ("false_negative_rate", labels)):
        value = EqualityDifference(
            overall.rate(rate), {name: rates[name].rate(rate) for name in summed}
        ).value
        drawn: list[float] = []
        if value.value is not None:
            n_wrong = int(np.count_nonzero(of_class & (decided != labels)))
            drawn = _sums_by_chance(of_class, n_wrong, inside, generator, n_permutations)
        sums[rate] = summarise_permutations(value, drawn, QUANTILES, n_permutations)
    beside_chance = sums["false_positive_rate"], sums["false_negative_rate"]
    return ThresholdReport.of(overall, rates, summed, beside_chance)


def _sums_by_chance(
    of_class: BoolArray,
    n_wrong: int,
    masks: Mapping[str, BoolArray],
    rng: np.random.Generator,
    n_permutations: int,
) -> list[float]:
    """Sum abs(overall rate - rate of a subgroup) with the errors of a class placed at random."""
    rows = np.flatnonzero(of_class)
    patterns = _Patterns.of(masks, rows)
    n_members = patterns.count(patterns.sizes)
    overall = n_wrong / rows.size
    # The large patterns are drawn one by one, and the errors of all others placed row by row.
    n_alone = _n_drawn_alone(patterns.sizes, n_wrong / rows.size)
    alone, others = np.split(patterns.sizes, [n_alone])
    together, sums = np.append(alone, others.sum()), []
    for _ in range(n_permutations):
        drawn = rng.multivariate_hypergeometric(together, n_wrong, method="marginals")
        placed = rng.multivariate_hypergeometric(others, drawn[-1], method="count")
        wrong = np.append(drawn[:-1], placed)
        sums.append(float(np.abs(overall - patterns.count(wrong) / n_members).sum()))
    return sums


def _n_drawn_alone(sizes: Integers, share_wrong: float) -> int:
    """Return how many patterns, the largest first, are drawn one by one: what is fastest.

    To draw a pattern takes about 300 times as long as to pass over a row, and to place an error,
    or else a row that is right, 40 times.
    """
    n_others = sizes.sum() - np.cumsum([0, *sizes])
    cost = 300 * np.arange(n_others.size) + n_others * (1 + 40 * min(share_wrong, 1 - share_wrong))
    return int(cost.argmin())


@dataclass(frozen=True, eq=False)
class _Patterns:
    """The distinct membership patterns of some rows, and which subgroups each belongs to.

    With many subgroups nearly every row has its own pattern, which belongs to few of them, so
    the memberships are stored as lists and not as a table of patterns by subgroups.
    """

    sizes: Integers  # (p,): Number of rows of each pattern, the largest first
    # For some subgroups at a time: the patterns of each, one after the other, and where those of
    # each subgroup begin. Each subgroup must have a pattern.
    listed: tuple[tuple[npt.NDArray[np.int32], Integers], ...]

    @classmethod
    def of(cls, masks: Mapping[str, BoolArray], rows: npt.NDArray[np.intp]) -> _Patterns:
        """Find the patterns of some rows."""
        code = np.zeros(rows.size, dtype=np.int64)
        for position, mask in enumerate(masks.values()):
            if position and position % _BITS == 0:
                code = np.unique(code, return_inverse=True)[1]
            code = 2 * code + mask[rows]
        _, first, sizes = np.unique(code, return_index=True, return_counts=True)
        largest_first = np.argsort(-sizes, kind="stable")
        sizes, firsts = sizes[largest_first], rows[first[largest_first]]
        listed, waiting, n_waiting = [], [], 0
        for position, mask in enumerate(masks.values(), 1):
            waiting.append(np.flatnonzero(mask[firsts]).astype(np.int32))
            n_waiting += waiting[-1].size
            if n_waiting > _LISTED or position == len(masks):
                starts = np.cumsum([0, *(one.size for one in waiting[:-1])])
                listed.append((np.concatenate(waiting), starts))
                waiting, n_waiting = [], 0
        return cls(sizes.astype(np.int64), tuple(listed))

    def count(self, of_patterns: Integers) -> Integers:
        """Sum a number per pattern over the patterns of each subgroup, shape (k,)."""
        return np.concatenate(
            [np.add.reduceat(of_patterns[at], starts) for at, starts in self.listed]
        )
