"""Whether the labelled rows can be a random sample of all rows.

Prediction-powered inference takes the labelled rows of each class (positive, negative) as a random
sample of the rows of this class; how many of each class are labelled does not matter, because an
AUC compares the two. If raters were shown comments that mention an identity, or with high scores,
more often than others, that is wrong, and so would be every number. Rows themselves show it: the
labelled ones are then matched by terms, or score, differently from the others.
"""

from __future__ import annotations

import math

import numpy as np

from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.clusters import Codes
from bias_metrics._core.placements import inner

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
