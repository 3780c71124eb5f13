"""The steps of `evaluate_bias`; the pipeline runs them with one task per subgroup.

The report is the same to the last bit. They are no part of the library's public face.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar

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
from bias_metrics.borkan import check_power, final_score, power_mean_of
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report.report import BiasReport, Overall, PowerMeans, SubgroupBias
from bias_metrics.rows import BACKGROUNDS, Background, Rows

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
    confidence: float | None = None,
    excluded: SortedClasses | None = None,
) -> SubgroupBias:
    """Measure one subgroup, given its own rows only; the others are from `rank_scores`."""
    own = rank_scores(y_true, y_score, sample_weight=sample_weight)
    if (everyone.positive.cumulative_weight is None) != (sample_weight is None):
        msg = "`sample_weight` must be given if and only if `rank_scores` had weights."
        raise ValueError(msg)
    check_ranked(everyone, own)
    if excluded is not None:
        check_ranked(everyone, excluded)
    compared = comparisons(everyone, own, excluded)
    cells = measure_cells(compared, uncertain=confidence is not None)
    found = MeasuredSubgroup(own.positive.n, own.negative.n, cells, effective_rows(compared))
    return found.at(confidence)


@dataclass(frozen=True)
class MeasuredSubgroup:
    """Counts and the metrics of one subgroup as measured, for any confidence."""

    n_positive: int
    n_negative: int
    cells: Mapping[str, Auc]  # By metric
    effective: Mapping[str, float] | None  # As in SubgroupBias

    @classmethod
    def of(cls, members: Members) -> MeasuredSubgroup:
        """Measure one subgroup, given its ranked rows."""
        cells, worth = measure_cells(members.compared), effective_rows(members.compared)
        return cls(members.positive.scores.n, members.negative.scores.n, cells, worth)

    def at(self, confidence: float | None) -> SubgroupBias:
        """Return the metrics with intervals."""
        cells: dict[str, Any] = {metric: auc.at(confidence) for metric, auc in self.cells.items()}
        n_positive, n_negative, effective = self.n_positive, self.n_negative, self.effective
        return SubgroupBias(
            n_positive=n_positive, n_negative=n_negative, effective=effective, **cells
        )


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
    subgroups: Mapping[str, SubgroupBias],
    *,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float | None = None,
    background: Background = "outside_subgroup",
    overall: MetricValue | None = None,
) -> BiasReport:
    """Compute overall and aggregate numbers; `overall` is the overall AUC, if it is known."""
    check_choice("background", background, BACKGROUNDS)
    power = check_power(power)
    groups = check_power_mean_groups(power_mean_groups, subgroups)
    if overall is None:
        uncertain = confidence is not None
        overall = pair_auc(everyone.negative, everyone.positive, uncertain=uncertain).at(confidence)
    counts = everyone.positive.n + everyone.negative.n, everyone.positive.n
    return report_from(
        Overall(*counts, overall, _effective(everyone)),
        subgroups,
        power,
        groups,
        background,
        confidence,
    )


def report_from(
    overall: Overall[MetricValue],
    subgroups: Mapping[str, SubgroupBias],
    power: float,
    groups: tuple[str, ...],
    background: Background,
    confidence: float | None = None,
) -> BiasReport:
    """Compute the power means and the final score of measured cells; all values are checked."""
    means = {
        metric: power_mean_of({name: getattr(subgroups[name], metric) for name in groups}, power)
        for metric in FINAL_SCORE_PARTS
    }
    return BiasReport(
        overall,
        dict(subgroups),
        PowerMeans(power, groups, **means),
        final_score(overall.auc, means),
        background,
        confidence or 0.95,
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
