"""The rows of a set with those that have no score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.packed import PackedMasks


@dataclass(frozen=True)
class EveryRow:
    """The rows that would be measured if all had a score; NaN where there is none.

    Attributes
    ----------
    rows : array
        Which rows of the set these are, as a mask or by number.
    y_true, y_score : array of shape (n,)
        Labels and scores.
    masks : PackedMasks
        Which mention each identity.
    clusters, weights : array of shape (n,) or None
        If there are any.
    """

    rows: npt.NDArray[Any]
    y_true: npt.NDArray[np.bool_]
    y_score: npt.NDArray[np.floating]
    masks: PackedMasks
    clusters: npt.NDArray[np.intp] | None
    weights: npt.NDArray[np.floating] | None
