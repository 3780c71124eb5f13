"""The figures of a report: a heatmap of metrics by identity, and score distributions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from bias_metrics import plot
from bias_metrics.report.worst import worst_first
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.measuring.arrays import Layout
from biasgate.tasks.records import Report, Subgroup

# Most identities in a figure: if there are more, the worst.
ROWS, PANELS = 60, 30


def metric_heatmap(report: Report) -> Figure:
    """Draw the five metrics by identity, with intervals; only the worst of many identities."""
    found = report["bias"]["subgroups"]
    shown, left_out = shown_identities(found, ROWS)
    return plot.heatmap(
        {"subgroups": {name: found[name] for name in shown}}, title=_title(report) + left_out
    )


def shown_identities(subgroups: Mapping[str, Subgroup], most: int) -> tuple[list[str], str]:
    """Return the identities to draw, and an addition to the title if others are left out."""
    if len(subgroups) <= most:
        return list(subgroups), ""
    return worst_first(subgroups)[:most], f": the worst {most} of {len(subgroups):,} identities"


def score_distributions(report: Report, layout: Layout) -> Figure:
    """Draw each identity's scores by class over the background's; only the worst of many."""
    masks = layout.masks()
    shown, left_out = shown_identities(report["bias"]["subgroups"], PANELS)
    rows = layout.array("y_true"), layout.array("y_score")
    return plot.distribution_panels(
        {name: (*rows, masks[name]) for name in shown},
        title=_title(report) + left_out,
        background=layout.background(),
    )


def reliability_panels(report: Report) -> Figure | None:
    """Draw the reliability of each identity; only the worst of many, None if there is none."""
    if "calibration" not in report or "reason" in report["calibration"]:
        return None
    found = report["calibration"]
    shown, left_out = shown_identities(report["bias"]["subgroups"], PANELS)
    return plot.reliability_panels(
        {name: found["subgroups"][name] for name in shown if name in found["subgroups"]}
        or {"all comments": found["overall"]},
        overall=found["overall"],
        title=_title(report) + left_out,
    )


@task(name="draw figures", task_run_name="draw {folder!m}")
def draw_figures(report: Report, layout: Layout, folder: str) -> None:
    """Write `heatmap.png`, `distributions.png` and, of probabilities, `reliability.png`.

    Safe to retry.
    """
    say(f"drawing {_title(report)}", aside=True)
    metric_heatmap(report).savefig(Path(folder) / "heatmap.png", dpi=120)
    score_distributions(report, layout).savefig(Path(folder) / "distributions.png", dpi=110)
    if figure := reliability_panels(report):
        figure.savefig(Path(folder) / "reliability.png", dpi=110)


def _title(report: Report) -> str:
    return f"{report['candidate']['name']} on {report['evaluation_set']['name']}"
