"""The numbers of one trained model in an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import bias_metrics
from bias_metrics import (
    EqualityDifference,
    MetricValue,
    error_rates,
    fned,
    fped,
    paired_gaps,
    pinned_auc_equality_difference,
    roc_auc,
)
from bias_metrics.metrics import AEGS, AUCS, SUBGROUP_METRICS
from biasgate.tasks.data.hashed_parts import uniform_hash

Scores = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]
RATES = {"false_positive_rate": "fped", "false_negative_rate": "fned"}
SUMS = ("fped", "fned", "pinned")
# The rate of an identity with fewer comments of a class says nothing.
MIN_ROWS = 10
# Of the jackknife over rows: each is left out once.
PARTS = 20


@dataclass(frozen=True)
class ScoredRows:
    """Labelled rows with scores and identities."""

    y_true: Mask
    y_score: Scores
    masks: Mapping[str, Mask]
    parts: npt.NDArray[np.intp] | None = None
    """Which of the parts that the jackknife leaves out each row is in; None: it is not done."""

    def without(self, part: int) -> ScoredRows:
        """Return all rows but those of a part."""
        kept = self.parts != part
        masks = {name: mask[kept] for name, mask in self.masks.items()}
        return ScoredRows(self.y_true[kept], self.y_score[kept], masks)


def parts_of(clusters: Sequence[str]) -> npt.NDArray[np.intp] | None:
    """Divide rows into at most `PARTS` parts, whole clusters by a hash; None if there is one."""
    order = sorted(set(clusters), key=uniform_hash)
    if len(order) < 2:
        return None
    part = {one: at % PARTS for at, one in enumerate(order)}
    return np.array([part[one] for one in clusters], dtype=np.intp)


def general_numbers(rows: ScoredRows, threshold: float) -> dict[str, float | None]:
    """Return AUC and error rates of all rows."""
    errors = error_rates(rows.y_true, rows.y_score, threshold=threshold)
    return {
        "auc": roc_auc(rows.y_true, rows.y_score).value,
        **{name: errors.rate(name).value for name in RATES},
    }


def set_numbers(rows: ScoredRows, threshold: float) -> dict[str, Any]:
    """Return the overall numbers of a set, equality differences, and those of each identity.

    Identities with fewer than `MIN_ROWS` comments of a class are left out. `left_out` has the
    overall numbers again, each time without another part of the rows.
    """
    y_true = rows.y_true
    whole = {
        name: mask
        for name, mask in rows.masks.items()
        if min((mask & y_true).sum(), (mask & ~y_true).sum()) >= MIN_ROWS
    }
    rows = replace(rows, masks=whole)
    sums = _sums(rows, threshold)
    parts = [] if rows.parts is None else range(int(rows.parts.max()) + 1)
    fewer = [rows.without(part) for part in parts]
    again = [_overall(some, threshold, _sums(some, threshold)) for some in fewer]
    return {
        "overall": _overall(rows, threshold, sums),
        "left_out": {name: [one[name] for one in again] for name in (again[0] if again else {})},
        "identities": {name: _of_identity(rows, name, sums) for name in whole},
        "sums": {name: one.to_dict() for name, one in sums.items()},
    }


def _sums(rows: ScoredRows, threshold: float) -> dict[str, EqualityDifference]:
    y_true, y_score, masks = rows.y_true, rows.y_score, rows.masks
    return {
        "fped": fped(y_true, y_score, masks, threshold=threshold),
        "fned": fned(y_true, y_score, masks, threshold=threshold),
        "pinned": pinned_auc_equality_difference(y_true, y_score, masks),
    }


def _overall(
    rows: ScoredRows, threshold: float, sums: Mapping[str, EqualityDifference]
) -> dict[str, float | None]:
    return general_numbers(rows, threshold) | {name: one.value.value for name, one in sums.items()}


def pair_numbers(before: Scores, after: Scores) -> dict[str, float | None]:
    """Return how far scores move when the identity of a comment is swapped."""
    gaps = paired_gaps(before, after)
    return {
        "mean_gap": gaps.mean_gap.value,
        "mean_absolute_gap": gaps.mean_absolute_gap.value,
    }


def _of_identity(
    rows: ScoredRows, name: str, sums: Mapping[str, EqualityDifference]
) -> dict[str, float | None]:
    mask = rows.masks[name]
    found: dict[str, MetricValue] = {
        metric: getattr(bias_metrics, metric)(rows.y_true, rows.y_score, mask)
        for metric in SUBGROUP_METRICS
    }
    found |= {rate: sums[key].subgroups[name] for rate, key in RATES.items()}
    return {metric: one.value for metric, one in found.items()}


def harm(metric: str, before: float, after: float) -> float:
    """Return by how much a number became worse: above 0 is worse, whatever the metric."""
    if metric in AEGS:
        return abs(after) - abs(before)
    return before - after if metric in AUCS or metric == "auc" else after - before
