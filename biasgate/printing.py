"""What the commands print: tables to read, then the verdict in words."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bias_metrics.gate import WORST_FIRST
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS

_WIDTH = 118
_COLOURS = {
    "pass": "green",
    "warn": "yellow",
    "fail": "red",
    "insufficient": "yellow",
    "error": "red",
}
_WORDS = {
    "pass": "PASSED",
    "fail": "BLOCKED",
    "insufficient": "NOT ENOUGH EVIDENCE",
    "error": "ERROR",
}
_SENTENCES = 8


def console(*, stderr: bool = False) -> Console:
    """Return a console that keeps tables whole where the output is not a terminal."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=_WIDTH)


def print_error(text: str) -> None:
    """Print what must be mended, on standard error."""
    console(stderr=True).print(f"[bold red]error[/]: {escape(text)}", soft_wrap=True)


def print_step(text: str) -> None:
    """Print that a step is done, on standard error."""
    console(stderr=True).print(f"  [dim]done: {escape(text)}[/]")


def print_summary(summary: Mapping[str, Any], reports: Mapping[tuple[str, str], Any]) -> None:
    """Print one table per set and candidate, the verdicts, and what became of `champion`.

    Parameters
    ----------
    summary : mapping
        As in `summary.json`.
    reports : mapping of (str, str) to mapping
        The report of each set and candidate.
    """
    out = console()
    for verdict in summary["verdicts"]:
        names = verdict["evaluation_set"]["name"], verdict["candidate"]["name"]
        report = reports[names]
        out.print(_table(report, verdict))
        for warning in report["warnings"]:
            out.print(f"[yellow]warning[/]: {escape(warning)}", soft_wrap=True)
        for line in explained(report):
            out.print(escape(line), soft_wrap=True)
        _print_verdict(out, verdict)
    for decision in summary["decisions"]:
        colour = _COLOURS[decision["outcome"]]
        word = _WORDS[decision["outcome"]]
        name, sentence = escape(decision["candidate"]), escape(decision["sentence"])
        out.print(f"[bold {colour}]{word}[/] {name}. {sentence}", soft_wrap=True)


def print_history(model: str, entries: Sequence[Mapping[str, Any]]) -> None:
    """Print the promotions of a model, the last first."""
    table = Table(title=f"champion of {escape(model)}", title_justify="left", title_style="bold")
    for heading in ("#", "when (UTC)", "action", "version", "replaced", "state", "why"):
        table.add_column(heading)
    for one in entries:
        known = (one["number"], one["opened"][:19], one["action"], one["version"])
        more = (one["replaces"] or "-", f"{one['state']}: {one['note']}", one["reason"])
        table.add_row(*(escape(str(cell)) for cell in (*known, *more)))
    console().print(table)


def print_findings(findings: Sequence[Any]) -> None:
    """Print what was verified, and whether it holds."""
    out = console()
    for one in findings:
        word = "[green]holds[/]" if one.holds else "[bold red]DOES NOT HOLD[/]"
        out.print(f"{word}  {escape(one.what)}: {escape(one.sentence)}", soft_wrap=True)


def explained(report: Mapping[str, Any]) -> list[str]:
    """Say which identity to look at first, and what happens at each threshold."""
    lines = [report["look_first"]["sentence"]]
    for kind, errors in report["thresholds"].items():
        rates = (errors["overall"][f"false_{of}_rate"]["value"] for of in ("positive", "negative"))
        flagged, missed = (f"{rate:.1%}" for rate in rates)
        name = "threshold of equal errors" if kind == "equal_errors" else "threshold"
        sums = "; ".join(_beside_chance(of.upper(), errors[of]) for of in ("fped", "fned"))
        lines.append(
            f"At the {name} {errors['threshold']:.4g}: {flagged} of harmless comments flagged, "
            f"{missed} of toxic ones missed. {sums}. {_worst_cell(errors['worst_group_accuracy'])}"
        )
    return lines


def print_where_to_look(output: Path, store: Path) -> None:
    """Print where the results are and how to see them."""
    out = console()
    out.print(f"\nReports and figures: {escape(str(output))}", soft_wrap=True)
    server = os.environ.get("MLFLOW_TRACKING_URI")
    where = server or f"{command()} ui --store {store}"
    out.print(f"Runs in MLflow:      {escape(where)}", soft_wrap=True)


