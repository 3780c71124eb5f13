"""Which terms are labelled toxic more or less often than other comments of the same length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.packed import Subgroups
from bias_metrics._core.proportions import share_difference_interval
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.groups.counts import ToxicRows
from bias_metrics.groups.dataset import toxicity_by_length
from bias_metrics.report.jointly import adjust_benjamini_hochberg, adjust_holm


@dataclass(frozen=True)
class Imbalance:
    """The labels of the comments with a term, against those of the others."""

    term: str  # The term, or the identity that several terms name
    start: int  # The shortest length of the comments that are compared
    stop: int | None  # The first length that no longer belongs to them; None for the longest
    of_all_lengths: bool  # Whether this is about all comments, and not about one bucket
    rows: ToxicRows  # rows, others: comments with the term, and without it
    others: ToxicRows
    # Share of toxic comments with the term minus the share without, from -1 to 1, ideal 0.
    difference: MetricValue
    p_value: float | None  # Fisher's exact test, two-sided; None if the difference is undefined
    # p_holm, p_bh: the same, adjusted for all terms and buckets that were tested.
    p_holm: float | None = None
    p_bh: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        names = ("term", "start", "stop", "of_all_lengths")
        return {name: getattr(self, name) for name in names} | {
            "rows": self.rows.to_dict(),
            "others": self.others.to_dict(),
            "difference": self.difference.to_dict(interval=True),
            "p_value": self.p_value,
            "p_holm": self.p_holm,
            "p_bh": self.p_bh,
        }

    def record(self) -> Row:
        """Return one flat record."""
        return {
            "term": self.term,
            "start": self.start,
            "stop": self.stop,
            "of_all_lengths": self.of_all_lengths,
            "n": self.rows.n,
            "n_positive": self.rows.n_positive,
            "n_other": self.others.n,
            "n_positive_other": self.others.n_positive,
            "difference": self.difference.value,
            "low": self.difference.low,
            "high": self.difference.high,
            "p_value": self.p_value,
            "p_holm": self.p_holm,
            "p_bh": self.p_bh,
        }


@dataclass(frozen=True)
class LabelImbalance(Tabular):
    """All comparisons."""

    cells: tuple[Imbalance, ...]
    """Each term over all lengths, and in each bucket."""
    confidence: float
    """Level of the intervals."""

    def shown(self, level: float = 0.05) -> list[Imbalance]:
        """Return the cells whose difference is shown at a level, after Holm; the largest first."""
        found = [cell for cell in self.cells if cell.p_holm is not None and cell.p_holm <= level]
        return sorted(found, key=lambda imbalance: -abs(float(imbalance.difference)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"confidence": self.confidence, "cells": [cell.to_dict() for cell in self.cells]}

    def rows(self) -> list[Row]:
        """Return one record per cell."""
        return [cell.record() for cell in self.cells]


def label_imbalance(
    y_true: npt.ArrayLike,
    lengths: npt.ArrayLike,
    mentions: Subgroups,
    *,
    edges: Sequence[int],
    confidence: float = 0.95,
) -> LabelImbalance:
    """Compare how often comments with a term are toxic with other comments of their length.

    A positive difference means that a model has reason to take the term itself for toxic, even
    if it knows how long the comment is. Each term is compared over all lengths together and in
    each bucket. Not to be confused with `toxicity_by_length`, which describes the same counts and
    tests nothing.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    lengths : int array of shape (n,)
        Characters of each comment.
    mentions : mapping of str to bool array of shape (n,), or data frame
        For each term, which comments contain it.
    edges : sequence of int
        Where buckets begin, as in `toxicity_by_length`.
    confidence : float
        Level of the intervals, which are not adjusted for their number.

    Returns
    -------
    LabelImbalance
        Differences of shares, from -1 to 1, ideal 0, each with the union of Newcombe's and
        Agresti and Caffo's interval, and the p-value of Fisher's exact test, adjusted for all
        cells by Holm and by Benjamini and Hochberg. Undefined without comments with the term,
        or without others.

    Raises
    ------
    ValueError, TypeError
        As `toxicity_by_length`; and if `confidence` is not between 0 and 1.

    References
    ----------
    Dixon et al. (2018), section 4.2 and Figure 1. Fisher (1935), The Logic of Inductive
    Inference.

    Examples
    --------
    >>> found = label_imbalance(
    ...     [1, 1, 1, 0, 0, 0], [9] * 6, {"gay": [1, 1, 1, 0, 0, 0]}, edges=[20]
    ... ).cells[0]
    >>> found.term, found.difference.value, round(found.p_value, 3)
    ('gay', 1.0, 0.1)
    """
    if not 0 < confidence < 1:
        msg = f"`confidence` must be between 0 and 1; got {confidence}."
        raise ValueError(msg)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    by_length = toxicity_by_length(y_true, lengths, mentions, edges=edges).buckets
    cells = []
    for term in by_length[0].terms:
        whole = _summed([bucket.terms[term] for bucket in by_length])
        everything = _summed([bucket.overall for bucket in by_length])
        cells.append(_cell(term, 0, None, whole, everything, z, of_all_lengths=True))
        cells += [
            _cell(term, one.start, one.stop, one.terms[term], one.overall, z, of_all_lengths=False)
            for one in by_length
        ]
    return LabelImbalance(tuple(_adjusted(cells)), confidence)


def fisher_exact(k: int, n: int, k_other: int, n_other: int) -> float:
    """Return the two-sided p-value of Fisher's exact test of two shares.

    It is the probability of all tables with these margins that are at most as likely as this one.
    """
    n_positive = k + k_other
    lowest, highest = max(0, n_positive - n_other), min(n, n_positive)
    at = np.arange(lowest, highest, dtype=float)
    up = (n_positive - at) * (n - at)
    down = (at + 1) * (n_other - n_positive + at + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(up) - np.log(down))])
    likely = np.exp(logs - logs.max())
    # Tables that are equally likely differ by rounding.
    p_value = likely[likely <= likely[k - lowest] * (1 + 1e-7)].sum() / likely.sum()
    return float(min(1.0, p_value))


def rows_to_balance(
    n: int, n_positive: float, prior: float, wrong_labels: float = 0.0
) -> MetricValue:
    """Return how many rows labelled non-toxic bring a share of toxic rows down to a prior.

    Parameters
    ----------
    n : int
        Rows that there are.
    n_positive : float
        The toxic ones among them.
    prior : float
        The share that is wanted, from 0 to 1.
    wrong_labels : float
        Share of the added rows that are toxic in truth, from 0 to 1.

    Returns
    -------
    MetricValue
        A whole number of at least 0: the smallest m with
        (n_positive + wrong_labels m) / (n + m) <= prior. 0 if the share is not above the prior.
        Undefined if the added rows are toxic as often as the prior: no number is enough.

    Examples
    --------
    >>> rows_to_balance(10, 4, 0.1).value
    30.0
    """
    excess = n_positive - prior * n
    if excess <= 1e-9:
        return MetricValue(0.0)
    if wrong_labels >= prior:
        return undefined(f"added rows are toxic as often as the prior {prior:.3g}, or more often")
    return MetricValue(float(math.ceil(excess / (prior - wrong_labels) - 1e-9)))


def _summed(rows: Sequence[ToxicRows]) -> ToxicRows:
    return ToxicRows(sum(row.n for row in rows), sum(row.n_positive for row in rows))


def _cell(
    term: str,
    start: int,
    stop: int | None,
    rows: ToxicRows,
    overall: ToxicRows,
    z: float,
    *,
    of_all_lengths: bool,
) -> Imbalance:
    others = ToxicRows(overall.n - rows.n, overall.n_positive - rows.n_positive)
    if not (rows.n and others.n):
        lacking = undefined(f"no comments {'without' if rows.n else 'with'} the term")
        return Imbalance(term, start, stop, of_all_lengths, rows, others, lacking, None)
    counts = rows.n_positive, rows.n, others.n_positive, others.n
    low, high = share_difference_interval(*counts, z)
    difference = MetricValue(
        rows.n_positive / rows.n - others.n_positive / others.n, low=low, high=high
    )
    p_value = fisher_exact(*counts)
    return Imbalance(term, start, stop, of_all_lengths, rows, others, difference, p_value)


def _adjusted(cells: Sequence[Imbalance]) -> list[Imbalance]:
    p_values = [cell.p_value for cell in cells if cell.p_value is not None]
    holm, bh = iter(adjust_holm(p_values)), iter(adjust_benjamini_hochberg(p_values))
    return [
        cell if cell.p_value is None else replace(cell, p_holm=next(holm), p_bh=next(bh))
        for cell in cells
    ]
