"""Output of the commands: tables, then the verdict in words."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from biasgate.tasks.common.plain import plain
from biasgate.tasks.common.printable import printable
from biasgate.tasks.common.secrets import masked

_Count = Literal["n_true_positive", "n_false_positive", "n_true_negative", "n_false_negative"]

if TYPE_CHECKING:
    from biasgate.tasks.ledger.entry import ListedEntry
    from biasgate.tasks.records import AtThreshold, BesideChance, Report

_WIDTH = 118
_LABELS: tuple[tuple[str, _Count, _Count], ...] = (
    ("toxic", "n_true_positive", "n_false_negative"),
    ("harmless", "n_true_negative", "n_false_positive"),
)


def console(*, stderr: bool = False) -> Console:
    """Return a console that does not cut tables if the output is not a terminal."""
    found = Console(stderr=stderr, highlight=False, emoji=False)
    if found.is_terminal or "COLUMNS" in os.environ:
        return found
    return Console(stderr=stderr, highlight=False, emoji=False, width=_WIDTH)


def shown(text: str, *, keep: str = "") -> str:
    """Return a text of others for the console: neither control characters nor markup work."""
    return escape(printable(text, keep=keep))


def print_error(text: str) -> None:
    """Print an error on standard error, with secrets masked."""
    text = shown(masked(text), keep="\n")
    console(stderr=True).print(f"[bold red]error[/]: {text}", soft_wrap=True)


def print_step(text: str) -> None:
    """Print a started or finished step on standard error."""
    console(stderr=True).print(f"  [dim]{shown(text)}[/]", soft_wrap=True)


def print_sentence(text: str, *, stderr: bool = False) -> None:
    """Print a result in words, which may name what others wrote."""
    console(stderr=stderr).print(shown(text), soft_wrap=True)


def print_json(content: Any) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(plain(content), indent=2) + "\n")


def print_history(model: str, entries: Sequence[ListedEntry]) -> None:
    """Print the promotions of a model, latest first."""
    out = console()
    out.print(f"[bold]champion of {shown(model)}[/] (times in UTC)")
    for one in entries:
        when = shown(one.opened[:19].replace("T", " "))
        out.print(f"\n[bold]{one.number}[/]  {when}  {one.action}: ", end="")
        out.print(shown(_moved(one)))
        lines = (f"{one.state}: {one.note}", f"why: {one.reason}", one.signed)
        for what in lines:
            out.print(Padding(shown(what), (0, 0, 0, 3)))


def _moved(entry: ListedEntry) -> str:
    """Return what an entry of the ledger is about."""
    if entry.action == "blocked":
        return f"version {', '.join(entry.blocked or ())}"
    if entry.action == "policy" and entry.policy is not None:
        return f"{entry.policy.name} {entry.policy.digest[:12]}"
    if entry.counted is not None:
        _, decisions = entry.counted
        return ", ".join(f"decision {one.number} on version {one.version}" for one in decisions)
    now = f"version {entry.version}" if entry.version else "no version"
    replaced = f"version {entry.replaces}" if entry.replaces else "none"
    return f"{now}, which replaced {replaced}"


def print_findings(findings: Sequence[Any]) -> None:
    """Print the checks of a verification, and whether each holds."""
    out = console()
    for one in findings:
        word = "[green]holds[/]" if one.holds else "[bold red]DOES NOT HOLD[/]"
        out.print(f"{word}  {shown(one.what)}: {shown(one.sentence)}", soft_wrap=True)


def explained(report: Report) -> list[str]:
    """Return which identity to look at first, and the errors at each threshold."""
    from biasgate.tasks.records import error_rates  # noqa: PLC0415 - numpy, as above
    from biasgate.tasks.reporting.headline import (  # noqa: PLC0415 - numpy
        analysis_sentences,
        upside_down,
    )

    lines = [] if upside_down(report) else [report.look_first.sentence]
    for kind, errors in report.thresholds.items():
        rates = (one.value for one in error_rates(errors.overall).values())
        flagged, missed = (f"{rate:.1%}" for rate in rates)
        name = "threshold of equal errors" if kind == "equal_errors" else "threshold"
        sums = "; ".join(_beside_chance(of.upper(), getattr(errors, of)) for of in ("fped", "fned"))
        lines.append(
            f"At the {name} {errors.threshold:.4g}: {flagged} of harmless comments flagged, "
            f"{missed} of toxic ones missed. {sums}. {_worst_cell(errors)}"
        )
    if report.calibration is not None:
        lines.append(report.calibration.sentence)
    return lines + analysis_sentences(report)


def print_next_steps(output: Path) -> None:
    """Print the next steps after the demo."""
    steps = {
        "look at": f"{output / 'report.html'}  (in any browser)",
        "compare": f"{command()} ui --store {output / 'store'}  (open `evaluate demo`)",
        "retrain": f"{command()} mitigate --from {output / 'templates' / 'biased_labels'} "
        f"--store {output / 'store'} --output {output}-mitigated  (the blocked model, unbiased)",
        "try": f"{command()} demo --strength 0  (nothing planted: both pass)",
        "measure": "your own model: README.md, section 'Your own model'",
    }
    out = console()
    out.print("\nWhat to do next:")
    for verb, what in steps.items():
        out.print(f"  {verb:8} {shown(what)}", soft_wrap=True)


def command() -> str:
    """Return how to run this command again: by its path if it is not on PATH."""
    typed = sys.argv[0]
    on_path = shutil.which("biasgate")
    same = on_path is not None and Path(on_path).resolve() == Path(typed).resolve()
    return "biasgate" if same or not Path(typed).exists() else typed


def _beside_chance(name: str, found: BesideChance) -> str:
    """Return a sum of absolute differences with its values by chance alone."""
    if found.value is None:
        return f"{name} undefined"
    return (
        f"{name} {found.value:.3f} (by chance {found.mean.value:.3f}, "
        f"rarely above {found.quantiles['0.95'].value:.3f})"
    )


def _worst_cell(errors: AtThreshold) -> str:
    """Return the identity and label with the lowest accuracy, of those with enough comments."""
    from bias_metrics.gate import LEAST_ROWS  # noqa: PLC0415 - numpy, as above

    cells = [
        (kind, name, getattr(of, right), getattr(of, right) + getattr(of, wrong))
        for name, of in ((name, errors.subgroups[name]) for name in errors.groups)
        for kind, right, wrong in _LABELS
    ]
    enough = [one for one in cells if one[3] >= LEAST_ROWS]
    n_few = len(cells) - len(enough)
    few = (
        f" {n_few:,} of {len(cells):,} pairs of identity and label have fewer than {LEAST_ROWS} "
        "comments, and are left out."
    )
    if not enough:
        return f"No identity has {LEAST_ROWS} toxic or {LEAST_ROWS} harmless comments."
    kind, name, n_right, n = min(enough, key=lambda one: one[2] / one[3])
    return (
        f"Worst: {kind} comments that mention {name}, of which "
        f"{n_right / n:.1%} of {n:,} are classified correctly.{few if n_few else ''}"
    )
