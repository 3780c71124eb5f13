"""Which toxic labels to change so that every term is as toxic as comments without any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_mask, check_scores
from bias_metrics._core.tables import Row, Tabular
from bias_metrics.mitigation.pool import IntArray, check_buckets


@dataclass(frozen=True)
class RelabelledCell:
    """What was changed for one term in one bucket."""

    term: int  # term, bucket: positions
    bucket: int
    n: int  # n, n_positive: rows and toxic rows before
    n_positive: int
    prior: float  # Share of toxic rows among those without any of the terms
    excess: int  # Toxic rows above the prior, after what was changed for earlier terms
    # Labels that were changed for this term; fewer than `excess` where scores say that the other
    # rows are toxic.
    changed: int

    @property
    def share_after(self) -> float:
        """Share of toxic rows after."""
        return (self.n_positive - self.changed) / self.n


@dataclass(frozen=True)
class Relabelling(Tabular):
    """The rows whose labels are changed from toxic to harmless."""

    chosen: IntArray
    """(m,): Positions, in ascending order."""
    cells: tuple[RelabelledCell, ...]
    """One for each term and bucket with rows."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"n_changed": int(self.chosen.size), "cells": self.rows()}

    def rows(self) -> list[Row]:
        """Return one record per cell."""
        return [dict(vars(cell)) | {"share_after": cell.share_after} for cell in self.cells]


def relabel_to_prior(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    buckets: npt.ArrayLike,
    mentions: npt.NDArray[np.bool_],
    *,
    threshold: float,
) -> Relabelling:
    """Choose toxic labels to change until each term is as toxic as rows without any term.

    In every bucket the prior is the share of toxic rows among those without any of the terms, or
    over all buckets if it has none. Where a term is toxic more often, the toxic rows with the
    lowest scores become harmless. A row that scores at or above the threshold keeps its label.
    Terms below the prior keep theirs too.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for toxic rows.
    y_score : float array of shape (n,)
        How toxic each row is by a model that learned from rows without any of the terms.
    buckets : int array of shape (n,)
        Bucket of length of each row, from 0.
    mentions : bool array of shape (n, k)
        Which rows contain which term.
    threshold : float
        Labels of rows with this score or a higher one are kept.

    Returns
    -------
    Relabelling
        The rows, and for each term and bucket how far it went.

    Raises
    ------
    ValueError, TypeError
        If an array has another shape or type, or every row contains one of the terms.

    References
    ----------
    Kamiran and Calders (2012), section 4.1, massaging. Here the ranker learns from other rows, no
    label becomes toxic, and labels that the ranker agrees with are kept.

    Examples
    --------
    >>> gay = np.array([[1], [1], [1], [0], [0]], bool)
    >>> labels, scores = [1, 1, 0, 1, 0], [0.9, 0.2, 0.1, 0.8, 0.1]
    >>> relabel_to_prior(labels, scores, [0] * 5, gay, threshold=0.5).chosen.tolist()
    []
    >>> labels = [1, 1, 1, 1, 0]
    >>> relabel_to_prior(labels, scores, [0] * 5, gay, threshold=0.5).chosen.tolist()
    [2]
    """
    labels = check_mask("y_true", y_true).copy()
    scores = check_scores("y_score", y_score, labels.size)
    within = check_buckets("buckets", buckets, mentions)
    if labels.size != within.size:
        msg = f"`buckets` must have one value for each of the {labels.size} rows; got {within.size}"
        raise ValueError(msg)
    others = ~mentions.any(axis=1)
    if not others.any():
        msg = "`mentions` must leave rows without any of the terms; every row contains one."
        raise ValueError(msg)
    before = labels.copy()
    cells = []
    for term in range(mentions.shape[1]):
        for bucket in np.unique(within[mentions[:, term]]).tolist():
            inside = within == bucket
            cell = np.flatnonzero(inside & mentions[:, term])
            like = others & inside if (others & inside).any() else others
            prior = float(before[like].mean())
            excess = max(int(labels[cell].sum() - prior * cell.size + 1e-9), 0)
            doubtful = cell[labels[cell] & (scores[cell] < threshold)]
            changed = doubtful[np.argsort(scores[doubtful], kind="stable")][:excess]
            n, positive = int(cell.size), int(labels[cell].sum())
            labels[changed] = False
            cells.append(
                RelabelledCell(term, int(bucket), n, positive, prior, excess, int(changed.size))
            )
    return Relabelling(np.flatnonzero(before & ~labels), tuple(cells))
