"""P-values of many differences, adjusted for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from bias_metrics._core.differences import Difference

K = TypeVar("K")


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given."""
    order = np.argsort(p_values, kind="stable")
    n = len(order)
    found = np.empty(n)
    found[order] = np.maximum.accumulate(
        [min(1.0, (n - i) * p_values[at]) for i, at in enumerate(order)]
    )
    return [float(one) for one in found]


def adjust_benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p-values, in the order given."""
    order = np.argsort(p_values, kind="stable")[::-1]
    n = len(order)
    found = np.empty(n)
    found[order] = np.minimum.accumulate(
        [min(1.0, p_values[at] * n / (n - i)) for i, at in enumerate(order)]
    )
    return [float(one) for one in found]


def adjust_differences(
    cells: Mapping[K, Mapping[str, Difference]],
) -> dict[K, dict[str, Difference]]:
    """Return the differences with their p-values adjusted for all cells."""
    keys = [
        (name, metric)
        for name, of_group in cells.items()
        for metric, one in of_group.items()
        if one.p_value is not None
    ]
    p_values = [cells[name][metric].p_value or 0.0 for name, metric in keys]
    found = {name: dict(of_group) for name, of_group in cells.items()}
    adjusted = zip(keys, adjust_holm(p_values), adjust_benjamini_hochberg(p_values), strict=True)
    for (name, metric), p_holm, p_bh in adjusted:
        found[name][metric] = replace(found[name][metric], p_holm=p_holm, p_bh=p_bh)
    return found
