"""Pinned AUC of Dixon et al. (2018): report it, never gate on it.

Part of the Python interface only; docs/reproduce uses it for published numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import describe_empty_classes, measure_pair_auc
from bias_metrics._core.checks import (
    BoolArray,
    FloatArray,
    check_choice,
    check_mask,
    check_rng,
    check_scores,
    check_subgroups,
)
from bias_metrics._core.index import require_aligned
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.ranks import SortedClasses, count_doubled_wins, sort_classes, sort_scores
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.thresholds.dixon import EqualityDifference
from bias_metrics.thresholds.errors import sort_subgroup


@require_aligned
def pinned_auc(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    in_subgroup: npt.ArrayLike,
    *,
    method: str = "exact",
    sample_from: str = "all",
    rng: np.random.Generator | None = None,
) -> MetricValue:
    """AUC of a mixture of the subgroup (one half) and all rows (the other half).

    A low value means that the model ranks rows of the subgroup badly among others. **It is not
    robust to class skew: a subgroup with another share of positives than the rest gets a
    different value even if the scores are the same in both classes (Borkan et al. 2019b). Report
    it, never gate on it;** `bpsn_auc`, `bnsp_auc` and `subgroup_auc` are more informative. A shift
    of the whole subgroup also changes the value of the *other* subgroups.

    Exact form: with m rows in the subgroup and n in total, a row of the subgroup has weight
    1/m + 1/n and any other row 1/n. The value is P(pos > neg) + P(equal) / 2, the limit of the
    sampled form.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    in_subgroup : bool array of shape (n,)
        True for the subgroup's rows.
    method : {"exact", "sampled"}, default="exact"
        `sampled` is the published form: the subgroup's rows and an equal number of sampled rows,
        without replacement unless too few rows exist.
    sample_from : {"all", "background"}, default="all"
        Source of the other half: all rows, as in the paper of Dixon et al., or the rows outside the
        subgroup, as in their reference code.
    rng : numpy.random.Generator, optional
        Required for `sampled`. The result does not depend on the order of the rows.

    Returns
    -------
    MetricValue
        In [0, 1], ideal 1; undefined without subgroup rows or rows to mix them with, and
        if the mixture lacks a class.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if an option has another value, or `rng` is not a Generator for
        `sampled`.

    References
    ----------
    Dixon et al. (2018), equations 3 and 4. Borkan et al. (2019b), Limitations of Pinned AUC
    for Measuring Unintended Bias, arXiv:1903.02088.

    Examples
    --------
    >>> pinned_auc([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.9], [0, 1, 0, 1]).value
    0.8125
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = {"subgroup": check_mask("in_subgroup", in_subgroup, labels.size)}
    return _measure_groups(labels, scores, masks, method, sample_from, rng).subgroups["subgroup"]


