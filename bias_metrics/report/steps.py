"""Steps of `evaluate_bias`, which the pipeline runs with a task per subgroup.

Both reports are identical to the last bit. This module is not part of the public API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import (
    Auc,
    compare_all_rows,
    compare_classes,
    count_effective_rows,
    measure_cells,
    measure_pair_auc,
)
from bias_metrics._core.checks import (
    check_choice,
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_weights,
)
from bias_metrics._core.index import require_aligned
from bias_metrics._core.influence import Members, RankedRows
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.masks import LazyMapping
from bias_metrics._core.ranks import SortedClasses, check_ranked, sort_classes
from bias_metrics._core.values import MetricValue
from bias_metrics.borkan import check_power
from bias_metrics.rows import BACKGROUNDS, Background, Rows
from bias_metrics.table import BiasTable, RowCounts

Intervals = Literal[True, False, "cells"]


@dataclass(frozen=True)
class ReportOptions:
    """Options of a report: the power means, and the intervals (None: no intervals)."""

    power: float
    groups: tuple[str, ...]
    confidence: float | None
    has_aggregates: bool = True

    @classmethod
    def from_arguments(
        cls,
        rows: Rows,
        *,
        power: float = -5.0,
        power_mean_groups: Sequence[str] | None = None,
        intervals: Intervals = True,
        confidence: float = 0.95,
    ) -> ReportOptions:
        """Check the options of `evaluate_bias`."""
        if intervals not in get_args(Intervals):
            msg = f"`intervals` must be True, False or 'cells'; got {intervals!r}."
            raise ValueError(msg)
        return cls(
            check_power(power),
            check_power_mean_groups(power_mean_groups, rows.subgroups),
            None if intervals is False else check_confidence(confidence),
            intervals is True,
        )

    @property
    def level(self) -> float:
        """Confidence of a report with intervals."""
        assert self.confidence is not None  # noqa: S101
        return self.confidence


@require_aligned
def rank_scores(
    y_true: npt.ArrayLike, y_score: npt.ArrayLike, *, sample_weight: npt.ArrayLike | None = None
) -> SortedClasses:
    """Sort all rows by class; parameters and errors are those of `evaluate_bias`."""
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    return sort_classes(labels, scores, check_weights(sample_weight, labels.size))


@require_aligned
def measure_subgroup(
    everyone: SortedClasses,
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    sample_weight: npt.ArrayLike | None = None,
    uncertain: bool = False,
    excluded: SortedClasses | None = None,
) -> MeasuredSubgroup:
    """Measure a subgroup, given only its own rows; `everyone` is the result of `rank_scores`."""
    own = rank_scores(y_true, y_score, sample_weight=sample_weight)
    if (everyone.positive.cumulative_weight is None) != (sample_weight is None):
        msg = "`sample_weight` must be given if and only if `rank_scores` had weights."
        raise ValueError(msg)
    check_ranked(everyone, own)
    if excluded is not None:
        check_ranked(everyone, excluded)
    compared = compare_classes(everyone, own, excluded)
    cells = measure_cells(compared, uncertain=uncertain)
    counts = RowCounts(own.positive.n, own.negative.n, count_effective_rows(compared))
    return MeasuredSubgroup(counts, cells)


@dataclass(frozen=True)
class MeasuredSubgroup:
    """Counts and measured metrics of a subgroup, for intervals at any confidence."""

    counts: RowCounts
    cells: Mapping[str, Auc]  # By metric

    def compute_values(self, confidence: float | None) -> dict[str, MetricValue]:
        """Return the metrics with intervals."""
        return {
            metric: auc.compute_value(confidence).attach_measure(auc.compute_value)
            for metric, auc in self.cells.items()
        }


def rank_members(ranked: RankedRows, rows: Rows) -> Mapping[str, Members]:
    """Return the ranked rows by subgroup, computed on demand.

    Ranked rows need more memory than anything else, so only a limited number is cached.
    """
    excluded = rows.excluded
    others = None if excluded is None else ranked.select_members(excluded)
    masks = rows.subgroups
    return LazyMapping(
        masks, lambda name: ranked.select_members(np.flatnonzero(masks[name]), others)
    )


def summarise_bias(
    everyone: SortedClasses,
    subgroups: Mapping[str, MeasuredSubgroup],
    options: ReportOptions,
    background: Background = "outside_subgroup",
    overall: Auc | None = None,
) -> BiasTable:
    """Compute overall and aggregate numbers; pass the `overall` AUC if it is already measured."""
    confidence = options.confidence
    if overall is None:
        uncertain = confidence is not None
        overall = measure_pair_auc(everyone.negative, everyone.positive, uncertain=uncertain)
    effective = None
    if everyone.positive.weight is not None:
        sizes = compare_all_rows(everyone).sizes
        effective = dict(zip(("negative", "positive"), sizes, strict=True))
    n_positive, n_negative = everyone.positive.n, everyone.negative.n
    counts: dict[str | None, RowCounts] = {None: RowCounts(n_positive, n_negative, effective)}
    counts |= {name: measured.counts for name, measured in subgroups.items()}
    return BiasTable.from_cells(
        overall.compute_value(confidence).attach_measure(overall.compute_value),
        {name: measured.compute_values(confidence) for name, measured in subgroups.items()},
        counts,
        power=options.power,
        covered=options.groups,
        background=check_choice("background", background, BACKGROUNDS),
        confidence=confidence or 0.95,
    )
