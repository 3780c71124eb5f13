"""Which rows of a pool bring the labels of every term, at every length, to the prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_mask, check_rng
from bias_metrics._core.index import refuse_misaligned
from bias_metrics._core.tables import Row, Tabular

IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True)
class BalancedCell:
    """What was added for one term in one bucket."""

    term: int  # term, bucket: positions
    bucket: int
    n: int  # n, n_positive: rows and toxic rows before
    n_positive: int
    prior: float  # Share of toxic rows of the bucket before, which is wanted for the term too
    needed: int  # Rows that would bring the term to the prior
    # Rows with the term that were added; more than needed where they were added for another.
    added: int
    lacking: int  # Rows that the pool did not have
    share_after: float  # Share of toxic rows with the term after


@dataclass(frozen=True)
class PoolChoice(Tabular):
    """The chosen rows of a pool."""

    chosen: IntArray
    """(m,): Positions in the pool, in the order in which they were chosen."""
    cells: tuple[BalancedCell, ...]
    """One for each term and bucket with rows."""

    @property
    def lacking(self) -> list[BalancedCell]:
        """The cells that the pool could not fill."""
        return [cell for cell in self.cells if cell.lacking]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"n_chosen": int(self.chosen.size), "cells": self.rows()}

    def rows(self) -> list[Row]:
        """Return one record per cell."""
        return [dict(vars(cell)) for cell in self.cells]


def balance_with_pool(
    y_true: npt.ArrayLike,
    buckets: npt.ArrayLike,
    mentions: npt.NDArray[np.bool_],
    pool_buckets: npt.ArrayLike,
    pool_mentions: npt.NDArray[np.bool_],
    *,
    rng: np.random.Generator,
) -> PoolChoice:
    """Choose non-toxic rows from a pool until each term is as toxic as its bucket.

    In every bucket of length the prior is the share of toxic rows before anything is added. The
    term that needs most rows gets the next one. A row with several terms counts for all of
    them, so rows with the fewest terms are taken first. Terms below the prior get no rows.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for toxic rows.
    buckets : int array of shape (n,)
        Bucket of length of each row, from 0.
    mentions : bool array of shape (n, k)
        Which rows contain which term.
    pool_buckets : int array of shape (m,)
        Bucket of each row of the pool.
    pool_mentions : bool array of shape (m, k)
        Which rows of the pool contain which term.
    rng : numpy Generator
        Decides among rows that are as good.

    Returns
    -------
    PoolChoice
        The rows, and for each term and bucket how far the pool went.

    Raises
    ------
    ValueError, TypeError
        If an array has another shape or type.

    References
    ----------
    Dixon et al. (2018), section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> gay = np.array([[1], [1], [0], [0], [0], [0], [0], [0]], bool)
    >>> found = balance_with_pool(
    ...     [1, 0, 1, 0, 0, 0, 0, 0], [0] * 8, gay, [0] * 9, np.ones((9, 1), bool),
    ...     rng=np.random.default_rng(0),
    ... )
    >>> found.chosen.size, found.cells[0].share_after
    (2, 0.25)
    """
    refuse_misaligned({"y_true": y_true, "buckets": buckets, "mentions": mentions})
    refuse_misaligned({"pool_buckets": pool_buckets, "pool_mentions": pool_mentions})
    mentions, pool_mentions = np.asarray(mentions), np.asarray(pool_mentions)
    labels = check_mask("y_true", y_true)
    rng = check_rng(rng)
    own = check_buckets("buckets", buckets, mentions)
    theirs = check_buckets("pool_buckets", pool_buckets, pool_mentions)
    if mentions.shape[1] != pool_mentions.shape[1]:
        msg = (
            "`pool_mentions` must have a column for each of the terms; got "
            f"{pool_mentions.shape[1]}, and `mentions` has {mentions.shape[1]}."
        )
        raise ValueError(msg)
    chosen: list[int] = []
    cells: list[BalancedCell] = []
    for bucket in np.unique(own):
        inside = own == bucket
        rows = np.flatnonzero(theirs == bucket)
        rows = rng.permutation(rows)
        rows = rows[np.argsort(pool_mentions[rows].sum(axis=1), kind="stable")]
        state = _Bucket(labels[inside], mentions[inside])
        chosen += state.fill(rows, pool_mentions)
        cells += state.cells(int(bucket))
    return PoolChoice(np.array(chosen, dtype=np.intp), tuple(cells))


def rows_to_balance(n: int, n_positive: int, prior: float) -> int:
    """Return how many rows labelled non-toxic bring a share of toxic rows down to a prior.

    Parameters
    ----------
    n : int
        Rows that there are.
    n_positive : int
        The toxic ones among them.
    prior : float
        The share that is wanted, above 0 and at most 1.

    Returns
    -------
    int
        The smallest m of at least 0 with n_positive / (n + m) <= prior.

    Examples
    --------
    >>> rows_to_balance(10, 4, 0.1)
    30
    """
    excess = n_positive - prior * n
    return math.ceil(excess / prior - 1e-9) if excess > 1e-9 else 0


class _Bucket:
    """The counts of each term in one bucket while rows are added."""

    def __init__(self, labels: npt.NDArray[np.bool_], mentions: npt.NDArray[np.bool_]) -> None:
        self._prior = float(labels.mean())
        self._n, self._positive = mentions.sum(axis=0), mentions[labels].sum(axis=0)
        self._added = np.zeros_like(self._n)
        self._first = [self._need(term) for term in range(self._n.size)]

    def _need(self, term: int) -> int:
        n = int(self._n[term] + self._added[term])
        return rows_to_balance(n, int(self._positive[term]), self._prior)

    def fill(self, rows: IntArray, pool_mentions: npt.NDArray[np.bool_]) -> list[int]:
        """Take rows in their order until no term needs one that is there."""
        need = {term: n for term, n in enumerate(self._first) if n}
        left = {term: iter(rows[pool_mentions[rows, term]].tolist()) for term in need}
        chosen: dict[int, None] = {}
        while need:
            term = max(need, key=lambda one: (need[one], -one))
            row = next((one for one in left[term] if one not in chosen), None)
            if row is None:
                del need[term]
                continue
            chosen[row] = None
            self._added += pool_mentions[row]
            need = {one: n for one in need if (n := self._need(one))}
        return list(chosen)

    def cells(self, bucket: int) -> list[BalancedCell]:
        """Return what was added for each term that has rows."""
        found = []
        for term in np.flatnonzero(self._n).tolist():
            n, added = int(self._n[term]), int(self._added[term])
            positive = int(self._positive[term])
            needed, lacking, after = self._first[term], self._need(term), positive / (n + added)
            found.append(
                BalancedCell(term, bucket, n, positive, self._prior, needed, added, lacking, after)
            )
        return found


def check_buckets(name: str, values: npt.ArrayLike, mentions: npt.NDArray[np.bool_]) -> IntArray:
    """Return buckets as whole numbers; refuse others, and another number than of rows."""
    found = np.asarray(values)
    if mentions.ndim != 2 or found.shape != mentions.shape[:1]:
        msg = f"`{name}` must have one value for each row of its mentions; got {found.shape}."
        raise ValueError(msg)
    if found.size and (found.dtype.kind not in "iu" or found.min() < 0):
        msg = f"`{name}` must be whole numbers of at least 0; got {found.dtype}."
        raise ValueError(msg)
    return found.astype(np.intp)
