"""The threshold that spreads errors most evenly, and how error rates change with another model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    aligned,
    check_mask,
    check_scores,
    check_share,
    check_subgroups,
)
from bias_metrics._core.intervals import student_quantile
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.values import MetricValue, undefined

Floats = npt.NDArray[np.floating]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EvenThreshold:
    """A threshold and what it does."""

    # Scores at or above it are flagged; None if no threshold is good enough.
    threshold: float | None
    reason: str | None = None  # Why there is none
    # Largest abs(rate of a subgroup - rate of all rows), of both rates, from 0 to 1.
    gap: float | None = None
    subgroup: str | None = None  # The subgroup that has it
    recall: float | None = None  # recall, precision: on the rows that it must be good enough on
    precision: float | None = None


@aligned
def even_threshold(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    good_on: tuple[npt.ArrayLike, npt.ArrayLike],
    min_recall: float,
    min_precision: float,
) -> EvenThreshold:
    """Find the threshold with the smallest gap between subgroups among those good enough.

    Recall and precision are required on other rows than those on which the gap is measured. Phrases
    made from templates show gaps well, but half of them are toxic: flagging all of them has a gap
    of 0, recall 1 and precision 1/2.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup, each with both classes.
    good_on : pair of arrays of shape (m,)
        Labels and scores of the rows on which recall and precision are required; their scores
        are the thresholds that are tried.
    min_recall, min_precision : float
        From 0 to 1.

    Returns
    -------
    EvenThreshold
        Among equal gaps the one with the highest precision.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if there are no subgroups, or one lacks a class.

    Examples
    --------
    >>> general = [0, 0, 1, 1], [0.1, 0.3, 0.4, 0.8]
    >>> phrases = [0, 0, 1, 1], [0.5, 0.2, 0.9, 0.7]
    >>> gay = {"gay": [1, 0, 1, 0], "tall": [0, 1, 0, 1]}
    >>> even_threshold(*phrases, gay, good_on=general, min_recall=0.5, min_precision=1).threshold
    0.4
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    general = check_mask("good_on[0]", good_on[0])
    theirs = check_scores("good_on[1]", good_on[1], general.size)
    demands = check_share("min_recall", min_recall), check_share("min_precision", min_precision)
    for name, mask in masks.items() or [("", np.zeros_like(labels))]:
        if not (mask & labels).any() or not (mask & ~labels).any():
            of = f"subgroup {name!r} lacks one" if name else "there are no subgroups"
            msg = f"`subgroups` must have both classes; {of}."
            raise ValueError(msg)
    thresholds = np.unique(theirs)
    flagged = general.sum() * _rates(theirs[general], thresholds)
    recall = flagged / max(int(general.sum()), 1)
    precision = flagged / (theirs.size * _rates(theirs, thresholds))
    good = (recall >= demands[0]) & (precision >= demands[1])
    if not good.any():
        reason = f"no threshold has recall {demands[0]:g} and precision {demands[1]:g}"
        return EvenThreshold(None, reason)
    tried = thresholds[good]
    gaps = np.stack([_gaps(scores, labels, mask, tried) for mask in masks.values()])
    widest = gaps.max(axis=0)
    best = int(np.lexsort((-precision[good], widest))[0])
    return EvenThreshold(
        float(tried[best]),
        None,
        float(widest[best]),
        list(masks)[int(gaps[:, best].argmax())],
        float(recall[good][best]),
        float(precision[good][best]),
    )


def _rates(scores: Floats, thresholds: Floats) -> Floats:
    """Return the share of scores at or above each threshold; 0 without scores."""
    below = np.searchsorted(np.sort(scores), thresholds, side="left")
    return np.asarray((scores.size - below) / max(scores.size, 1))


def _gaps(scores: Floats, labels: Bools, mask: Bools, thresholds: Floats) -> Floats:
    both = [
        np.abs(_rates(scores[cell & mask], thresholds) - _rates(scores[cell], thresholds))
        for cell in (labels, ~labels)
    ]
    return np.asarray(np.maximum(*both))


RATES = ("false_positive_rate", "false_negative_rate")
ALL = "all"


@aligned
def rate_changes(
    y_true: npt.ArrayLike,
    flagged_before: npt.ArrayLike,
    flagged_after: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    clusters: npt.NDArray[np.integer] | None = None,
    confidence: float = 0.95,
) -> dict[str, dict[str, MetricValue]]:
    """Return how much the error rates of all rows and of each subgroup change.

    Rows are paired: only those on which the two decisions differ count. What was flagged is taken
    as given, so the interval does not say how a threshold was chosen.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    flagged_before, flagged_after : bool array of shape (n,)
        The decisions of both models.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    clusters : int array of shape (n,), optional
        Rows of one cluster are not independent. Default: each row is one of its own.
    confidence : float
        Level of the intervals.

    Returns
    -------
    dict of str to dict of str to MetricValue
        For `all` and each subgroup, the false positive and the false negative rate after minus
        before; above 0 is worse. Undefined without rows of the class; with one cluster, without
        an interval.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`.

    Examples
    --------
    >>> gay = {"gay": [1, 1, 1, 1, 0]}
    >>> found = rate_changes([0, 0, 0, 0, 1], [1, 1, 0, 0, 1], [0, 1, 0, 0, 1], gay)
    >>> found["gay"]["false_positive_rate"].value
    -0.25
    """
    labels = check_mask("y_true", y_true)
    before = check_mask("flagged_before", flagged_before, labels.size)
    after = check_mask("flagged_after", flagged_after, labels.size)
    masks = {ALL: np.ones(labels.size, dtype=np.bool_), **check_subgroups(subgroups, labels.size)}
    level = check_share("confidence", confidence)
    of_row = np.arange(labels.size) if clusters is None else np.asarray(clusters)
    change = (after != labels).astype(float) - (before != labels)
    return {
        name: {
            rate: _mean(change[mask & of], of_row[mask & of], level)
            for rate, of in zip(RATES, (~labels, labels), strict=True)
        }
        for name, mask in masks.items()
    }


def _mean(
    values: npt.NDArray[np.floating], of_row: npt.NDArray[np.integer], level: float
) -> MetricValue:
    if not values.size:
        return undefined("no rows of the class")
    mean = float(values.mean())
    sums = np.bincount(np.unique(of_row, return_inverse=True)[1], weights=values - mean)
    n = sums.size
    if n == 1:
        return MetricValue(mean, reason="one cluster tells nothing about the spread of clusters")
    error = math.sqrt(float((sums**2).sum()) * n / (n - 1)) / values.size
    reach = student_quantile(level, n - 1) * error
    return MetricValue(mean, std_error=error, low=mean - reach, high=mean + reach)
