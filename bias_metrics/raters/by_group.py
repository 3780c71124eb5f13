"""The bias metrics by the labels of each group of raters: `rater_group_bias`."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    aligned,
    check_choice,
    check_clusters,
    check_mask,
    check_scores,
    check_subgroups,
)
from bias_metrics._core.differences import Difference, symmetric, undefined_difference
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.packed import Subgroups
from bias_metrics.raters.expected import Key
from bias_metrics.raters.group_results import GroupLabels, RaterGroupReport
from bias_metrics.raters.voted import Ballots, Voted, VotedNumber
from bias_metrics.rows import BACKGROUNDS, Background


@aligned
def rater_group_bias(
    comment: npt.ArrayLike,
    vote: npt.ArrayLike,
    rater_group: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    rater: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> RaterGroupReport:
    """Measure the bias of one classifier by the labels of each group of raters.

    A model may agree with one group of raters and not with another. For each group, each comment
    is toxic with the share of that group's raters who say so, as in the `expected` reading of
    `label_noise`: so groups of different sizes can be compared. Comments that a group did not
    rate are left out of its numbers. Differences of two groups are measured on the comments that
    both rated.

    Parameters
    ----------
    comment : int array of shape (v,)
        For each vote, the row number of its comment in `y_score`, from 0.
    vote : bool array of shape (v,)
        True for toxic.
    rater_group : array of shape (v,)
        Group of the rater, of any type.
    y_score : float array of shape (n,)
        Finite score of each comment; only their order counts.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup of comments.
    rater : array of shape (v,), optional
        Who voted. With it, intervals allow for raters who are strict or mild on all of their
        comments, and stand for other raters of the same group; fewer than 20 raters in a group
        have no interval. Without it, votes on different comments are taken as independent.
    confidence : float, default=0.95
        Confidence of each interval.
    clusters : array of shape (n,), optional
        Article, thread or template of each comment.
    background : {"outside_subgroup", "no_identity"}, default="outside_subgroup"
        As in `evaluate_bias`.

    Returns
    -------
    RaterGroupReport
        By group, in order of first appearance: counts, the overall AUC and the five metrics of
        each subgroup; and for each pair of groups the differences, the first minus the second.

    Raises
    ------
    ValueError
        If a length differs, a comment is not a row number, a vote is not 0 or 1, a name is
        missing, a rater is in two groups or votes twice on a comment, or as `evaluate_bias`.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    The variance is that of votes clustered by comment and by rater at once: the sum of the
    two clustered variances less that of single votes, and at least the variance by comment.

    References
    ----------
    Cameron, Gelbach and Miller (2011), Journal of Business and Economic Statistics 29 (clusters
    that cross). Davani, Diaz and Prabhakaran (2022), Transactions of the Association for
    Computational Linguistics 10 (labels by rater).

    Examples
    --------
    >>> comment = [0, 0, 1, 1, 2, 2, 3, 3] * 2
    >>> vote = [0, 0, 0, 1, 1, 0, 1, 1] + [0, 0, 1, 1, 0, 0, 1, 1]
    >>> groups = ["a"] * 8 + ["b"] * 8
    >>> found = rater_group_bias(comment, vote, groups, [0.1, 0.3, 0.6, 0.9], {})
    >>> round(found.groups["a"].numbers[None, "auc"].value, 3)
    0.929
    >>> round(found.differences["a", "b"][None, "auc"].value, 3)
    0.179
    """
    scores = check_scores("y_score", y_score)
    masks = check_subgroups(subgroups, scores.size, like="y_score")
    level = check_confidence(confidence)
    codes = check_clusters(clusters, scores.size)
    check_choice("background", background, BACKGROUNDS)
    votes = check_mask("vote", vote)
    rows = _check_comments(comment, votes.size, scores.size)
    names, of_vote = _names("rater_group", rater_group, votes.size)
    raters = None if rater is None else _check_raters(rater, rows, of_vote, scores.size)
    ballots = [
        Ballots(rows[mine], votes[mine], None if raters is None else raters[mine])
        for mine in (of_vote == code for code in range(len(names)))
    ]
    voted = Voted(scores, masks, codes, background, level)
    groups = {
        name: _labels(one, {key: number.measured for key, number in voted.numbers(one).items()})
        for name, one in zip(names, ballots, strict=True)
    }
    differences = {}
    for first, second in combinations(range(len(names)), 2):
        both = np.intersect1d(ballots[first].comment, ballots[second].comment)
        a, b = (voted.numbers(ballots[one].on(both)) for one in (first, second))
        differences[names[first], names[second]] = {
            key: _difference(a[key], b[key], level) for key in a
        }
    return RaterGroupReport(groups, differences)


def _labels(ballots: Ballots, numbers: dict[Key, Any]) -> GroupLabels:
    return GroupLabels(
        n_comments=int(np.unique(ballots.comment).size),
        n_votes=int(ballots.vote.size),
        n_raters=None if ballots.rater is None else int(np.unique(ballots.rater).size),
        toxic=float(ballots.vote.mean()),
        numbers=numbers,
    )


def _difference(a: VotedNumber, b: VotedNumber, confidence: float) -> Difference:
    """Return the difference of the same number by the labels of two groups."""
    if a.measured.low is None or b.measured.low is None:
        return undefined_difference(a.measured, b.measured)
    error, freedom = a.apart(b)
    return symmetric(a.measured, b.measured, error, confidence, freedom)


def _check_comments(comment: npt.ArrayLike, n_votes: int, n: int) -> npt.NDArray[np.intp]:
    known = check_scores("comment", comment, n_votes, like="vote")
    wrong = np.flatnonzero((known < 0) | (known >= n) | (known != np.floor(known)))
    if wrong.size:
        msg = (
            f"`comment` must be row numbers of `y_score`, from 0 to {n - 1}; got "
            f"{known[wrong[0]]:g} (row {wrong[0]})."
        )
        raise ValueError(msg)
    return known.astype(np.intp)


def _names(name: str, values: npt.ArrayLike, n: int) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Return the distinct values as text, in order of appearance, and the number of each."""
    array = np.asarray(values)
    codes = check_clusters(values, n, name=name, like="vote")
    assert codes is not None  # noqa: S101
    first, again = np.unique(codes, return_index=True, return_inverse=True)[1:]
    order = np.argsort(first)
    places = np.empty(order.size, dtype=np.intp)
    places[order] = np.arange(order.size)
    return [str(array[first[one]]) for one in order], places[again]


def _check_raters(
    rater: npt.ArrayLike,
    comment: npt.NDArray[np.intp],
    group: npt.NDArray[np.intp],
    n: int,
) -> npt.NDArray[np.intp]:
    names, codes = _names("rater", rater, comment.size)
    pairs = np.unique(np.stack([codes, group]), axis=1)[0]
    twice = np.flatnonzero(np.bincount(pairs, minlength=len(names)) > 1)
    if twice.size:
        msg = f"`rater` must be in one group; got {names[twice[0]]!r} in two."
        raise ValueError(msg)
    _, first = np.unique(codes * n + comment, return_index=True)
    if first.size < codes.size:
        row = int(np.setdiff1d(np.arange(codes.size), first)[0])
        msg = (
            f"`rater` must vote once on each comment; got {names[codes[row]]!r} again on comment "
            f"{comment[row]} (row {row})."
        )
        raise ValueError(msg)
    return codes
