"""What a weight means: a row that was drawn with some probability, or several identical rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray, check_weights
from bias_metrics._core.options import check_choice
from bias_metrics._core.packed import PackedMasks

WeightKind = Literal["probability", "frequency"]
WEIGHT_KINDS: tuple[WeightKind, ...] = ("probability", "frequency")
"""A sampling weight (the default), or the number of identical rows that a row stands for."""
MOST_ROWS = 10**9

Rows = npt.NDArray[np.intp]


def counted_rows(
    sample_weight: npt.ArrayLike | None, n: int, kind: str
) -> tuple[Rows | None, FloatArray | None]:
    """Return which rows count, repeated as often as they do, and their weights.

    Parameters
    ----------
    sample_weight : float array of shape (n,) or None
        The weights.
    n : int
        Number of rows.
    kind : {"probability", "frequency"}
        What they mean.

    Returns
    -------
    (int array or None, float array or None)
        The numbers of the rows, None for all rows once; and a weight above 0 for each, None if
        every row counts once.

    Raises
    ------
    ValueError
        As `evaluate_bias`.
    """
    check_choice("weight_kind", kind, WEIGHT_KINDS)
    weights = check_weights(sample_weight, n)
    if weights is None:
        return None, None
    if kind == "frequency":
        return np.repeat(np.arange(n), _whole(weights)), None
    if weights.all():
        return None, weights
    rows = np.flatnonzero(weights)
    return rows, weights[rows]


def masks_of(masks: Mapping[str, BoolArray], rows: Rows) -> Mapping[str, BoolArray]:
    """Return the memberships of some rows."""
    if isinstance(masks, PackedMasks):
        return PackedMasks.of(((name, mask[rows]) for name, mask in masks.items()), rows.size)
    return {name: mask[rows] for name, mask in masks.items()}


def _whole(weights: FloatArray) -> npt.NDArray[np.int64]:
    wrong = np.flatnonzero(weights != np.floor(weights))
    if wrong.size:
        msg = (
            "`sample_weight` must be whole numbers if `weight_kind` is 'frequency'; got "
            f"{weights[wrong[0]]} (row {wrong[0]})."
        )
        raise ValueError(msg)
    if float(weights.sum()) > MOST_ROWS:
        msg = (
            f"`sample_weight` must sum to at most {MOST_ROWS:,} if `weight_kind` is 'frequency'; "
            f"got {weights.sum():,.0f}."
        )
        raise ValueError(msg)
    return weights.astype(np.int64)
