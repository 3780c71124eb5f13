"""Counts of scores in narrow bins, which can be added over shards, days and machines.

A bin contains the scores with the same leading bits, so bins are narrowest near 0. For each bin we
store the number of rows by class and subgroup, and the lowest and highest score. All numbers
that depend on the order of scores follow from these counts. The effect of the order within a bin
is bounded by half of the pairs that share a bin of several scores. So each number has a bracket,
which contains its exact value for certain, in addition to its confidence interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_power_mean_groups, check_threshold
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.ranks import SortedClasses, sort_classes
from bias_metrics._core.values import MetricValue
from bias_metrics.binned.archive import pack_counts, unpack_counts
from bias_metrics.binned.bin_counts import MANTISSA, BinCounts
from bias_metrics.binned.comparison import compare_counts, refuse_other_rows
from bias_metrics.binned.pairs import encode_pairs
from bias_metrics.binned.rates import Range, compare_rate_gaps, measure_rate_gaps
from bias_metrics.binned.report import (
    Bracket,
    find_non_probability,
    get_cells,
    make_binned_curve,
    make_table,
    measure_calibration_gaps,
)
from bias_metrics.borkan import check_power
from bias_metrics.calibration import N_BINS, ReliabilityBin
from bias_metrics.metrics import CLASSES, GIVEN
from bias_metrics.rows import Background, Rows
from bias_metrics.table import BiasTable, Key
from bias_metrics.thresholds.decisions import ThresholdReport
from bias_metrics.thresholds.errors import ErrorRates
from bias_metrics.thresholds.thresholds import (
    EqualErrorRate,
    compute_rate_reach,
    find_equal_error,
    find_range_ends,
)

__all__ = ["ScoreCounts"]


@dataclass(frozen=True, eq=False)
class ScoreCounts(BinCounts):
    """Number of rows by class and subgroup in many narrow bins of scores.

    Count each shard of the rows with `from_rows`, and add the counts in any order: `first +
    second`. Scores, ids and texts of single rows are not stored.

    Examples
    --------
    >>> first = ScoreCounts.from_rows(Rows([0, 1], {"gay": [1, 1]}), [0.2, 0.7], shard="monday")
    >>> second = ScoreCounts.from_rows(Rows([0, 1], {"gay": [0, 0]}), [0.1, 0.9], shard="tuesday")
    >>> counts = first + second
    >>> counts.report()["bpsn_auc", "gay"].value, counts.brackets()["bpsn_auc", "gay", None, None]
    (1.0, (1.0, 1.0))
    """

    @classmethod
    @require_aligned
    def from_pairs(
        cls, rows: Rows, y_score_a: npt.ArrayLike, y_score_b: npt.ArrayLike, *, shard: str
    ) -> Self:
        """Count the pairs of two models' scores in pairs of wide bins, for `compare`.

        Parameters are those of `from_rows`. The counts are added, written and read like other
        counts, and serve only this purpose.
        """
        scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
        codes = encode_pairs(
            *(rows.check_scores(*named).astype(np.float64) for named in scores.items())
        )
        return cls.from_rows(rows, codes, shard=shard, bits=MANTISSA)

    def report(
        self,
        *,
        power: float = -5.0,
        power_mean_groups: Sequence[str] | None = None,
        confidence: float = 0.95,
        background: Background = "outside_subgroup",
    ) -> BiasTable:
        """Return the numbers of `evaluate_bias`, with scores in the same bin taken as tied.

        Parameters are those of `evaluate_bias`.

        Returns
        -------
        BiasTable
            Standard errors are DeLong's for the binned scores, plus the largest possible effect of
            binning. Intervals are widened on both sides by the largest possible distance of the
            exact value from that of the binned scores (see `brackets`). So they contain the
            intervals of exact scores, unless a cell has so few errors that binning changes the
            method of its interval. Counts do not contain the overlap of subgroups. So intervals of
            power means and of the final score are computed from all lower ends of cells, and from
            all upper ends, which is conservative.
        """
        power = check_power(power)
        groups = check_power_mean_groups(power_mean_groups, dict.fromkeys(self.names))
        level, cells = check_confidence(confidence), get_cells(self, background)
        measured = {key: cell.compute_value(level) for key, cell in cells.items()}
        table = make_table(self, measured, power, groups, background)
        return replace(table, confidence=level)

    def brackets(
        self,
        *,
        power: float = -5.0,
        power_mean_groups: Sequence[str] | None = None,
        background: Background = "outside_subgroup",
    ) -> dict[Key, Bracket | None]:
        """Return bounds that contain each exact value for certain.

        Parameters are those of `evaluate_bias`.

        Returns
        -------
        dict of Key to tuple of two floats
            The keys are those of `report`. The bracket of an undefined number is None. A bracket
            contains the value of `evaluate_bias` for the same rows, without sampling error.
        """
        groups = check_power_mean_groups(power_mean_groups, dict.fromkeys(self.names))
        power, cells = check_power(power), get_cells(self, background)
        measured = {key: cell.compute_bracket() for key, cell in cells.items()}
        table = make_table(self, measured, power, groups, background)
        return {key: number.ends for key, number in table.items()}

    def compare(
        self,
        other: ScoreCounts,
        pairs: ScoreCounts | None = None,
        *,
        confidence: float = 0.95,
        **options: Any,
    ) -> BiasTable:
        """Return the differences of `compare_bias` from another model, by counts of the same rows.

        The correlation of the models' errors is estimated from `pairs`. Intervals allow for the
        unknown correlation within wide bins, so they are slightly wider than those of
        `compare_bias`. Wide bins also give the skewness of a difference. Without `pairs`, and for
        power means and the final score, an interval reaches from this model's lower end minus the
        other's upper end to the opposite. For similar models it is many times wider, so it is
        harder to prove that a model is non-inferior, or that it is worse.

        Parameters
        ----------
        other : ScoreCounts
            Counts of the champion's scores.
        pairs : ScoreCounts, optional
            Counts of the pairs of this model's and the other's scores, by `from_pairs`. Bins of
            both models must have at least four bits.
        confidence : float, default=0.95
            As in `compare_bias`.
        options
            `power`, `power_mean_groups` and `background`, as in `report`.

        Returns
        -------
        BiasTable
            Standard errors are the largest possible. Standard errors of aggregates, and p-values,
            are undefined.

        Raises
        ------
        ValueError
            If shards, subgroups or numbers of rows differ.
        """
        level, both = check_confidence(confidence), (self, other)
        refuse_other_rows(self, other, *(() if pairs is None else (pairs,)))
        reports = [counts.report(confidence=level, **options) for counts in both]
        return compare_counts(both, pairs, reports, level)

    def rate_gaps(
        self,
        *,
        threshold: float,
        threshold_range: Range = None,
        confidence: float = 0.95,
        background: Background = "outside_subgroup",
        name: str = GIVEN,
    ) -> BiasTable:
        """Return the gaps of `rate_gaps`.

        If the threshold is inside a bin, a value is the middle of its possible range, and its
        interval contains the intervals of all possible values.
        """
        level, threshold = check_confidence(confidence), check_threshold(threshold)
        return measure_rate_gaps(self, threshold, threshold_range, level, background, name)

    def equal_error_rate(self) -> EqualErrorRate:
        """Find the lowest score of a bin at which both error rates are closest.

        Its rates are exact. The threshold of `equal_error_rate` is in the same or the next bin.
        """
        return find_equal_error(self._expand_rows())

    def equal_error_range(self, *, confidence: float = 0.95) -> tuple[float, float]:
        """Return the range of `equal_error_range`, wider by a bin at both ends.

        Raises
        ------
        ValueError
            If a class is empty.
        """
        level, classes = check_confidence(confidence), self._expand_rows()
        threshold = find_equal_error(classes).threshold
        if threshold is None:
            msg = "counts must have positives and negatives; one class is empty."
            raise ValueError(msg)
        (missed, _), (_, flagged) = self.everyone @ np.array(
            [self.least < threshold, self.least >= threshold]
        ).T.astype(np.int64)
        wrong = zip((int(missed), int(flagged)), self.everyone.sum(axis=-1).tolist(), strict=True)
        low, high = find_range_ends(classes, compute_rate_reach(wrong, level))
        first, last = np.searchsorted(self.least, [min(low, threshold), max(high, threshold)])
        beyond = np.append(self.least, self.most[-1])
        return float(beyond[max(first - 1, 0)]), float(beyond[last + 1])

    def _expand_rows(self) -> SortedClasses:
        """Return the counts as weighted rows with the lowest score of their bin."""
        weight = self.everyone.ravel()
        has_rows = weight > 0
        labels, scores = np.repeat([True, False], self.bins.size), np.tile(self.least, 2)
        return sort_classes(labels[has_rows], scores[has_rows], weight[has_rows].astype(np.float64))

    def threshold_report(
        self, *, threshold: float, groups: Sequence[str] | None = None
    ) -> ThresholdReport:
        """Return the errors of `threshold_report`.

        If the threshold is inside a bin, half of the bin's rows count as flagged.
        """
        summed = check_power_mean_groups(groups, dict.fromkeys(self.names), "groups")
        threshold = check_threshold(threshold)
        flagged = self.count_flagged(threshold)
        rates: dict[str | None, ErrorRates] = {}
        for name, rows in self.by_group.items():
            positive, negative = (sum(flagged[name][label]) // 2 for label in CLASSES)
            n_positive, n_negative = rows.sum(axis=-1).tolist()
            rates[name] = ErrorRates(
                threshold, positive, negative, n_negative - negative, n_positive - positive
            )
        subgroups = {name: rates[name] for name in self.names}
        return ThresholdReport(threshold, rates[None], subgroups, summed)

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
        """Return the differences of two models' gaps, each at its threshold; see `compare`."""
        level, models = check_confidence(confidence), (self, other)
        thresholds = check_threshold(thresholds[0]), check_threshold(thresholds[1])
        return compare_rate_gaps(
            models, pairs, thresholds, threshold_ranges, level, background, name
        )

    def reliability(
        self, *, n_bins: int = N_BINS, confidence: float = 0.95
    ) -> dict[str | None, tuple[ReliabilityBin, ...]]:
        """Return the `reliability` of `calibration_report`, for scores that are probabilities.

        Numbers of rows, shares of positives and their bands are exact for the wide bins. A mean
        score is computed from the middles of narrow bins.

        Returns
        -------
        dict
            By subgroup (None: all rows): wide bins with about equally many rows.

        Raises
        ------
        ValueError
            If a score is outside [0, 1], or `n_bins` is below 2.
        """
        level = check_confidence(confidence)
        if n_bins < 2:
            msg = f"`n_bins` must be at least 2; got {n_bins}."
            raise ValueError(msg)
        if reason := find_non_probability(self):
            raise ValueError(reason)
        groups = self.by_group.items()
        return {name: make_binned_curve(self, own, n_bins, level) for name, own in groups}

    def calibration_gaps(
        self, *, confidence: float = 0.95, background: Background = "outside_subgroup"
    ) -> dict[str, MetricValue]:
        """Return the gaps of `calibration_report`, by subgroup.

        Intervals contain those of exact scores, wherever in its bin each score is.
        """
        return measure_calibration_gaps(self, check_confidence(confidence), background)

    def to_bytes(self) -> bytes:
        """Return the counts as a compressed archive of numpy arrays."""
        return pack_counts(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read counts written by `to_bytes`.

        Raises
        ------
        ValueError
            If the bytes are not such counts, unpack to more than 1 GiB, or contradict each other.
        """
        return unpack_counts(data, cls)
