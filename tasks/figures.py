"""The pictures of a report: a heatmap of metrics by identity, and score distributions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bias_metrics import plot
from tasks.layout import Layout, membership
from tasks.orchestration import task


def metric_heatmap(report: Mapping[str, Any]) -> Figure:
    """Draw the five metrics by identity, with their intervals."""
    return plot.heatmap(report["bias"], title=_title(report))


def score_distributions(report: Mapping[str, Any], layout: Layout) -> Figure:
    """Draw each identity's scores by class over the background's."""
    rows = layout.array("y_true"), layout.array("y_score")
    return plot.distribution_panels(
        {name: (*rows, membership(layout, name)) for name in report["bias"]["subgroups"]},
        title=_title(report),
        background=layout.background(),
    )


@task(name="draw figures")
def draw_figures(report: dict[str, Any], layout: str, folder: str) -> None:
    """Write `heatmap.png` and `distributions.png`. Safe to retry."""
    metric_heatmap(report).savefig(Path(folder) / "heatmap.png", dpi=120)
    score_distributions(report, Layout(Path(layout))).savefig(
        Path(folder) / "distributions.png", dpi=110
    )


def _title(report: Mapping[str, Any]) -> str:
    return f"{report['candidate']['name']} on {report['evaluation_set']['name']}"
