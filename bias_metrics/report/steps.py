"""The steps of `evaluate_bias`; the pipeline runs them with one task per subgroup.

The report is the same to the last bit. They are no part of the library's public face.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import (
    Auc,
    comparisons,
    effective_rows,
    measure_cells,
    overall_comparison,
    pair_auc,
)
from bias_metrics._core.checks import (
    BoolArray,
    check_choice,
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_weights,
)
from bias_metrics._core.index import aligned
from bias_metrics._core.influence import Members, RankedRows
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.ranks import SortedClasses, check_ranked, sort_classes
from bias_metrics._core.values import MetricValue
from bias_metrics.borkan import check_power
from bias_metrics.rows import BACKGROUNDS, Background, Rows
from bias_metrics.table import BiasTable, RowCounts

Intervals = Literal[True, False, "cells"]


@dataclass(frozen=True)
class Options:
    """What a report covers: the power means, and the intervals (none if `confidence` is None)."""

    power: float
    groups: tuple[str, ...]
    confidence: float | None
    aggregates: bool = True

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        power: float = -5.0,
        power_mean_groups: Sequence[str] | None = None,
        intervals: Intervals = True,
        confidence: float = 0.95,
    ) -> Options:
        """Check options, see `evaluate_bias`."""
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
        """The confidence of a report that has intervals."""
        assert self.confidence is not None  # noqa: S101
        return self.confidence


@aligned
def rank_scores(
    y_true: npt.ArrayLike, y_score: npt.ArrayLike, *, sample_weight: npt.ArrayLike | None = None
) -> SortedClasses:
    """Sort all rows once, by class; parameters and errors are those of `evaluate_bias`."""
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    return sort_classes(labels, scores, check_weights(sample_weight, labels.size))


@aligned
def measure_subgroup(
    everyone: SortedClasses,
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    sample_weight: npt.ArrayLike | None = None,
    uncertain: bool = False,
    excluded: SortedClasses | None = None,
) -> MeasuredSubgroup:
    """Measure one subgroup, given its own rows only; the others are from `rank_scores`."""
    own = rank_scores(y_true, y_score, sample_weight=sample_weight)
    if (everyone.positive.cumulative_weight is None) != (sample_weight is None):
        msg = "`sample_weight` must be given if and only if `rank_scores` had weights."
        raise ValueError(msg)
    check_ranked(everyone, own)
    if excluded is not None:
        check_ranked(everyone, excluded)
    compared = comparisons(everyone, own, excluded)
    cells = measure_cells(compared, uncertain=uncertain)
    counts = RowCounts(own.positive.n, own.negative.n, effective_rows(compared))
    return MeasuredSubgroup(counts, cells)


@dataclass(frozen=True)
class MeasuredSubgroup:
    """Counts and the metrics of one subgroup as measured, for any confidence."""

    counts: RowCounts
    cells: Mapping[str, Auc]  # By metric

    @classmethod
    def of(cls, members: Members) -> MeasuredSubgroup:
        """Measure one subgroup, given its ranked rows."""
        n_positive, n_negative = members.positive.scores.n, members.negative.scores.n
        counts = RowCounts(n_positive, n_negative, effective_rows(members.compared))
        return cls(counts, measure_cells(members.compared))

    def at(self, confidence: float | None) -> dict[str, MetricValue]:
        """Return the metrics with intervals."""
        return {
            metric: auc.at(confidence).measured_by(auc.at) for metric, auc in self.cells.items()
        }


def ranked_members(ranked: RankedRows, rows: Rows) -> Mapping[str, Members]:
    """Return each subgroup's ranked rows, and what they are compared with."""
    excluded = rows.excluded
    others = None if excluded is None else ranked.members(excluded)
    return members_of(ranked, rows.subgroups, others)


def members_of(
    ranked: RankedRows, masks: Mapping[str, BoolArray], others: Members | None
) -> Mapping[str, Members]:
    """Return each subgroup's ranked rows, computed on demand.

    They take more memory than anything else, so all are kept at once only if there are few.
    """
    return Lazily(masks, lambda name: ranked.members(np.flatnonzero(masks[name]), others))


def summarise_bias(
    everyone: SortedClasses,
    subgroups: Mapping[str, MeasuredSubgroup],
    options: Options,
    background: Background = "outside_subgroup",
    overall: Auc | None = None,
) -> BiasTable:
    """Compute overall and aggregate numbers; `overall` is the overall AUC, if it is known."""
    confidence = options.confidence
    if overall is None:
        uncertain = confidence is not None
        overall = pair_auc(everyone.negative, everyone.positive, uncertain=uncertain)
    n_positive, n_negative = everyone.positive.n, everyone.negative.n
    counts: dict[str | None, RowCounts] = {
        None: RowCounts(n_positive, n_negative, _effective(everyone))
    }
    counts |= {name: measured.counts for name, measured in subgroups.items()}
    return BiasTable.of_cells(
        overall.at(confidence).measured_by(overall.at),
        {name: measured.at(confidence) for name, measured in subgroups.items()},
        counts,
        power=options.power,
        covered=options.groups,
        background=check_choice("background", background, BACKGROUNDS),
        confidence=confidence or 0.95,
    )


def _effective(everyone: SortedClasses) -> dict[str, float] | None:
    comparison = overall_comparison(everyone)
    if comparison.base.weight is None:
        return None
    return dict(zip(("negative", "positive"), comparison.sizes, strict=True))


# ---- A mapping whose values are computed on demand


T = TypeVar("T")
# Values that are cached: enough for all subgroups of most evaluations, but not for thousands.
KEPT = 64


class Lazily(Mapping[str, T]):
    """Values by name, computed by a function; the most recently used ones are cached."""

    def __init__(self, names: Iterable[str], make: Callable[[str], T]) -> None:
        self._names = dict.fromkeys(names)
        self._made = lru_cache(maxsize=KEPT)(make)

    def __getitem__(self, name: str) -> T:
        """Return a value; compute it if it is not cached."""
        if name not in self._names:
            raise KeyError(name)
        return self._made(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Count the names."""
        return len(self._names)
