"""Calibration as a part of the evidence that rules are judged by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics import Rows, calibration_report, compare_calibration


def add_calibration(
    rows: Rows,
    scores: npt.NDArray[np.floating],
    report: dict[str, Any],
    confidence: float,
) -> None:
    """Add a model's calibration to its report.

    Parameters
    ----------
    rows : Rows
        Its identities, and categories, are the subgroups.
    scores : float array of shape (n,)
        Its scores.
    report : dict
        What it is added to.
    confidence : float
        Of `calibration_report`.
    """
    report["calibration"] = calibration_report(rows, scores, confidence=confidence).to_dict()


def add_calibration_change(
    rows: Rows,
    scores: tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]],
    comparison: dict[str, Any],
    confidence: float,
) -> None:
    """Add how much the calibration of two models differs to their comparison.

    Parameters
    ----------
    rows : Rows
        Its identities, and categories, are the subgroups.
    scores : tuple of two float arrays of shape (n,)
        Of the candidate and its rival.
    comparison : dict
        What it is added to.
    confidence : float
        Of `compare_calibration`.
    """
    comparison["calibration"] = compare_calibration(rows, *scores, confidence=confidence).to_dict()
