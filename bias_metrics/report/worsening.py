"""What a comparison shows to be worse, over all of its cells together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bias_metrics.gate.judging import measured
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS

ALPHA = 0.05


def joint_confidence(n_subgroups: int, alpha: float = ALPHA) -> float:
    """Return the two-sided confidence at which to compare, so that `worsened` errs seldom.

    The error is shared out to all cells (Bonferroni). It counts on one side only: what got
    better is no error here.

    Parameters
    ----------
    n_subgroups : int
        Subgroups of the comparison; each has five metrics.
    alpha : float, default=0.05
        Chance that anything is listed where nothing got worse.

    Returns
    -------
    float
        In (0, 1); above `1 - 2 * alpha`.

    Examples
    --------
    >>> round(joint_confidence(24), 5)
    0.99917
    """
    return 1 - 2 * alpha / (len(SUBGROUP_METRICS) * max(n_subgroups, 1))


def worsened(comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the cells in which the first model is shown to be worse than the second.

    The bounds are those that the gate holds against a margin: of an AUC the difference, of
    a gap (AEG) the growth of its size. A gap that only changes its sign has not got worse.

    Parameters
    ----------
    comparison : mapping
        `compare_bias(...).to_dict()` with the `confidence` of `joint_confidence`.

    Returns
    -------
    list of dict
        `metric`, `group`, `first`, `second`; `worse_by`, above 0, and `worse_by_at_least`, its
        lower bound. Nothing without an interval is listed.
    """
    found: list[dict[str, Any]] = []
    for group, cells in comparison["subgroups"].items():
        for metric in SUBGROUP_METRICS:
            cell, is_gap = cells[metric], METRICS[metric].is_gap
            change = measured(cell, "champion", is_gap=is_gap)
            if change.value is None or change.low is None or change.high is None:
                continue
            by, at_least = (change.value, change.low) if is_gap else (-change.value, -change.high)
            if at_least > 0:
                found.append(
                    {"metric": metric, "group": group}
                    | {key: cell[key] for key in ("first", "second")}
                    | {"worse_by": by, "worse_by_at_least": at_least}
                )
    return found
