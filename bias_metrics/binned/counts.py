"""Counts of scores in narrow bins: they add up over shards, days and machines.

A bin holds the scores whose leading bits are the same, so bins are finest where scores crowd near
0. For each bin we keep how many rows of each class and subgroup fall into it, and the least and the
most of their scores. All that a score's order decides follows from these counts. What the order
within a bin could change is known, too: half of the pairs that share a bin of several scores. So
each number has a bracket that holds its exact value for certain, beside its confidence interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    FloatArray,
    check_power_mean_groups,
    check_threshold,
)
from bias_metrics._core.cuts import narrow_forms, reaches
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.values import MetricValue
from bias_metrics.binned.bins import MANTISSA, MOST_ROWS, bins_of, packed, unpacked
from bias_metrics.binned.comparison import comparison_of
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
    Cell,
    Counts,
    Key,
    Reliability,
    brackets_of,
    calibration_gaps_of,
    cells_of,
    reliability_of,
    report_of,
)
from bias_metrics.borkan import check_power
from bias_metrics.calibration import N_BINS
from bias_metrics.metrics import CLASSES, Class
from bias_metrics.report.report import BiasComparison, BiasReport
from bias_metrics.rows import Background, Rows, any_of
from bias_metrics.thresholds.decisions import ThresholdReport
from bias_metrics.thresholds.rate_gaps import RateGapComparison, RateGaps
from bias_metrics.thresholds.thresholds import EqualErrorRate

__all__ = ["ScoreCounts"]

BITS = 12


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """How many rows of each class and subgroup have a score in each of many narrow bins.

    Make it with `of` from each shard of the rows, and add the shards: `first + second`. Any order
    gives the same counts. Nothing else of the rows is kept: no score, id or text.

    Examples
    --------
    >>> first = ScoreCounts.of(Rows([0, 1], {"gay": [1, 1]}), [0.2, 0.7], shard="monday")
    >>> second = ScoreCounts.of(Rows([0, 1], {"gay": [0, 0]}), [0.1, 0.9], shard="tuesday")
    >>> counts = first + second
    >>> counts.report().subgroups["gay"].bpsn_auc.value, counts.brackets()["gay"]["bpsn_auc"]
    (1.0, (1.0, 1.0))
    """

    bits: int
    """How many bits of the mantissa tell two bins apart: 2^bits bins for each factor of two."""
    shards: frozenset[str]
    """The names of what was counted. No name is counted twice."""
    names: tuple[str, ...]
    """The subgroups."""
    bins: Counts
    """(k,): the bins with a row, ascending."""
    least: FloatArray
    most: FloatArray
    """(k,): the least and the most score in each bin."""
    everyone: Counts
    """(2, k): positives and negatives."""
    anyone: Counts
    """(2, k): those of them that are in any subgroup."""
    subgroups: Counts
    """(number of subgroups, 2, k)."""
    _measured: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)
    """What is measured once for all confidences."""

    @classmethod
    @aligned
    def of(cls, rows: Rows, y_score: npt.ArrayLike, *, shard: str, bits: int = BITS) -> ScoreCounts:
        """Count the rows of one shard.

        Parameters
        ----------
        rows : Rows
            Independent, with frequencies as weights or without weights.
        y_score : float array of shape (n,)
            Higher means more toxic; any finite scale.
        shard : str
            The name of these rows, such as a file or a day. Shards of the same name do not add up.
        bits : int, default=12
            From 0 to 52. One more halves the width of brackets and doubles the counts.

        Raises
        ------
        ValueError
            If there are clusters or sampling weights, a score is not finite, or `bits` is out of
            range.
        """
        if not 0 <= bits <= MANTISSA:
            msg = f"`bits` must be from 0 to {MANTISSA}; got {bits}."
            raise ValueError(msg)
        rows.refuse("ScoreCounts.of", "clusters")
        scores = rows.scores("y_score", y_score).astype(np.float64)
        if rows.weight_kind != "frequency":
            rows.refuse("ScoreCounts.of", "sample_weight")
        weight = rows.sample_weight
        if weight is not None:
            rows, scores, weight = rows.within(weight > 0), scores[weight > 0], weight[weight > 0]
        order = np.argsort(scores)
        ordered = bins_of(scores[order], bits)
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        ends = np.append(starts[1:], scores.size)[: starts.size] - 1
        code = np.empty(scores.size, dtype=np.intp)
        code[order] = 2 * np.repeat(np.arange(starts.size), ends + 1 - starts)
        code += ~rows.y_true

        def by_class(which: Any) -> Counts:
            of = None if weight is None else weight[which]
            tallies = np.bincount(code[which], of, 2 * starts.size).astype(np.int64)
            return np.ascontiguousarray(tallies.reshape(-1, 2).T)

        masks = rows.subgroups
        empty = np.zeros((0, 2, starts.size), dtype=np.int64)
        own = [by_class(np.flatnonzero(mask)) for mask in masks.values()]
        return cls(
            bits,
            frozenset([shard]),
            tuple(masks),
            ordered[starts],
            scores[order[starts]],
            scores[order[ends]],
            by_class(slice(None)),
            by_class(np.flatnonzero(any_of(masks)) if masks else slice(0)),
            np.stack(own) if own else empty,
        )

    @classmethod
    @aligned
    def of_pairs(
        cls, rows: Rows, y_score_a: npt.ArrayLike, y_score_b: npt.ArrayLike, *, shard: str
    ) -> ScoreCounts:
        """Count how often two models' scores are in each pair of wide bins, for `compare`.

        Parameters are those of `of`. They are added, written and read like other counts, and have
        no other use.
        """
        scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
        codes = pair_codes(*(rows.scores(*one).astype(np.float64) for one in scores.items()))
        return cls.of(rows, codes, shard=shard, bits=MANTISSA)

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        """Add the counts of other shards of the same evaluation.

        Raises
        ------
        ValueError
            If a shard is in both, bins or subgroups differ, or there are too many rows.
        """
        self.refuse_sum(other)
        bins = np.union1d(self.bins, other.bins)
        both = [counts.spread(bins) for counts in (self, other)]
        return ScoreCounts(
            self.bits,
            self.shards | other.shards,
            self.names,
            bins,
            np.minimum(*(counts.least for counts in both)),
            np.maximum(*(counts.most for counts in both)),
            *(
                np.add(*(getattr(counts, name) for counts in both))
                for name in ("everyone", "anyone", "subgroups")
            ),
        )

    def refuse_sum(self, other: ScoreCounts) -> None:
        """Refuse counts that do not add up; see `__add__`."""
        if twice := sorted(self.shards & other.shards):
            msg = f"shard {twice[0]!r} must be counted once; it is in both counts."
            raise ValueError(msg)
        for name in ("bits", "names"):
            if getattr(self, name) != getattr(other, name):
                msg = (
                    f"`{name}` must be the same in counts that are added; "
                    f"got {getattr(self, name)!r} and {getattr(other, name)!r}."
                )
                raise ValueError(msg)
        if (n := self.n + other.n) > MOST_ROWS:
            msg = f"counts must be of at most {MOST_ROWS:,} rows; got {n:,}."
            raise ValueError(msg)

    @staticmethod
    def sum(parts: Iterable[ScoreCounts]) -> ScoreCounts:
        """Add several counts; there must be at least one."""
        return reduce(ScoreCounts.__add__, parts)

    def spread(self, bins: Counts) -> ScoreCounts:
        """Return the same counts over more bins; a bin without a row has no least and no most."""
        places = np.searchsorted(bins, self.bins)

        def spread(values: Any, empty: float) -> Any:
            wide = np.full((*values.shape[:-1], bins.size), empty, dtype=values.dtype)
            wide[..., places] = values
            return wide

        return replace(
            self,
            bins=bins,
            least=spread(self.least, np.inf),
            most=spread(self.most, -np.inf),
            everyone=spread(self.everyone, 0),
            anyone=spread(self.anyone, 0),
            subgroups=spread(self.subgroups, 0),
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.everyone.sum())

    def cells(self, background: Background) -> dict[Key, Cell]:
        """Return the overall AUC and each subgroup's cells, measured once for all confidences."""
        found: dict[Key, Cell] = self.once(background, lambda: cells_of(self, background))
        return found

    def once(self, key: Any, measure: Callable[[], Any]) -> Any:
        """Return what was measured before under a key, or measure it."""
        if key not in self._measured:
            self._measured[key] = measure()
        return self._measured[key]

    def require(self, shards: Iterable[str]) -> None:
        """Refuse counts in which a shard is missing, or that have others.

        Raises
        ------
        ValueError
            With the names.
        """
        wanted = set(shards)
        for name, wrong in (
            ("lack", sorted(wanted - self.shards)),
            ("must not have", sorted(self.shards - wanted)),
        ):
            if wrong:
                msg = f"the counts {name} {len(wrong)} of the shards, first {wrong[0]!r}."
                raise ValueError(msg)

    def report(
        self,
        *,
        power: float = -5.0,
        power_mean_groups: Sequence[str] | None = None,
        confidence: float = 0.95,
        background: Background = "outside_subgroup",
    ) -> BiasReport:
        """Return the numbers of `evaluate_bias`, with scores in one bin taken as tied.

        Parameters are those of `evaluate_bias`.

        Returns
        -------
        BiasReport
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
    ) -> dict[str | None, dict[str, Bracket | None]]:
        """Return between which two numbers each exact value lies, for certain.

        Parameters are those of `evaluate_bias`.

        Returns
        -------
        dict
            By subgroup, and None for numbers of all rows; then by metric. The bracket of a number
            that is undefined is None. No sampling error is in it: it holds the value that
            `evaluate_bias` would give for the same rows.
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
    ) -> BiasComparison:
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
        BiasComparison
            Standard errors are the largest possible. Aggregates have none, and there are no
            p-values.

        Raises
        ------
        ValueError
            If the counts are of other shards, subgroups or numbers of rows.
        """
        return comparison_of(self, other, pairs, check_confidence(confidence), **options)

    def rate_gaps(
        self,
        *,
        threshold: float,
        threshold_range: Range = None,
        confidence: float = 0.95,
        background: Background = "outside_subgroup",
    ) -> RateGaps:
        """Return the gaps of `rate_gaps`; if the threshold is inside a bin, with their bounds.

        Values are then those in the middle of what is possible, and intervals hold all of it.
        """
        level, at = check_confidence(confidence), check_threshold(threshold)
        return rate_gaps_of(self, at, threshold_range, level, background)

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
    ) -> RateGapComparison:
        """Return the differences of two models' gaps, each at its threshold, as `compare` does."""
        level, models = check_confidence(confidence), (self, other)
        at = check_threshold(thresholds[0]), check_threshold(thresholds[1])
        return rate_gap_comparison_of(models, pairs, at, threshold_ranges, level, background)

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

    def flagged(self, threshold: float) -> dict[str | None, dict[Class, tuple[int, int]]]:
        """Return how many rows score at or above a threshold: at least, and at most.

        Both are the same unless the threshold is inside a bin.

        Returns
        -------
        dict
            By subgroup, and None for all rows; then by class.
        """
        threshold = check_threshold(threshold)
        sure, possible = self.reaches(threshold)

        def of(counts: Counts) -> dict[Class, tuple[int, int]]:
            return {
                kind: (int(one[sure].sum()), int(one[possible].sum()))
                for kind, one in zip(CLASSES, counts, strict=True)
            }

        return {None: of(self.everyone)} | {
            name: of(own) for name, own in zip(self.names, self.subgroups, strict=True)
        }

    def reaches(self, threshold: float) -> tuple[BoolArray, BoolArray]:
        """Return the bins whose scores all reach a threshold, and those of which some may."""
        sure = reaches(self.least, threshold)
        lowest = min((threshold, *narrow_forms(threshold)))
        return sure, sure | (self.most >= lowest)

    def to_bytes(self) -> bytes:
        """Return the counts as a compressed archive of numpy arrays."""
        return packed(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> ScoreCounts:
        """Read what `to_bytes` wrote.

        Raises
        ------
        ValueError
            If it is something else, or unpacks to more than 1 GiB, or its counts contradict each
            other.
        """
        return unpacked(data, cls)
