"""FPR and FNR gaps: error rates of each subgroup minus those of its background, at a threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_threshold
from bias_metrics._core.cuts import reaches_cut
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.masks import Subgroups
from bias_metrics.metrics import GIVEN, list_threshold_metrics
from bias_metrics.rows import RowOptions, Rows
from bias_metrics.table import SECOND, BiasTable, Estimate, RowCounts, key_numbers
from bias_metrics.thresholds.changes import count_changes
from bias_metrics.thresholds.shares import Events, ShareGap, measure_changed_share


@require_aligned
def rate_gaps(
    y_true: npt.ArrayLike | Rows,
    y_score: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    threshold: float,
    threshold_range: tuple[float, float] | None = None,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> BiasTable:
    """Compare each subgroup's error rates at one threshold with those of its background.

    `fpr_gap` is the false positive rate of the subgroup minus that of the background: above 0,
    harmless mentions are flagged more often than other harmless rows. `fnr_gap` is the same for
    the false negative rate: above 0, abuse of the subgroup is missed more often. In contrast,
    `fped` and `fned` sum absolute differences from the rate of *all* rows, without intervals. The
    AEGs compare scores without a threshold.

    Parameters
    ----------
    y_true, subgroups
        As in `evaluate_bias`.
    y_score : float array of shape (n,)
        Finite scores.
    threshold : float
        Finite; a score at or above it is flagged. The intervals take it as given.
    threshold_range : tuple of two floats, optional
        If the threshold was estimated from these rows: its confidence range, as from
        `equal_error_range`. The intervals then allow for the change of the gaps within the range.
    confidence : float, default=0.95
        Confidence of the intervals. A gap has no interval if subgroup or background has fewer than
        20 clusters with rows of the counted class.
    **options
        `clusters` and `background` as in `evaluate_bias`; not with `Rows`.

    Returns
    -------
    BiasTable
        `fpr_gap` and `fnr_gap` by subgroup at the threshold `given`: in [-1, 1], ideal 0, with
        intervals. A gap without rows in subgroup or background has the value None and a reason.

    Raises
    ------
    ValueError, TypeError
        If the number of scores or rows differs, a value is not finite, or the rows have weights.

    Notes
    -----
    The interval is the union of Newcombe's hybrid score interval and that of Agresti and Caffo. The
    latter keeps its level for few rows and rates near 0. With clusters the union uses the effective
    sample size; while fewer than ten clusters have an error, this is the number of clusters. The
    union is at least as wide as the interval of the linearised variance with Student's quantile. It
    is narrower than for independent rows only if 40 clusters have an error, and 40 have a row
    without.

    References
    ----------
    Hardt, Price and Srebro (2016), section 2 (equalised odds). Newcombe (1998), Statistics in
    Medicine 17, 873-890. Agresti and Caffo (2000), The American Statistician 54.

    Examples
    --------
    >>> y_true, subgroups = [0, 0, 0, 0, 1, 1], {"gay": [1, 1, 0, 0, 0, 1]}
    >>> table = rate_gaps(y_true, [0.9, 0.2, 0.3, 0.1, 0.8, 0.4], subgroups, threshold=0.5)
    >>> gay = table["gay"]
    >>> gay["fpr_gap"].value, gay["fnr_gap"].value  # 1 of 2 minus 0 of 2; 1 of 1 minus 0 of 1
    (0.5, 1.0)
    """
    rows = Rows.from_arguments(y_true, subgroups, **options)
    rates = MeasuredRates(rows, {"y_score": y_score}, [threshold])
    return rates.measure_gaps(check_confidence(confidence), threshold_range)


@require_aligned
def compare_rate_gaps(
    y_true: npt.ArrayLike | Rows,
    y_score_a: npt.ArrayLike,
    y_score_b: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    threshold_a: float,
    threshold_b: float,
    threshold_range_a: tuple[float, float] | None = None,
    threshold_range_b: tuple[float, float] | None = None,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> BiasTable:
    """Compare the error rate gaps of two models on the same rows, each at its own threshold.

    The models are paired: errors that both make on the same row do not widen the interval.

    Parameters
    ----------
    y_true, subgroups
        As in `evaluate_bias`.
    y_score_a, y_score_b : float array of shape (n,)
        Scores of the first model (the candidate) and the second (the champion).
    threshold_a, threshold_b, threshold_range_a, threshold_range_b
        As in `rate_gaps`, of each model; give both ranges or neither.
    confidence, **options
        As in `rate_gaps`.

    Returns
    -------
    BiasTable
        Differences of the gaps, and confidence bounds of |first gap| - |second gap| (`size_low`,
        `size_high`). Models with the same decisions have the difference 0 with zero width. Also
        `newly_flagged` and `newly_missed`: shares of changed decisions.

    Raises
    ------
    ValueError, TypeError
        As `rate_gaps`.

    References
    ----------
    Newcombe (1998), Statistics in Medicine 17, 2635-2650 (paired rows). Zou (2007),
    Psychological Methods 12 (intervals of differences from both limits).

    Examples
    --------
    >>> y_true, gay = [0, 0, 0, 0] * 10, {"gay": [0, 0, 1, 1] * 10}
    >>> a, b = [0.1, 0.2, 0.9, 0.2] * 10, [0.1, 0.2, 0.3, 0.2] * 10
    >>> table = compare_rate_gaps(y_true, a, b, gay, threshold_a=0.5, threshold_b=0.5)
    >>> gap = table["fpr_gap", "gay"]
    >>> gap.first, gap.second, round(gap.size_low, 2)
    (0.5, 0.0, 0.17)
    """
    scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
    rows = Rows.from_arguments(y_true, subgroups, **options)
    rates = MeasuredRates(rows, scores, [threshold_a, threshold_b])
    ranges = threshold_range_a, threshold_range_b
    return rates.compare_gaps(check_confidence(confidence), ranges)


Range = tuple[float, float] | None
Gaps = dict[str, dict[str, ShareGap]]


class MeasuredRates:
    """Error rates of one or two models at their thresholds, for intervals of any confidence.

    Errors are counted once. Parameters and exceptions are those of `rate_gaps`; the keys of
    `scores` are argument names for error messages.
    """

    def __init__(
        self, rows: Rows, scores: Mapping[str, npt.ArrayLike], thresholds: Sequence[float]
    ) -> None:
        rows.refuse_ignored(
            "rate_gaps" if len(scores) == 1 else "compare_rate_gaps", "sample_weight"
        )
        self.rows = rows
        self.scores = [rows.check_scores(*item) for item in scores.items()]
        self.thresholds = [check_threshold(threshold) for threshold in thresholds]
        self._counted: dict[tuple[tuple[float, ...], bool], Gaps] = {}

    def measure_gaps(
        self,
        confidence: float,
        threshold_range: Range = None,
        names: Iterable[str] | None = None,
        threshold_name: str = GIVEN,
    ) -> BiasTable:
        """Return a model's gaps of the subgroups `names`, with keys at `threshold_name`."""
        cells = {
            name: {metric: _measure(gap, gap.measure, confidence) for metric, gap in gaps.items()}
            for name, gaps in self._find_gaps([threshold_range], names).items()
        }
        return self._build_table(cells, threshold_name, confidence)

    def compare_gaps(
        self,
        confidence: float,
        ranges: Sequence[Range] = (None, None),
        names: Iterable[str] | None = None,
        threshold_name: str = GIVEN,
    ) -> BiasTable:
        """Return the differences of both models' gaps, and shares of changed decisions."""
        flags = [reaches_cut(*pair) for pair in zip(self.scores, self.thresholds, strict=True)]
        changes = dict(count_changes(self.rows, flags))
        cells = {
            name: {
                metric: _measure(gap, gap.compare_models, confidence)
                for metric, gap in gaps.items()
            }
            | {
                metric: measure_changed_share(share, confidence).attach_measure(
                    partial(measure_changed_share, share)
                )
                for metric, share in changes[name].items()
            }
            for name, gaps in self._find_gaps(ranges, names).items()
        }
        return self._build_table(cells, threshold_name, confidence)

    @cached_property
    def _row_counts(self) -> dict[str | None, RowCounts]:
        y_true = self.rows.y_true
        counts: dict[str | None, RowCounts] = {}
        for name in (None, *self.rows.subgroups):
            mask = np.ones_like(y_true) if name is None else self.rows.subgroups[name]
            n_positive = int(np.count_nonzero(mask & y_true))
            counts[name] = RowCounts(n_positive, int(np.count_nonzero(mask)) - n_positive)
        return counts

    def _build_table(
        self, cells: Mapping[str, Mapping[str, Estimate]], threshold_name: str, confidence: float
    ) -> BiasTable:
        return BiasTable(
            key_numbers(cells, threshold_name),
            {name: self._row_counts[name] for name in (None, *cells)},
            confidence,
            self.rows.background,
            thresholds={
                (threshold_name, model): value
                for model, value in zip((None, SECOND), self.thresholds, strict=False)
            },
        )

    def _find_gaps(self, ranges: Sequence[Range], names: Iterable[str] | None) -> Gaps:
        """Return gaps that allow for the ranges of estimated thresholds."""
        # Each is a tuple of all models' thresholds: the given, the lower and the upper ones.
        given, *ends = zip(
            *([own, *(limits or ())] for own, limits in zip(self.thresholds, ranges, strict=True)),
            strict=True,
        )
        gaps = self._count_errors(given)
        # At the ends of the ranges only the values of the gaps are needed.
        gaps_at_ends = [self._count_errors(end, ignore_clusters=True) for end in ends]
        return {
            name: {
                metric: gap.allow_ranges([at_end[name][metric] for at_end in gaps_at_ends])
                for metric, gap in gaps[name].items()
            }
            for name in (gaps if names is None else names)
        }

    def _count_errors(
        self, thresholds: tuple[float, ...], *, ignore_clusters: bool = False
    ) -> Gaps:
        """Count the errors at each model's threshold."""
        if (thresholds, ignore_clusters) not in self._counted:
            rows = self.rows
            if ignore_clusters:
                rows = Rows(rows.y_true, rows.subgroups, background=rows.background)
            pairs = zip(self.scores, map(check_threshold, thresholds), strict=True)
            flags = [reaches_cut(scores, threshold) for scores, threshold in pairs]
            gaps: Gaps = {name: {} for name in rows.subgroups}
            for metric, rate in list_threshold_metrics().items():
                for name, gap in Events.from_rate(rate, rows, flags).list_gaps():
                    gaps[name][metric] = gap
            self._counted[thresholds, ignore_clusters] = gaps
        return self._counted[thresholds, ignore_clusters]


def _measure(gap: ShareGap, measure: Callable[[float], Estimate], confidence: float) -> Estimate:
    """Measure a gap, and keep the function for other confidences.

    With an estimated threshold the function is not kept, because the range depends on the
    confidence.
    """
    estimate = measure(confidence)
    return estimate if gap.range_values else estimate.attach_measure(measure)
