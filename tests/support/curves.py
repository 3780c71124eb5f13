"""Corners of the curve of a subgroup and its background."""

import numpy as np

from bias_metrics._core.ranks import place, runs_of
from bias_metrics.diagnosis.curves import corners


def corners_of(background, subgroup):
    """Return the corners for the scores of one class."""
    runs = runs_of(np.sort(subgroup))
    return corners(place(np.sort(background), runs), runs)
