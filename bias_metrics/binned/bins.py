"""Bins of scores: their leading bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray

Counts = npt.NDArray[np.int64]

MANTISSA = 52
MOST_ROWS = 4 * 10**9  # twice the number of pairs must fit into 64 bits


def compute_bins(scores: FloatArray, bits: int) -> npt.NDArray[np.int64]:
    """Return the bins of scores: their leading bits, as integers that ascend with the score."""
    bits_of = (scores + 0.0).view(np.int64)  # -0.0 becomes 0.0
    ordered = np.where(bits_of < 0, np.iinfo(np.int64).min - bits_of, bits_of)
    return np.asarray(ordered >> (MANTISSA - bits))
