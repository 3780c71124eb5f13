"""The arguments of `evaluate_bias`, checked once, and how they become a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    FloatArray,
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_subgroups,
    check_weights,
)
from bias_metrics._core.cluster_codes import check_clusters
from bias_metrics._core.frames import Subgroups
from bias_metrics._core.influence import Members, RankedRows, rank_rows
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.lazily import Lazily
from bias_metrics._core.options import check_choice
from bias_metrics._core.packed import PackedMasks
from bias_metrics._core.ranks import SortedClasses, sort_classes
from bias_metrics._core.weighting import Rows, WeightKind, counted_rows
from bias_metrics.borkan.aggregates import check_power
from bias_metrics.report.report import BACKGROUNDS, BiasReport, SubgroupBias
from bias_metrics.report.steps import measure_members, measure_subgroup, summarise_bias
from bias_metrics.report.uncertainty import with_intervals

Background = Literal["outside_subgroup", "no_identity"]
Intervals = Literal[True, False, "cells"]


@dataclass(frozen=True, eq=False)
class Request:
    """Checked arguments of one evaluation.

    Attributes
    ----------
    labels, scores, weights, masks, clusters
        One value per row; weights and cluster codes may be None.
    weight_kind : {"probability", "frequency"}
        What the weights mean.
    power : float
        Exponent of the power means.
    groups : tuple of str
        The subgroups they cover.
    confidence : float or None
        Confidence of the intervals; None without intervals.
    aggregates : bool
        Whether aggregates have intervals too.
    background : {"outside_subgroup", "no_identity"}
        Which rows a subgroup is compared with.
    """

    labels: BoolArray
    scores: FloatArray
    weights: FloatArray | None
    weight_kind: str
    masks: Mapping[str, BoolArray]
    clusters: npt.NDArray[np.intp] | None
    power: float
    groups: tuple[str, ...]
    confidence: float | None
    aggregates: bool
    background: str

    @classmethod
    def of(
        cls,
        y_true: npt.ArrayLike,
        y_score: npt.ArrayLike,
        subgroups: Subgroups,
        *,
        sample_weight: npt.ArrayLike | None = None,
        weight_kind: WeightKind = "probability",
        power: float = -5.0,
        power_mean_groups: Sequence[str] | None = None,
        intervals: Intervals = True,
        confidence: float = 0.95,
        clusters: npt.ArrayLike | None = None,
        background: Background = "outside_subgroup",
    ) -> Request:
        """Check arguments, see `evaluate_bias`."""
        labels = check_mask("y_true", y_true)
        masks = check_subgroups(subgroups, labels.size)
        counted_rows(sample_weight, labels.size, weight_kind)  # refuses wrong ones
        return cls(
            labels=labels,
            scores=check_scores("y_score", y_score, labels.size),
            weights=check_weights(sample_weight, labels.size),
            weight_kind=weight_kind,
            masks=masks,
            clusters=check_clusters(clusters, labels.size),
            power=check_power(power),
            groups=check_power_mean_groups(power_mean_groups, masks),
            confidence=None if intervals is False else check_confidence(confidence),
            aggregates=intervals is True,
            background=check_choice("background", background, BACKGROUNDS),
        )

    def within(self, rows: BoolArray | Rows) -> Request:
        """Restrict the request to some rows, which may occur repeatedly."""
        clusters = None if self.clusters is None else self.clusters[rows]
        labels = self.labels[rows]
        return replace(
            self,
            labels=labels,
            scores=self.scores[rows],
            weights=None if self.weights is None else self.weights[rows],
            masks={name: mask[rows] for name, mask in self.masks.items()},
            clusters=check_clusters(clusters, labels.size),
        )

    def report(self) -> BiasReport:
        """Measure the rows that count."""
        rows, weights = counted_rows(self.weights, self.labels.size, self.weight_kind)
        counted = self if rows is None else self.within(rows)
        return replace(counted, weights=weights).counted_report()

    def counted_report(self) -> BiasReport:
        """Measure rows that each count once or have a weight above 0."""
        summarise = partial(
            summarise_bias,
            power=self.power,
            power_mean_groups=self.groups,
            confidence=self.confidence,
            background=self.background,
        )
        if self.confidence is None or not (self.aggregates or self.clusters is not None):
            everyone = sort_classes(self.labels, self.scores, self.weights)
            return summarise(everyone, self._measured(everyone))
        ranked = rank_rows(self.labels, self.scores, self.weights)
        members = ranked_members(ranked, self.masks, self.background)
        measured = {name: measure_members(one, self.confidence) for name, one in members.items()}
        return with_intervals(
            summarise(ranked.everyone, measured),
            ranked,
            members,
            confidence=self.confidence,
            clusters=self.clusters,
            aggregates=self.aggregates,
        )

    def _measured(self, everyone: SortedClasses) -> dict[str, SubgroupBias]:
        """Measure the cells from sorted scores alone."""
        outside = excluded_rows(self.background, self.masks)
        excluded = None if outside is None else sort_classes(*self._of(outside))
        found = {}
        for name, mask in self.masks.items():
            # Picking a few rows by number is faster than by mask.
            labels, scores, weights = self._of(np.flatnonzero(mask))
            found[name] = measure_subgroup(
                everyone,
                labels,
                scores,
                sample_weight=weights,
                confidence=self.confidence,
                excluded=excluded,
            )
        return found

    def _of(self, rows: Rows) -> tuple[BoolArray, FloatArray, FloatArray | None]:
        weights = None if self.weights is None else self.weights[rows]
        return self.labels[rows], self.scores[rows], weights


def ranked_members(
    ranked: RankedRows, masks: Mapping[str, BoolArray], background: str
) -> Mapping[str, Members]:
    """Return each subgroup's ranked rows, and what they are compared with."""
    outside = excluded_rows(background, masks)
    others = None if outside is None else ranked.members(outside)
    return members_of(ranked, masks, others)


def members_of(
    ranked: RankedRows, masks: Mapping[str, BoolArray], others: Members | None
) -> Mapping[str, Members]:
    """Return each subgroup's ranked rows, computed on demand.

    They take more memory than anything else, so all are kept at once only if there are few.
    """
    return Lazily(masks, lambda name: ranked.members(np.flatnonzero(masks[name]), others))


def excluded_rows(background: str, masks: Mapping[str, BoolArray]) -> Rows | None:
    """Return the rows excluded from every background; None if each excludes only its own."""
    if background == BACKGROUNDS[0] or not masks:
        return None
    return np.flatnonzero(any_of(masks))


def any_of(masks: Mapping[str, BoolArray]) -> BoolArray:
    """Say which rows belong to any subgroup; there must be at least one subgroup."""
    if isinstance(masks, PackedMasks):
        return masks.any()
    return np.asarray(np.logical_or.reduce(list(masks.values())))
