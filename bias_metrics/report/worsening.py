"""Which cells of a comparison are shown to be worse, corrected for looking at all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from bias_metrics.gate.judging import measured
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS

ALPHA = 0.05
Cell = TypeVar("Cell", bound=Mapping[str, object])


def worsened(comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the cells in which the first model is shown to be worse than the second.

    The bounds are those that the gate compares with a margin: for an AUC the difference, for
    a gap (AEG) the growth of its size. A gap that only changes its sign did not get worse.

    Parameters
    ----------
    comparison : mapping
        `compare_bias(...).to_dict()` with the `confidence` of `joint_level`, so that
        all bounds hold together.

    Returns
    -------
    list of dict
        `metric`, `group`, `first`, `second`; `worse_by`, above 0, and `worse_by_at_least`, its
        lower bound. Cells without an interval are not listed.
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


def largest_loss_first(found: Iterable[Cell]) -> list[Cell]:
    """Order what `worsened` lists by how large a loss is shown, the largest first.

    They are ordered by the lower bound of the loss, so that an identity with a few unlucky rows
    does not come before one with evidence.

    Parameters
    ----------
    found : iterable of mapping
        Cells with `worse_by_at_least`.

    Returns
    -------
    list of mapping
        The same cells.

    Examples
    --------
    >>> small, large = {"worse_by_at_least": 0.1}, {"worse_by_at_least": 0.3}
    >>> largest_loss_first([small, large]) == [large, small]
    True
    """
    return sorted(found, key=lambda one: -cast("float", one["worse_by_at_least"]))
