"""Counts of scores in narrow bins: they add up over shards, days and machines.

A bin holds the scores whose leading bits are the same, so bins are finest where scores crowd near
0. For each bin we keep how many rows of each class and subgroup fall into it, and the least and the
most of their scores. All that a score's order decides follows from these counts. What the order
within a bin could change is known, too: half of the pairs that share a bin of several scores. So
each number has a bracket that holds its exact value for certain, beside its confidence interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    check_power_mean_groups,
    check_threshold,
)
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.values import MetricValue
from bias_metrics.binned.archive import packed, unpacked
from bias_metrics.binned.bin_counts import BinCounts
from bias_metrics.binned.bins import MANTISSA
from bias_metrics.binned.comparison import comparison_of, refuse_other_rows
from bias_metrics.binned.pairs import pair_codes
from bias_metrics.binned.rates import (
    Range,
    equal_error_of,
    equal_error_range_of,
    rate_gap_comparison_of,
    rate_gaps_of,
    threshold_report_of,
)
from bias_metrics.binned.report import (
    Bracket,
    Reliability,
    brackets_of,
    calibration_gaps_of,
    reliability_of,
    report_of,
)
from bias_metrics.borkan import check_power
from bias_metrics.calibration import N_BINS
from bias_metrics.metrics import GIVEN
from bias_metrics.rows import Background, Rows
from bias_metrics.table import BiasTable, Key
from bias_metrics.thresholds.decisions import ThresholdReport
from bias_metrics.thresholds.thresholds import EqualErrorRate

__all__ = ["ScoreCounts"]


@dataclass(frozen=True, eq=False)
class ScoreCounts(BinCounts):
    """How many rows of each class and subgroup have a score in each of many narrow bins.

    Make it with `of` from each shard of the rows, and add the shards: `first + second`. Any order
    gives the same counts. Nothing else of the rows is kept: no score, id or text.

    Examples
    --------
    >>> first = ScoreCounts.of(Rows([0, 1], {"gay": [1, 1]}), [0.2, 0.7], shard="monday")
    >>> second = ScoreCounts.of(Rows([0, 1], {"gay": [0, 0]}), [0.1, 0.9], shard="tuesday")
    >>> counts = first + second
    >>> counts.report()["bpsn_auc", "gay"].value, counts.brackets()["bpsn_auc", "gay", None, None]
    (1.0, (1.0, 1.0))
    """

    @classmethod
    @aligned
    def of_pairs(
        cls, rows: Rows, y_score_a: npt.ArrayLike, y_score_b: npt.ArrayLike, *, shard: str
    ) -> Self:
        """Count how often two models' scores are in each pair of wide bins, for `compare`.

        Parameters are those of `of`. They are added, written and read like other counts, and have
        no other use.
        """
        scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
        codes = pair_codes(*(rows.scores(*one).astype(np.float64) for one in scores.items()))
        return cls.of(rows, codes, shard=shard, bits=MANTISSA)

    def report(
        self,
        *,
        power: float = -5.0,
        power_mean_groups: Sequence[str] | None = None,
        confidence: float = 0.95,
        background: Background = "outside_subgroup",
    ) -> BiasTable:
        """Return the numbers of `evaluate_bias`, with scores in one bin taken as tied.

        Parameters are those of `evaluate_bias`.

        Returns
        -------
        BiasTable
            Standard errors are DeLong's of the binned scores, and as much larger as binning may
            have made them too small. Intervals reach as much farther to both sides as the exact
            value may be from that of the binned scores (see `brackets`), so they hold those of
            exact scores, unless a cell has so few errors that binning settles how its interval is
            computed. Counts do not tell which rows are in several subgroups: intervals of power
            means and of the final score reach from those of all lower ends of cells to those of all
            upper ends, which is wider than needed.
        """
        return report_of(
            self,
            power=check_power(power),
            groups=check_power_mean_groups(power_mean_groups, dict.fromkeys(self.names)),
            confidence=check_confidence(confidence),
            background=background,
        )

    def brackets(
        self,
        *,
        power: float = -5.0,
        power_mean_groups: Sequence[str] | None = None,
        background: Background = "outside_subgroup",
    ) -> dict[Key, Bracket | None]:
        """Return between which two numbers each exact value lies, for certain.

        Parameters are those of `evaluate_bias`.

        Returns
        -------
        dict of Key to tuple of two floats
            The keys are those of `report`. The bracket of an undefined number is None. It has no
            sampling error: it holds the value that `evaluate_bias` would give for the same rows.
        """
        groups = check_power_mean_groups(power_mean_groups, dict.fromkeys(self.names))
        return brackets_of(self, power=check_power(power), groups=groups, background=background)

    def compare(
        self,
        other: ScoreCounts,
        pairs: ScoreCounts | None = None,
        *,
        confidence: float = 0.95,
        **options: Any,
    ) -> BiasTable:
        """Return the differences of `compare_bias` from another model, by counts of the same rows.

        How the models' errors are related is known as far as `pairs` tell. Intervals hold whatever
        that leaves open: they are a little wider than those of `compare_bias`. How skewed a
        difference is, is taken from wide bins. Without `pairs`, and
        for power means and the final score, each reaches from this model's lower end less the
        other's upper one to the opposite, which is many times wider for models that are much
        alike: it is harder to show that a model is not worse, and that it is worse.

        Parameters
        ----------
        other : ScoreCounts
            Of the champion's scores.
        pairs : ScoreCounts, optional
            Of the pairs of this model's and the other's scores, by `of_pairs`. Bins of both models
            must have at least four bits.
        confidence : float, default=0.95
            As in `compare_bias`.
        options
            `power`, `power_mean_groups` and `background`, as in `report`.

        Returns
        -------
        BiasTable
            Standard errors are the largest possible. Aggregates have none, and there are no
            p-values.

        Raises
        ------
        ValueError
            If the counts are of other shards, subgroups or numbers of rows.
        """
        level, both = check_confidence(confidence), (self, other)
        refuse_other_rows(self, other, *(() if pairs is None else (pairs,)))
        reports = [counts.report(confidence=level, **options) for counts in both]
        return comparison_of(both, pairs, reports, level)

    def rate_gaps(
        self,
        *,
        threshold: float,
        threshold_range: Range = None,
        confidence: float = 0.95,
        background: Background = "outside_subgroup",
        name: str = GIVEN,
    ) -> BiasTable:
        """Return the gaps of `rate_gaps`; if the threshold is inside a bin, with their bounds.

        Values are then those in the middle of what is possible, and intervals hold all of it.
        """
        level, at = check_confidence(confidence), check_threshold(threshold)
        return rate_gaps_of(self, at, threshold_range, level, background, name)

    def equal_error_rate(self) -> EqualErrorRate:
        """Find the least score of a bin at which both error rates are closest.

        The rates at it are exact. The threshold of `equal_error_rate` is in a bin beside it, or the
        same.
        """
        return equal_error_of(self)

    def equal_error_range(self, *, confidence: float = 0.95) -> tuple[float, float]:
        """Return the range of `equal_error_range`, wider by a bin at both ends.

        Raises
        ------
        ValueError
            If a class is empty.
        """
        return equal_error_range_of(self, check_confidence(confidence))

    def threshold_report(
        self, *, threshold: float, groups: Sequence[str] | None = None
    ) -> ThresholdReport:
        """Return the errors of `threshold_report`.

        If the threshold is inside a bin, half of the rows that it leaves open count as flagged.
        """
        summed = check_power_mean_groups(groups, dict.fromkeys(self.names), "groups")
        return threshold_report_of(self, check_threshold(threshold), summed)

    def compare_rate_gaps(
        self,
        other: ScoreCounts,
        pairs: ScoreCounts | None = None,
        *,
        thresholds: tuple[float, float],
        threshold_ranges: tuple[Range, Range] = (None, None),
        confidence: float = 0.95,
        background: Background = "outside_subgroup",
        name: str = GIVEN,
    ) -> BiasTable:
        """Return the differences of two models' gaps, each at its threshold, as `compare` does."""
        level, models = check_confidence(confidence), (self, other)
        at = check_threshold(thresholds[0]), check_threshold(thresholds[1])
        return rate_gap_comparison_of(models, pairs, at, threshold_ranges, level, background, name)

    def reliability(self, *, n_bins: int = N_BINS, confidence: float = 0.95) -> Reliability:
        """Return the `reliability` of `calibration_report`, of scores that are probabilities.

        Numbers of rows, shares of positives and their bands are exact for the bins. A mean score is
        that of the middles of narrow bins.

        Returns
        -------
        dict
            By subgroup, and None for all rows; then by wide bin, each of about as many rows.

        Raises
        ------
        ValueError
            If a score is outside [0, 1], or `n_bins` is below 2.
        """
        return reliability_of(self, n_bins, check_confidence(confidence))

    def calibration_gaps(
        self, *, confidence: float = 0.95, background: Background = "outside_subgroup"
    ) -> dict[str, MetricValue]:
        """Return the gaps of `calibration_report`, by subgroup.

        Intervals hold those of exact scores, wherever in its bin each is.
        """
        return calibration_gaps_of(self, check_confidence(confidence), background)

    def to_bytes(self) -> bytes:
        """Return the counts as a compressed archive of numpy arrays."""
        return packed(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises
        ------
        ValueError
            If it is something else, or unpacks to more than 1 GiB, or its counts contradict each
            other.
        """
        return unpacked(data, cls)
