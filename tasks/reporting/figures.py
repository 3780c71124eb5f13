"""The figures of a report: metrics by identity, differences, and score distributions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bias_metrics import BiasTable, MetricValue, plot
from bias_metrics.metrics import AUCS
from bias_metrics.report import sort_worst_first
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import Details, Report, Verdict
from biasgate.tasks.reporting.harm import build_harm_panels
from biasgate.tasks.reporting.tables import PANELS, ROWS

_BLUE = "#0072b2"
_LONGEST = 40  # most characters of a name


def draw_heatmap(report: Report) -> Figure:
    """Draw the five metrics by identity, with intervals; only the worst of many identities."""
    shown, left_out = select_identities(report.bias.subgroups, ROWS)
    return plot.heatmap(report.bias.select_groups(shown), title=_format_title(report) + left_out)


def select_identities(
    subgroups: Mapping[str, Mapping[str, MetricValue]], most: int
) -> tuple[list[str], str]:
    """Return the identities to draw, and an addition to the title if others are left out."""
    if len(subgroups) <= most:
        return list(subgroups), ""
    names = sort_worst_first(subgroups)[:most]
    return names, f": the worst {most} of {len(subgroups):,} identities"


def draw_distributions(report: Report, evidence: EvidenceFile) -> Figure:
    """Draw scores by identity and class, over the background's; only the worst of many."""
    rows = evidence.rows
    shown, left_out = select_identities(report.bias.subgroups, PANELS)
    return plot.distribution_panels(
        {name: (rows.labels, rows.y_score, rows.members[name]) for name in shown},
        title=_format_title(report) + left_out,
        background=rows.find_shared_background(evidence.background),
    )


def draw_reliability(report: Report) -> Figure | None:
    """Draw the reliability by identity, if it is known; only the worst of many."""
    calibration = report.calibration
    if calibration is None or calibration.reason is not None:
        return None
    shown, left_out = select_identities(report.bias.subgroups, PANELS)
    overall, subgroups = calibration.overall.to_dict(), calibration.subgroups
    return plot.reliability_panels(
        {name: subgroups[name].to_dict() for name in shown if name in subgroups}
        or {"all comments": overall},
        overall=overall,
        title=_format_title(report) + left_out,
    )


@task(name="draw figures", task_run_name="draw {evidence.folder!m}")
def draw_figures(report: Report, evidence: EvidenceFile) -> None:
    """Write `heatmap.png`, `distributions.png` and, of probabilities, `reliability.png`.

    Safe to retry.
    """
    log_message(f"drawing {_format_title(report)}", aside=True)
    folder = evidence.folder
    with ignore_missing_glyphs():
        _write_png(draw_heatmap(report), folder / "heatmap.png", dpi=120)
        _write_png(draw_distributions(report, evidence), folder / "distributions.png", dpi=110)
        if figure := draw_reliability(report):
            _write_png(figure, folder / "reliability.png", dpi=110)


def _write_png(figure: Figure, path: Path, *, dpi: int) -> None:
    """Write a picture, drawn once (`savefig` draws twice) and packed fast: 4 % larger."""
    figure.set_dpi(dpi)
    FigureCanvasAgg(figure).print_png(path, pil_kwargs={"compress_level": 2})


def draw_intervals(report: Report, verdict: Verdict) -> Figure:
    """Draw the AUCs that the policy checks, else the first AUC, with intervals and floors."""
    shown, left_out = select_identities(report.bias.subgroups, ROWS)
    cells = report.bias.select_groups(shown)
    checked = {result.metric for result in verdict.results if result.group is not None}
    metrics = [metric for metric in AUCS if metric in checked] or list(AUCS[:1])
    size = max(8.0, 5.4 * len(metrics)), 1.5 + 0.26 * max(len(shown), 1)
    figure = Figure(figsize=size, layout="constrained")
    [panels] = figure.subplots(1, len(metrics), squeeze=False)
    for axes, metric in zip(panels, metrics, strict=True):
        floor = find_floor(verdict, metric)
        plot.intervals(cells, metric, floor=floor, order=sort_worst_first(cells.subgroups), ax=axes)
    lowest = min(axes.get_xlim()[0] for axes in panels)
    for axes in panels:  # the same scale and the same rows in each
        axes.set_xlim(lowest, axes.get_xlim()[1])
    figure.suptitle(_format_title(report) + left_out, fontsize=11, parse_math=False)
    return figure