def print_next_steps(output: Path) -> None:
    """Print what to look at after the demo."""
    heatmaps = " and ".join(str(path) for path in sorted(output.glob("templates/*/heatmap.png")))
    steps = {
        "look at": heatmaps,
        "compare": f"{command()} ui --store {output / 'store'}  (open `evaluate demo`)",
        "try": f"{command()} demo --strength 0  (nothing planted: both pass)",
        "measure": "your own model: README.md, section 'Your own model'",
    }
    out = console()
    out.print("\nWhat to do next:")
    for verb, what in steps.items():
        out.print(f"  {verb:8} {escape(what)}", soft_wrap=True)


def command() -> str:
    """Return what to type to run this command again: its path where it is not on PATH."""
    typed = sys.argv[0]
    on_path = shutil.which("biasgate")
    same = on_path is not None and Path(on_path).resolve() == Path(typed).resolve()
    return "biasgate" if same or not Path(typed).exists() else typed


def _table(report: Mapping[str, Any], verdict: Mapping[str, Any]) -> Table:
    bias = report["bias"]
    failed = {
        (one["group"], one["metric"]): one["outcome"] if one["action"] == "block" else "warn"
        for one in verdict["results"]
        if one["outcome"] not in {"pass", "skipped"}
    }
    overall, final = bias["overall"], bias["final_score"]
    title = (
        f"{escape(report['candidate']['name'])} on {escape(report['evaluation_set']['name'])}: "
        f"{overall['n']:,} rows, {overall['n_positive']:,} positive, AUC {_shown(overall['auc'])}, "
        f"final score {_shown(final)}"
    )
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("identity")
    for heading in ("n", "positive", *(name.replace("_", " ") for name in SUBGROUP_METRICS)):
        table.add_column(heading, justify="right")
    for name, cells in bias["subgroups"].items():
        values = [
            _coloured(
                _shown(cells[metric], signed=METRICS[metric].is_gap), failed.get((name, metric))
            )
            for metric in SUBGROUP_METRICS
        ]
        table.add_row(escape(name), f"{cells['n']:,}", f"{cells['n_positive']:,}", *values)
    means = bias["power_mean"]
    values = [_shown(means[name]) if name in means else "" for name in SUBGROUP_METRICS]
    table.add_section()
    table.add_row(f"power mean (p = {means['power']:g})", "", "", *values)
    return table


def _beside_chance(name: str, found: Mapping[str, Any]) -> str:
    """Return a sum of absolute differences with what chance alone makes of it."""
    if found["value"] is None:
        return f"{name} undefined"
    return (
        f"{name} {found['value']:.3f} (by chance {found['mean']['value']:.3f}, "
        f"rarely above {found['quantiles']['0.95']['value']:.3f})"
    )


def _worst_cell(found: Mapping[str, Any]) -> str:
    if not found["worst"]:
        return "No identity has rows."
    cell = found["worst"][0]
    kind = "toxic" if cell["label"] else "harmless"
    return (
        f"Worst: {kind} comments that mention {cell['subgroup']}, of which "
        f"{found['value']:.1%} of {cell['n']:,} are decided rightly."
    )


def _print_verdict(out: Console, verdict: Mapping[str, Any]) -> None:
    judged = [one for one in verdict["results"] if one["outcome"] != "skipped"]
    against = [one for kind in WORST_FIRST[:-1] for one in judged if one["outcome"] == kind]
    policy = escape(verdict["policy"]["name"])
    n_skipped = len(verdict["results"]) - len(judged)
    skipped = f" ({n_skipped} more need a champion to compare with)" if n_skipped else ""
    if not against:
        out.print(f"Policy {policy}: all {len(judged)} demands are met{skipped}.\n")
        return
    out.print(f"Policy {policy}: {len(against)} of {len(judged)} demands are not met{skipped}:")
    for one in against[:_SENTENCES]:
        kind = "warn" if one["action"] == "warn" else one["outcome"]
        out.print(f"  [{_COLOURS[kind]}]{kind}[/] {escape(one['sentence'])}", soft_wrap=True)
    if len(against) > _SENTENCES:
        out.print(f"  and {len(against) - _SENTENCES} more in verdict.json.")
    out.print("")


def _shown(cell: Mapping[str, Any], *, signed: bool = False) -> str:
    """Return a value with half the width of its interval."""
    value, low, high = (cell.get(key) for key in ("value", "low", "high"))
    if value is None:
        return "-"
    text = f"{value:+.3f}" if signed else f"{value:.3f}"
    return (
        text
        if low is None or high is None
        else f"{text} ±{(high - low) / 2:.3f}".replace("±0", "±")
    )


def _coloured(text: str, outcome: str | None) -> str:
    return text if outcome is None else f"[{_COLOURS[outcome]}]{text} ![/]"
