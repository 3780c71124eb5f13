"""Calibration as a part of the evidence that rules are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics import calibration_report, compare_calibration
from bias_metrics._core.packed import PackedMasks


def add_calibration(
    labels: npt.NDArray[np.bool_],
    scores: npt.NDArray[np.floating],
    members: PackedMasks,
    report: dict[str, Any],
    options: Mapping[str, Any],
) -> None:
    """Add a model's calibration to its report.

    Parameters
    ----------
    labels : bool array of shape (n,)
        Labels.
    scores : float array of shape (n,)
        Its scores.
    members : PackedMasks
        Identities, and categories.
    report : dict
        What it is added to.
    options : mapping
        Of `calibration_report`.
    """
    report["calibration"] = calibration_report(labels, scores, members, **options).to_dict()


def add_calibration_change(
    labels: npt.NDArray[np.bool_],
    scores: tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]],
    members: PackedMasks,
    comparison: dict[str, Any],
    options: Mapping[str, Any],
) -> None:
    """Add how much the calibration of two models differs to their comparison.

    Parameters
    ----------
    labels : bool array of shape (n,)
        Labels.
    scores : tuple of two float arrays of shape (n,)
        Of the candidate and its rival.
    members : PackedMasks
        Identities, and categories.
    comparison : dict
        What it is added to.
    options : mapping
        Of `compare_calibration`.
    """
    comparison["calibration"] = compare_calibration(labels, *scores, members, **options).to_dict()