def find_floor(verdict: Verdict, metric: str) -> float | None:
    """Return the floor of a metric; None without, or if it differs by identity."""
    limits = {
        result.limit
        for result in verdict.results
        if result.metric == metric and result.kind == "floor" and result.group is not None
    }
    return limits.pop() if len(limits) == 1 else None


def draw_differences(report: Report, compared: BiasTable, champion: str) -> Figure:
    """Draw the differences from the champion by identity; only the worst of many identities."""
    shown, left_out = select_identities(report.bias.subgroups, ROWS)
    second = f"{champion}{left_out}"
    return plot.comparison(
        compared.select_groups(shown), first=_format_title(report), second=second
    )


def draw_harm(report: Report, verdict: Verdict, details: Details) -> Figure:
    """Draw error rates by identity at the threshold, else BPSN and BNSP AUCs."""
    panels = build_harm_panels(report, verdict, details)
    most = max(len(panel.rows) for panel in panels)
    figure = Figure(figsize=(11.0, 1.6 + 0.26 * max(most, 1)), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
        places = range(len(panel.rows))
        for place, row in zip(places, panel.rows, strict=True):
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [place, place], color=_BLUE, linewidth=2)
            axes.plot(row.value, place, "o", color=_BLUE)
            if row.champion is not None:
                axes.plot(row.champion, place, "o", markerfacecolor="none", color="black", ms=9)
        if panel.overall is not None:
            axes.axvline(panel.overall, color="black", linestyle="--", linewidth=1)
        axes.set_yticks(places, [_shorten_name(row.name) for row in panel.rows], parse_math=False)
        axes.invert_yaxis()
        axes.set_xlim(panel.axis.low, panel.axis.high)
        if panel.is_rate:
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_title(f"{panel.title} {panel.hint}", fontsize=10, parse_math=False)
    marks = ["dot and line: number and 95% interval", "dashed line: all comments"]
    marks += ["ring: champion"] if any(panel.has_champion for panel in panels) else []
    figure.suptitle(f"{_format_title(report)}\n{', '.join(marks)}", fontsize=10, parse_math=False)
    return figure


def draw_verdict(report: Report, verdict: Verdict, details: Details, folder: Path) -> None:
    """Write `harm.png`, `intervals.png` and, if there was a champion, `difference.png`."""
    compared = details.champion
    with ignore_missing_glyphs():
        _write_png(draw_harm(report, verdict, details), folder / "harm.png", dpi=110)
        _write_png(draw_intervals(report, verdict), folder / "intervals.png", dpi=100)
        champion = verdict.champion
        if compared is not None and champion is not None:
            name = (champion.model or champion.name).removeprefix("models:/")
            figure = draw_differences(report, compared, f"champion {name}")
            _write_png(figure, folder / "difference.png", dpi=110)


@contextmanager
def ignore_missing_glyphs() -> Iterator[None]:
    """Silence warnings about characters of names that the font lacks, such as emoji.

    They are drawn as boxes; the page and the tables show the names unchanged.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font\(s\)", UserWarning)
        yield


def _format_title(report: Report) -> str:
    return f"{_shorten_name(report.candidate.name)} on {_shorten_name(report.evaluation_set.name)}"


def _shorten_name(name: str) -> str:
    """Shorten a name to leave room for the drawing, and escape invisible characters."""
    text = escape_invisible(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
