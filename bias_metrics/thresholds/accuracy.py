"""Accuracy of the worst group, where a group is an identity and a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    aligned,
    check_mask,
    check_scores,
    check_subgroups,
    check_threshold,
)
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue
from bias_metrics.groups.counts import ratio
from bias_metrics.thresholds.errors import flagged


@dataclass(frozen=True)
class CellAccuracy(Tabular):
    """Accuracy of the rows of one subgroup and one label."""

    subgroup: str
    """Its name."""
    label: bool
    """True for the subgroup's positives, False for its negatives."""
    n: int
    n_correct: int
    """n, n_correct: the rows, and how many of them are on the correct side of the threshold."""

    @property
    def accuracy(self) -> MetricValue:
        """Recall for positives, 1 - false positive rate for negatives; undefined without rows."""
        return ratio(self.n_correct, self.n, f"no {'positives' if self.label else 'negatives'}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return dict(vars(self)) | {"accuracy": self.accuracy.to_dict()}


@dataclass(frozen=True)
class WorstGroupAccuracy(Tabular):
    """The cell with the lowest accuracy, and all cells."""

    threshold: float
    """Scores at or above it are flagged."""
    cells: tuple[CellAccuracy, ...]
    """Two per subgroup, in the order given, those without rows included."""

    @property
    def value(self) -> MetricValue:
        """The lowest accuracy of the cells that have rows; undefined if none has."""
        if not self.worst:
            return MetricValue(None, "no cell has rows" if self.cells else "no subgroups")
        return self.worst[0].accuracy

    @property
    def worst(self) -> tuple[CellAccuracy, ...]:
        """The cells with the lowest accuracy: one, unless several tie."""
        values = [cell.accuracy.value for cell in self.cells]
        lowest = min((value for value in values if value is not None), default=None)
        pairs = zip(self.cells, values, strict=True)
        return tuple(cell for cell, value in pairs if value is not None and value == lowest)

    @property
    def undefined(self) -> tuple[CellAccuracy, ...]:
        """The cells without rows, which might have been the worst."""
        return tuple(cell for cell in self.cells if not cell.n)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        groups = ("worst", "undefined", "cells")
        plain = {name: [cell.to_dict() for cell in getattr(self, name)] for name in groups}
        return {"threshold": self.threshold, **self.value.to_dict(), **plain}

    def rows(self) -> list[Row]:
        """Return one record per cell, and whether it is among the worst."""
        worst = self.worst
        return [{"worst": cell in worst} | row for cell in self.cells for row in cell.rows()]


@aligned
def worst_group_accuracy(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    threshold: float = 0.5,
) -> WorstGroupAccuracy:
    """Lowest accuracy among the cells of an identity and a label, at a threshold.

    A low value for toxic rows: toxic mentions of that identity are missed; for non-toxic
    rows: harmless mentions are flagged. Unlike an AUC it depends on the threshold. As the
    lowest of many estimates it is biased downwards, especially if cells are small: look at
    their counts. Not to be confused with `worst_subgroup`, which compares the Borkan
    metrics.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each identity; rows may belong to several or to none.
    threshold : float, default=0.5
        Finite; a score equal to it is flagged.

    Returns
    -------
    WorstGroupAccuracy
        The value, in [0, 1] with ideal 1; the worst cell, or cells, with counts; all cells.
        Cells without rows have no accuracy: they are listed as undefined, and the value
        ignores them.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `threshold` is not finite.

    References
    ----------
    Koh et al. (2021), WILDS, appendix E.6 (CivilComments, Tables 15 to 17).

    Examples
    --------
    >>> found = worst_group_accuracy(
    ...     [0, 0, 1, 1, 0, 1], [0.1, 0.6, 0.7, 0.9, 0.2, 0.8], {"muslim": [1, 1, 1, 1, 0, 0]}
    ... )
    >>> found.value.value, found.worst[0].subgroup, found.worst[0].label
    (0.5, 'muslim', False)
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    threshold = check_threshold(threshold)
    correct = flagged(scores, threshold) == labels
    cells = [
        CellAccuracy(
            subgroup=name,
            label=label,
            n=int(np.count_nonzero(mask & of_class)),
            n_correct=int(np.count_nonzero(mask & of_class & correct)),
        )
        for name, mask in masks.items()
        for label, of_class in ((True, labels), (False, ~labels))
    ]
    return WorstGroupAccuracy(threshold, tuple(cells))