@require_aligned
def pinned_auc_equality_difference(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    method: str = "exact",
    sample_from: str = "all",
    rng: np.random.Generator | None = None,
) -> EqualityDifference:
    """Sum over subgroups g of abs(AUC - pinned AUC of g), with the AUC of all rows.

    The caveats of `pinned_auc` and of sums of absolute values (`fped`) apply: never gate on it.

    Parameters
    ----------
    y_true, y_score, subgroups
        As in `fped`.
    method, sample_from, rng : optional
        As in `pinned_auc`; subgroups draw from `rng` in the order given.

    Returns
    -------
    EqualityDifference
        The value, 0 or more, ideal 0; its terms; the AUC of all rows and the pinned AUCs.
        Undefined if an AUC is undefined, or without subgroups.

    Raises
    ------
    ValueError, TypeError
        As `pinned_auc`.

    References
    ----------
    Dixon et al. (2018), equation 5. Its Table 5 sums over 50 terms *and* 10 trained models.

    Examples
    --------
    >>> result = pinned_auc_equality_difference(
    ...     [0, 0, 1, 1], [0.1, 0.6, 0.5, 0.9], {"gay": [0, 1, 0, 1], "tall": [1, 0, 1, 0]}
    ... )
    >>> result.overall.value, result.value.value
    (0.75, 0.125)
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    return _measure_groups(labels, scores, masks, method, sample_from, rng)


def _measure_groups(
    labels: BoolArray,
    scores: FloatArray,
    masks: Mapping[str, BoolArray],
    method: str,
    sample_from: str,
    rng: np.random.Generator | None,
) -> EqualityDifference:
    """Sort all rows once, then measure each subgroup."""
    is_sampled = check_choice("method", method, ("exact", "sampled")) == "sampled"
    from_all = check_choice("sample_from", sample_from, ("all", "background")) == "all"
    all_rows = sort_classes(labels, scores)
    groups = {name: sort_subgroup(labels, scores, mask) for name, mask in masks.items()}
    overall = measure_pair_auc(all_rows.negative, all_rows.positive, uncertain=False).compute_value(
        None
    )
    if is_sampled:
        generator = check_rng(rng)
        others = dict.fromkeys(masks, all_rows)
        if not from_all:
            others = {name: sort_subgroup(labels, scores, ~mask) for name, mask in masks.items()}
        pinned = {
            name: _compute_sampled(own, others[name], generator) for name, own in groups.items()
        }
    else:
        wins = int(count_doubled_wins(all_rows.negative, all_rows.positive))
        pinned = {
            name: _compute_exact(all_rows, own, wins, from_all=from_all)
            for name, own in groups.items()
        }
    return EqualityDifference(overall, pinned)


def _compute_sampled(
    own: SortedClasses, others: SortedClasses, rng: np.random.Generator
) -> MetricValue:
    """Return the AUC of the subgroup's rows and as many rows sampled from the others."""
    n_own, n_others = own.positive.n + own.negative.n, others.positive.n + others.negative.n
    if lack := describe_empty_classes(subgroup_rows=n_own, background_rows=n_others):
        return make_undefined(lack)
    # Indices of sorted rows, positives first, so that the order of the input does not matter.
    indices = rng.choice(n_others, size=n_own, replace=n_own > n_others)
    is_positive = indices < others.positive.n
    halves = (
        (own.positive.scores, others.positive.scores[indices[is_positive]]),
        (own.negative.scores, others.negative.scores[indices[~is_positive] - others.positive.n]),
    )
    mixture = SortedClasses(*(sort_scores(np.concatenate(half)) for half in halves))
    return measure_pair_auc(mixture.negative, mixture.positive, uncertain=False).compute_value(None)


def _compute_exact(
    all_rows: SortedClasses, own: SortedClasses, all_wins: int, *, from_all: bool
) -> MetricValue:
    """Return the exact form from pair counts: within the subgroup, across, and within the others.

    A row of the subgroup counts `n_others`, and a row of the other half `n_own`. Both halves then
    have the same weight, and every number is an integer.
    """
    n_pos, n_neg = own.positive.n, own.negative.n
    others_pos, others_neg = all_rows.positive.n, all_rows.negative.n
    inside = int(count_doubled_wins(own.negative, own.positive))
    across = int(
        count_doubled_wins(all_rows.negative, own.positive)
        + 2 * others_pos * n_neg
        - count_doubled_wins(all_rows.positive, own.negative)
    )
    within = all_wins
    if not from_all:  # remove the pairs of the subgroup's own rows from the other half
        across -= 2 * inside
        within -= across + inside
        others_pos, others_neg = others_pos - n_pos, others_neg - n_neg
    n_own, n_others = n_pos + n_neg, others_pos + others_neg
    if lack := describe_empty_classes(subgroup_rows=n_own, background_rows=n_others):
        return make_undefined(lack)
    positives = n_others * n_pos + n_own * others_pos
    negatives = n_others * n_neg + n_own * others_neg
    if lack := describe_empty_classes(negatives=negatives, positives=positives):
        return make_undefined(lack)
    wins = n_others**2 * inside + n_others * n_own * across + n_own**2 * within
    return MetricValue(wins / (2 * positives * negatives))
