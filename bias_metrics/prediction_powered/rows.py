"""Rows with human labels of subgroups on a part, and term matching on all, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray, check_mask
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.ranks import inner
from bias_metrics._core.same_cluster import Codes
from bias_metrics.rows import Rows


@dataclass(frozen=True, eq=False)
class PoweredRows:
    """All rows, twice: with subgroups by human labels, and as matched by terms.

    Human labels mean nothing on rows that are not `labelled`. `codes` are the clusters; without
    clusters, each row's own number.
    """

    human: Rows
    matched: Rows
    labelled: BoolArray
    codes: Codes

    @classmethod
    def of(cls, rows: Rows, matched: Subgroups, labelled: npt.ArrayLike) -> PoweredRows:
        """Check arguments, see `prediction_powered_bias`."""
        rows.refuse("prediction-powered inference", "sample_weight", "strata")
        terms = rows.grouped(matched, name="matched")
        if rows.subgroups.keys() != terms.subgroups.keys():
            different = ", ".join(sorted(rows.subgroups.keys() ^ terms.subgroups.keys()))
            msg = f"`matched` must have the names of `subgroups`; in only one: {different}."
            raise ValueError(msg)
        known = check_mask("labelled", labelled, rows.n)
        if not known.any():
            msg = f"`labelled` must be true of some rows; got none of {rows.n}."
            raise ValueError(msg)
        codes = np.arange(rows.n) if rows.clusters is None else rows.clusters
        for group, mask in terms.subgroups.items():
            refuse_selected(f"matched[{group!r}]", mask, rows.y_true, known, codes)
        return cls(rows, terms, known, codes)

    def scores(self, name: str, given: npt.ArrayLike) -> FloatArray:
        """Check one model's scores, and that rows were not labelled by them."""
        scores = self.human.scores(name, given)
        refuse_selected(name, scores, self.human.y_true, self.labelled, self.codes)
        return scores

    @property
    def clustered(self) -> bool:
        """Whether there are clusters."""
        return self.human.clusters is not None

    @property
    def n_labelled(self) -> dict[str, int]:
        """How many rows of each class are labelled."""
        positive = int(np.count_nonzero(self.labelled & self.human.y_true))
        return {
            "positive": positive,
            "negative": int(np.count_nonzero(self.labelled)) - positive,
        }


# ---- Whether the labelled rows can be a random sample of all rows.
#
# Prediction-powered inference takes the labelled rows of each class (positive, negative) as a
# random sample of the rows of this class; how many of each class are labelled does not matter,
# because an AUC compares the two. If raters were shown comments that mention an identity, or with
# high scores, more often than others, that is wrong, and so would be every number. Rows themselves
# show it: the labelled ones are then matched by terms, or score, differently from the others


# Chance exceeds it in one of 1.7 million samples.
LARGEST_Z = 5.0
_FEWEST = 20
_CLASSES = (("positives", True), ("negatives", False))


def refuse_selected(
    name: str,
    values: BoolArray | FloatArray,
    labels: BoolArray,
    labelled: BoolArray,
    codes: Codes,
) -> None:
    """Refuse labelled rows that clearly differ from the other rows of their class.

    They do if the means of the values differ by more than `LARGEST_Z` standard errors.
    """
    for kind, positive in _CLASSES:
        rows = labels == positive
        z, mean, other = _apart(values[rows], labelled[rows], codes[rows])
        if abs(z) > LARGEST_Z:
            msg = (
                "`labelled` must be a random sample of the rows of each class; got a mean of "
                f"`{name}` of {mean:.3g} on labelled {kind} and {other:.3g} on the others "
                f"({abs(z):.1f} standard errors apart). Draw the rows to label at random, or "
                "measure the labelled rows alone with `evaluate_bias`."
            )
            raise ValueError(msg)


def _apart(
    values: BoolArray | FloatArray, labelled: BoolArray, codes: Codes
) -> tuple[float, float, float]:
    """Return how many standard errors two means are apart, and the means.

    The larger of two errors counts: that of each part's own spread, in clusters, and that of the
    spread of all rows. The first is too small if one part has few rows that stand out.
    """
    n, n_labelled = labelled.size, int(np.count_nonzero(labelled))
    if min(n_labelled, n - n_labelled) < _FEWEST:
        return 0.0, 0.0, 0.0
    known = values.astype(np.float64)
    mean, other = float(known[labelled].mean()), float(known[~labelled].mean())
    shares = np.where(labelled, 1 / n_labelled, -1 / (n - n_labelled))
    each = shares * (known - np.where(labelled, mean, other))
    sums = np.bincount(codes, each).astype(np.float64)
    pooled = float(known.var()) * (1 / n_labelled + 1 / (n - n_labelled))
    variance = max(inner(sums, sums), pooled)
    return (0.0 if variance == 0 else (mean - other) / math.sqrt(variance)), mean, other
