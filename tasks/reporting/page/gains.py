"""What terms add to the human labels of a prediction-powered set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bias_metrics import Assistance
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.records import Report
from biasgate.tasks.reporting.page.grids import shown_rows
from biasgate.tasks.reporting.page.numbers import NOTHING, percent

GAIN_TITLES = tuple(METRICS[one].title for one in SUBGROUP_METRICS)


@dataclass(frozen=True)
class Gained:
    """What terms add for one identity."""

    name: str
    """The identity."""
    gains: tuple[str, ...]
    """For each metric: how many times as many labelled rows would give the same precision."""
    found: str
    right: str
    """The share of labelled mentions that terms find, and of found rows that are mentions."""


def gains_of(report: Report) -> tuple[Gained, ...]:
    """Return the gains of each identity; none for a set without terms to help."""
    agreement: dict[str, Any] = (report.label_agreement or {}).get("identities", {})
    subgroups = report.bias.subgroups
    shown, _ = shown_rows(subgroups)
    return tuple(
        Gained(
            name,
            tuple(_times((subgroups[name].assisted or {}).get(one)) for one in SUBGROUP_METRICS),
            percent(agreement[name]["recall"]["value"]),
            percent(agreement[name]["precision"]["value"]),
        )
        for name in shown
        if name in agreement
    )


def _times(assisted: Assistance | None) -> str:
    return NOTHING if assisted is None else f"{assisted.gain:.1f}"
