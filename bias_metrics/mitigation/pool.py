"""Choice of rows from a pool that bring the labels of every term, at every length, to the prior."""

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
    """The rows added for a term in a bucket."""

    term: int  # term, bucket: positions
    bucket: int
    n: int  # n, n_positive: rows and toxic rows before
    n_positive: int
    prior: float  # Share of toxic rows of the bucket before, the target for the term
    needed: int  # Rows that would bring the term to the prior
    added: int  # Rows with the term; may exceed `needed` if added for another term
    lacking: int  # Rows that the pool did not have
    share_after: float  # Share of toxic rows with the term after


@dataclass(frozen=True)
class PoolChoice(Tabular):
    """The chosen rows of a pool."""

    chosen: IntArray
    """(m,): positions in the pool, in the order of choice."""
    cells: tuple[BalancedCell, ...]
    """A cell for each term and bucket with rows."""

    @property
    def unfilled_cells(self) -> list[BalancedCell]:
        """The cells that the pool could not fill."""
        return [cell for cell in self.cells if cell.lacking]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"n_chosen": int(self.chosen.size), "cells": self.rows()}

    def rows(self) -> list[Row]:
        """Return a record per cell."""
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

    The prior of a bucket of lengths is its share of toxic rows before the addition. The term that
    needs the most rows gets the next row. A row counts for each of its terms, so rows with the
    fewest terms are taken first. Terms below the prior get no rows.

    `mentions` and `pool_mentions` have a column per term, and a row per row or row of the pool;
    `buckets` and `pool_buckets` have their length buckets, from 0. `rng` breaks ties among equally
    suitable rows.

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
    >>> choice = balance_with_pool(
    ...     [1, 0, 1, 0, 0, 0, 0, 0], [0] * 8, gay, [0] * 9, np.ones((9, 1), bool),
    ...     rng=np.random.default_rng(0),
    ... )
    >>> choice.chosen.size, choice.cells[0].share_after
    (2, 0.25)
    """
    refuse_misaligned({"y_true": y_true, "buckets": buckets, "mentions": mentions})
    refuse_misaligned({"pool_buckets": pool_buckets, "pool_mentions": pool_mentions})
    mentions, pool_mentions = np.asarray(mentions), np.asarray(pool_mentions)
    labels = check_mask("y_true", y_true)
    rng = check_rng(rng)
    checked_buckets = check_buckets("buckets", buckets, mentions)
    checked_pool = check_buckets("pool_buckets", pool_buckets, pool_mentions)
    if mentions.shape[1] != pool_mentions.shape[1]:
        msg = (
            "`pool_mentions` must have a column for each of the terms; got "
            f"{pool_mentions.shape[1]}, and `mentions` has {mentions.shape[1]}."
        )
        raise ValueError(msg)
    chosen: list[int] = []
    cells: list[BalancedCell] = []
    for bucket in np.unique(checked_buckets):
        in_bucket = checked_buckets == bucket
        rows = np.flatnonzero(checked_pool == bucket)
        rows = rng.permutation(rows)
        rows = rows[np.argsort(pool_mentions[rows].sum(axis=1), kind="stable")]
        state = _BucketState(labels[in_bucket], mentions[in_bucket])
        chosen += state.choose_rows(rows, pool_mentions)
        cells += state.list_cells(int(bucket))
    return PoolChoice(np.array(chosen, dtype=np.intp), tuple(cells))


def count_balancing_rows(n: int, n_positive: int, prior: float) -> int:
    """Return the number of non-toxic rows that lowers a share of toxic rows to a prior.

    The `prior` is above 0 and at most 1. The result is the smallest m of at least 0 with
    n_positive / (n + m) <= prior.

    Examples
    --------
    >>> count_balancing_rows(10, 4, 0.1)
    30
    """
    excess = n_positive - prior * n
    return math.ceil(excess / prior - 1e-9) if excess > 1e-9 else 0


class _BucketState:
    """The counts by term in a bucket while rows are added."""

    def __init__(self, labels: npt.NDArray[np.bool_], mentions: npt.NDArray[np.bool_]) -> None:
        self._prior = float(labels.mean())
        self._n, self._positive = mentions.sum(axis=0), mentions[labels].sum(axis=0)
        self._added = np.zeros_like(self._n)
        self._needed = [self._count_needed(term) for term in range(self._n.size)]

    def _count_needed(self, term: int) -> int:
        n = int(self._n[term] + self._added[term])
        return count_balancing_rows(n, int(self._positive[term]), self._prior)

    def choose_rows(self, rows: IntArray, pool_mentions: npt.NDArray[np.bool_]) -> list[int]:
        """Choose rows in their order until no term needs a row that the pool has."""
        needed = {term: n for term, n in enumerate(self._needed) if n}
        candidates = {term: iter(rows[pool_mentions[rows, term]].tolist()) for term in needed}
        chosen: dict[int, None] = {}
        while needed:
            neediest = max(needed, key=lambda term: (needed[term], -term))
            row = next((row for row in candidates[neediest] if row not in chosen), None)
            if row is None:
                del needed[neediest]
                continue
            chosen[row] = None
            self._added += pool_mentions[row]
            needed = {term: n for term in needed if (n := self._count_needed(term))}
        return list(chosen)

    def list_cells(self, bucket: int) -> list[BalancedCell]:
        """Return a cell for each term with rows."""
        cells = []
        for term in np.flatnonzero(self._n).tolist():
            n, added = int(self._n[term]), int(self._added[term])
            positive = int(self._positive[term])
            needed, lacking = self._needed[term], self._count_needed(term)
            share = positive / (n + added)
            cells.append(
                BalancedCell(term, bucket, n, positive, self._prior, needed, added, lacking, share)
            )
        return cells


def check_buckets(name: str, values: npt.ArrayLike, mentions: npt.NDArray[np.bool_]) -> IntArray:
    """Return buckets as integers; refuse other types, negative values and a wrong length."""
    buckets = np.asarray(values)
    if mentions.ndim != 2 or buckets.shape != mentions.shape[:1]:
        msg = f"`{name}` must have one value for each row of its mentions; got {buckets.shape}."
        raise ValueError(msg)
    if buckets.size and (buckets.dtype.kind not in "iu" or buckets.min() < 0):
        msg = f"`{name}` must be whole numbers of at least 0; got {buckets.dtype}."
        raise ValueError(msg)
    return buckets.astype(np.intp)
