"""The checked arguments of calibration by subgroup, and the numbers of each set of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, check_mask, check_scores, check_subgroups
from bias_metrics._core.cluster_codes import check_clusters
from bias_metrics._core.frames import Subgroups
from bias_metrics._core.intervals import check_confidence, effective_number
from bias_metrics._core.options import check_choice
from bias_metrics._core.weighting import counted_rows, masks_of
from bias_metrics.calibration.binned import Bins
from bias_metrics.calibration.estimates import (
    ESTIMATES,
    Codes,
    Estimate,
    Floats,
    Moves,
    Sample,
    moves_of,
)
from bias_metrics.calibration.numbers import Number
from bias_metrics.metrics import METRICS, calibration_metrics
from bias_metrics.report.report import BACKGROUNDS
from bias_metrics.report.request import excluded_rows

RANGES = {"bias": (-1.0, 1.0), "brier": (0.0, 1.0), "slope": (-np.inf, np.inf)}
"""Smallest and largest possible value of each number."""


@dataclass(frozen=True, eq=False)
class CalibratedRows:
    """Rows that count, with the scores of one or two models."""

    labels: Floats
    scores: list[Floats]
    weights: Floats
    masks: Mapping[str, BoolArray]
    clusters: Codes | None
    excluded: Codes | None
    confidence: float
    reason: str | None

    @classmethod
    def of(
        cls,
        y_true: npt.ArrayLike,
        scores: Mapping[str, npt.ArrayLike],
        subgroups: Subgroups,
        *,
        sample_weight: npt.ArrayLike | None,
        weight_kind: str,
        confidence: float,
        clusters: npt.ArrayLike | None,
        background: str,
    ) -> CalibratedRows:
        """Check the arguments; `scores` are by the name of their argument."""
        labels = check_mask("y_true", y_true)
        n = labels.size
        known = [check_scores(name, one, n).astype(np.float64) for name, one in scores.items()]
        masks = check_subgroups(subgroups, n)
        codes = check_clusters(clusters, n)
        check_choice("background", background, BACKGROUNDS)
        rows, weights = counted_rows(sample_weight, n, weight_kind)
        if rows is not None:
            labels, known, masks = labels[rows], [one[rows] for one in known], masks_of(masks, rows)
            codes = None if codes is None else check_clusters(codes[rows], labels.size)
        return cls(
            labels.astype(np.float64),
            known,
            np.ones(labels.size) if weights is None else weights.astype(np.float64),
            masks,
            codes,
            excluded_rows(background, masks),
            check_confidence(confidence),
            next(filter(None, map(_no_probabilities, known)), None),
        )

    @property
    def n_clusters(self) -> int:
        """Number of clusters in all."""
        return 0 if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    def everyone(self) -> Sample:
        """Return all rows."""
        return self._sample(np.arange(self.labels.size))

    def subgroup(self, name: str) -> tuple[Sample, Sample]:
        """Return a subgroup's rows and those of its background."""
        mask = self.masks[name]
        outside = ~mask
        if self.excluded is not None:
            outside = np.ones(mask.size, dtype=np.bool_)
            outside[self.excluded] = False
        return self._sample(np.flatnonzero(mask)), self._sample(np.flatnonzero(outside))

    def _sample(self, rows: Codes) -> Sample:
        clusters = None if self.clusters is None else self.clusters[rows]
        return Sample(rows, self.labels[rows], self.weights[rows], clusters)

    def numbers(self, sample: Sample, model: int = 0) -> dict[str, Number]:
        """Return bias, Brier score and slope of some rows."""
        return {name: self._number(name, sample, model) for name in ESTIMATES}

    def gaps(
        self, own: Mapping[str, Number], background: Mapping[str, Number]
    ) -> dict[str, Number]:
        """Return the differences between a subgroup and its background, by metric."""
        return {
            name: own[kind.of].minus(background[kind.of], METRICS[name].largest)
            for name, kind in calibration_metrics().items()
        }

    def _number(self, name: str, sample: Sample, model: int) -> Number:
        least, largest = RANGES[name]
        make = partial(Number, largest=largest, least=least)
        reason = self.reason or ("no rows" if sample.rows.size == 0 else None)
        if reason is not None:
            nothing = Moves(np.zeros(self.labels.size), 1.0)
            return make(None, reason, worth=0.0, rows=nothing)
        estimate: Estimate = ESTIMATES[name](self.scores[model][sample.rows], sample)
        found = make(
            estimate.value,
            estimate.reason,
            worth=effective_number(sample.weight),
            rows=moves_of(estimate, sample, self.labels.size, clustered=False),
        )
        if sample.clusters is None:
            return found
        return make(
            found.value,
            found.reason,
            worth=found.worth,
            rows=found.rows,
            clusters=moves_of(estimate, sample, self.n_clusters, clustered=True),
            n_clusters=int(np.unique(sample.clusters).size),
        )

    def bins(self, sample: Sample, n_bins: int) -> Bins | None:
        """Return rows in bins; None if there are none, or scores are not probabilities."""
        if self.reason is not None or sample.rows.size == 0:
            return None
        return Bins.of(self.scores[0][sample.rows], sample, n_bins)


def _no_probabilities(scores: Floats) -> str | None:
    """Say that scores are not probabilities, if so."""
    outside = np.flatnonzero((scores < 0) | (scores > 1))
    if not outside.size:
        return None
    row = int(outside[0])
    return f"scores are not probabilities: got {scores[row]:.6g} (row {row})"
