"""The curve behind an AEG, and the area that an AEG cannot see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.ranks import Placed, Runs


class Corners(NamedTuple):
    """A curve given by its corners; it is straight between them.

    x is the share of the background's rows of one class at or above a threshold, y the subgroup's.
    The area under the curve minus 1/2 is the AEG.
    """

    background_rate: FloatArray
    subgroup_rate: FloatArray
    """background_rate, subgroup_rate, (k,): from 0, above every score, to 1."""
    unsigned_gap: float
    """Area between the curve and the diagonal, from 0 to 1/2, ideal 0.

    0 only for equal samples: for m and n rows from the same distribution, chance makes it about
    0.31 * sqrt(1 / m + 1 / n).
    """


def corners(placed: Placed, runs: Runs) -> Corners:
    """Return the corners of a class's curve from its ranks; neither side may be empty.

    Between two scores of the subgroup only the background's share grows, so there is a corner
    above and at each of the subgroup's scores. No score is sorted or searched again.
    """
    above = np.stack((placed.n - placed.right, runs.n - runs.starts[1:]))
    at = np.stack((placed.n - placed.left, runs.n - runs.starts[:-1]))
    between = np.stack((above, at), axis=-1)[:, ::-1].reshape(2, -1)
    counts = np.concatenate(([[0], [0]], between, [[placed.n], [runs.n]]), axis=1)
    x, y = counts / np.array([[placed.n], [runs.n]])
    width = np.diff(x)
    start, stop = (y - x)[:-1], (y - x)[1:]
    # A segment that crosses the diagonal makes two triangles, one on each side.
    distance = np.abs(start) + np.abs(stop)
    crosses = start * stop < 0
    heights = np.where(crosses, (start**2 + stop**2) / np.where(crosses, distance, 1), distance)
    return Corners(x, y, min(float((width * heights / 2).sum()), 0.5))
