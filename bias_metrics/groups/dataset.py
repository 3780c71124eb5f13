"""What a model could learn from a data set: how often toxic comments mention each identity.

Describes labels and memberships, without any scores. Every share comes with the counts that it is
computed from; rows count once each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, aligned, check_mask, check_scores, check_subgroups
from bias_metrics._core.packed import Subgroups
from bias_metrics.groups.counts import (
    IdentityCounts,
    LengthBucket,
    TermFrequencies,
    TermFrequency,
    ToxicityByLength,
    ToxicRows,
    ratio,
)

IntArray = npt.NDArray[np.int64]


@aligned
def identity_counts(y_true: npt.ArrayLike, subgroups: Subgroups) -> IdentityCounts:
    """Count the comments that mention each identity, and the percentage that is toxic.

    No value is ideal in itself. If comments that mention an identity are toxic more often than
    others, a model may take the identity for a sign of toxicity; with few rows of a class, the
    identity cannot be measured. Not to be confused with `term_frequencies`, the share of toxic
    comments that mention it.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class. Threshold label fractions with `>= 0.5`.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each identity; they may overlap.

    Returns
    -------
    IdentityCounts
        Counts, and percentages from 0 to 100, undefined for an identity without rows.

    Raises
    ------
    ValueError
        If a length differs, or a label or membership is not 0 or 1.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    Borkan et al. (2019), Table 5.

    Examples
    --------
    >>> counts = identity_counts([0, 1, 1, 0], {"muslim": [1, 1, 0, 0]})
    >>> counts.identities["muslim"].n, counts.identities["muslim"].percent_toxic.value
    (2, 50.0)
    """
    labels = check_mask("y_true", y_true)
    masks = check_subgroups(subgroups, labels.size)
    return IdentityCounts(
        _toxic_rows(labels), {name: _toxic_rows(labels[mask]) for name, mask in masks.items()}
    )


@aligned
def term_frequencies(y_true: npt.ArrayLike, mentions: Subgroups) -> TermFrequencies:
    """Compare how often a term is used in toxic comments and in all comments.

    A ratio above 1 means that toxic comments use the term more often than comments in
    general: a model trained on them may learn that the term itself is toxic, and over-flag
    harmless comments with it. The ratio equals the percentage of toxic comments among those
    with the term, divided by the percentage among all.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class. Threshold label fractions with `>= 0.5`.
    mentions : mapping of str to bool array of shape (n,), or data frame
        For each term, which comments contain it; a comment may contain several terms.

    Returns
    -------
    TermFrequencies
        Shares from 0 to 1 and the ratio, at least 0, ideal 1. The share of toxic comments
        and the ratio are undefined without toxic rows; the ratio also for a term that is
        never used.

    Raises
    ------
    ValueError
        If a length differs, or a label or membership is not 0 or 1.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    Dixon et al. (2018), Measuring and Mitigating Unintended Bias in Text Classification,
    Table 1.

    Examples
    --------
    >>> found = term_frequencies([1, 1, 0, 0, 0, 0], {"gay": [1, 0, 1, 0, 0, 0]}).terms["gay"]
    >>> found.share_of_toxic.value, round(found.share_of_all.value, 4), found.ratio.value
    (0.5, 0.3333, 1.5)
    """
    labels = check_mask("y_true", y_true)
    masks = check_subgroups(mentions, labels.size, name="mentions")
    overall = _toxic_rows(labels)
    counts = {name: _toxic_rows(labels[mask]) for name, mask in masks.items()}
    return TermFrequencies(
        overall, {name: _frequency(rows, overall) for name, rows in counts.items()}
    )


@aligned
def toxicity_by_length(
    y_true: npt.ArrayLike,
    lengths: npt.ArrayLike,
    mentions: Subgroups,
    *,
    edges: Sequence[int],
) -> ToxicityByLength:
    """Percentage of toxic comments by length, for all and for those with each term.

    Toxic comments tend to be short. If a term's percentage is far above that of all comments
    of the same length, a model that knows the length still has reason to take the term for
    toxic. A term that is balanced over all lengths together need not be balanced at each.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class. Threshold label fractions with `>= 0.5`.
    lengths : int array of shape (n,)
        Characters of each comment, at least 0.
    mentions : mapping of str to bool array of shape (n,), or data frame
        For each term, which comments contain it.
    edges : sequence of int
        Where buckets begin, ascending, each at least 1. There is one more bucket below the
        first edge and one from the last edge on, so no row is dropped. Dixon et al. show 20-59,
        60-179, 180-539, 540-1619 and 1620-4859: edges 20, 60, 180, 540, 1620, 4860.

    Returns
    -------
    ToxicityByLength
        `len(edges) + 1` buckets, with counts and percentages from 0 to 100, which are
        undefined without rows.

    Raises
    ------
    ValueError
        If an array's length differs, a label or membership is not 0 or 1, a length is
        negative or not whole, or `edges` do not ascend.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    Dixon et al. (2018), Figure 1.

    Examples
    --------
    >>> short, long = toxicity_by_length(
    ...     [1, 1, 0, 0], [15, 30, 40, 700], {"gay": [1, 0, 1, 0]}, edges=[180]
    ... ).buckets
    >>> round(short.overall.percent_toxic.value, 1), short.terms["gay"].percent_toxic.value
    (66.7, 50.0)
    >>> long.terms["gay"].percent_toxic.to_dict()
    {'value': None, 'reason': 'no rows'}
    """
    labels = check_mask("y_true", y_true)
    characters = _checked_lengths(lengths, labels.size)
    masks = check_subgroups(mentions, labels.size, name="mentions")
    starts = [0, *_checked_edges(edges)]
    bucket_of = np.searchsorted(starts, characters, side="right") - 1

    def by_bucket(rows: BoolArray) -> list[ToxicRows]:
        n = np.bincount(bucket_of[rows], minlength=len(starts))
        n_positive = np.bincount(bucket_of[rows & labels], minlength=len(starts))
        return [ToxicRows(*pair) for pair in zip(n.tolist(), n_positive.tolist(), strict=True)]

    overall = by_bucket(np.ones_like(labels))
    terms = {name: by_bucket(mask) for name, mask in masks.items()}
    return ToxicityByLength(
        tuple(
            LengthBucket(start, stop, overall[i], {name: rows[i] for name, rows in terms.items()})
            for i, (start, stop) in enumerate(zip(starts, [*starts[1:], None], strict=True))
        )
    )


def _frequency(rows: ToxicRows, overall: ToxicRows) -> TermFrequency:
    toxic = "no toxic rows" if overall.n_positive == 0 else None
    unused = "no rows with the term" if rows.n == 0 else None
    return TermFrequency(
        rows.n,
        rows.n_positive,
        share_of_toxic=ratio(rows.n_positive, overall.n_positive, "no toxic rows"),
        share_of_all=ratio(rows.n, overall.n, "no rows"),
        ratio=ratio(
            rows.n_positive * overall.n,
            rows.n * overall.n_positive,
            " and ".join(filter(None, [toxic, unused])),
        ),
    )


def _toxic_rows(labels: BoolArray) -> ToxicRows:
    return ToxicRows(labels.size, int(np.count_nonzero(labels)))


def _checked_lengths(lengths: npt.ArrayLike, n: int) -> IntArray:
    array = check_scores("lengths", lengths, n)
    wrong = np.flatnonzero((array < 0) | (array != np.floor(array)))
    if wrong.size:
        row = wrong[0]
        msg = f"`lengths` must be whole numbers of at least 0; got {array[row]:g} (row {row})."
        raise ValueError(msg)
    return array.astype(np.int64)


def _checked_edges(edges: Sequence[int]) -> list[int]:
    starts = [int(edge) for edge in edges]
    ascending = all(low < high for low, high in pairwise([0, *starts]))
    if not ascending or starts != list(edges):
        msg = f"`edges` must be whole numbers that ascend from at least 1; got {list(edges)}."
        raise ValueError(msg)
    return starts
