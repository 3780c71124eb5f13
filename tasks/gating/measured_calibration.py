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
    scores: Mapping[str, npt.NDArray[np.floating]],
    members: PackedMasks,
    report: dict[str, Any],
    differences: Mapping[str, dict[str, Any]],
    options: Mapping[str, Any],
) -> None:
    """Add the candidate's calibration to its report, and its changes to the comparisons.

    Parameters
    ----------
    labels : bool array of shape (n,)
        Labels.
    scores : mapping of str to float array of shape (n,)
        Of the candidate and its rivals, by role.
    members : PackedMasks
        Identities, and categories.
    report, differences : dict
        What they are added to; differences are by role.
    options : mapping
        Of `calibration_report`.
    """
    own = scores["candidate"]
    report["calibration"] = calibration_report(labels, own, members, **options).to_dict()
    for role, content in differences.items():
        change = compare_calibration(labels, own, scores[role], members, **options)
        content["calibration"] = change.to_dict()
