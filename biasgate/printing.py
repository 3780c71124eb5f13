"""Output of the commands that is not about an evaluation, and errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.padding import Padding

from biasgate.tasks.common.command_lines import command_line
from biasgate.tasks.common.console import console, shown
from biasgate.tasks.common.plain import plain
from biasgate.tasks.common.secrets import masked

if TYPE_CHECKING:
    from biasgate.tasks.ledger.entry import ListedEntry


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


def print_history(model: str, entries: Sequence[ListedEntry], *, everything: bool) -> None:
    """Print what moved, or was to move, the champion of a model, latest first; or everything."""
    out = console()
    out.print(f"[bold]champion of {shown(model)}[/] (times in UTC)")
    listed = [entry for entry in entries if everything or entry.action != "blocked"]
    if len(listed) < len(entries):
        left = len(entries) - len(listed)
        out.print(f"not shown: {left:,} of decisions after which nothing moved (--all)")
    for entry in listed:
        when = shown(entry.opened[:19].replace("T", " "))
        out.print(f"\n[bold]{entry.number}[/]  {when}  {entry.action}: ", end="")
        out.print(shown(_moved(entry)))
        lines = (f"{entry.state}: {entry.note}", f"why: {entry.reason}", entry.signed)
        for what in lines:
            out.print(Padding(shown(what), (0, 0, 0, 3)))


def _moved(entry: ListedEntry) -> str:
    """Return what an entry of the ledger is about."""
    if entry.action == "blocked":
        return f"version {', '.join(entry.blocked or ())}"
    if entry.action == "policy" and entry.policy is not None:
        return f"{entry.policy.name} {entry.policy.digest[:12]}"
    now = f"version {entry.version}" if entry.version else "no version"
    replaced = f"version {entry.replaces}" if entry.replaces else "none"
    return f"{now}, which replaced {replaced}"


def print_findings(findings: Sequence[Any]) -> None:
    """Print the checks of a verification, and whether each holds."""
    out = console()
    for finding in findings:
        word = "[green]holds[/]" if finding.checked else "[yellow]not checked[/]"
        word = word if finding.holds else "[bold red]DOES NOT HOLD[/]"
        out.print(f"{word}  {shown(finding.what)}: {shown(finding.sentence)}", soft_wrap=True)


def print_next_steps(output: Path, store: Path) -> None:
    """Print the next steps after the demo; a command ends its line, so that it can be copied."""
    blocked = output / "templates" / "biased_labels"
    places = "--from", blocked, "--store", store, "--output", f"{output}-mitigated"
    steps = {
        "look at the page in any browser": str(output / "report.html"),
        "compare the runs of `evaluate demo`": command_line("ui", "--store", store),
        "retrain against bias": command_line("mitigate", *places),
        "change the evaluation": command_line("evaluate", "demo", "--save", "my_demo.yaml"),
        "measure your own model": "docs/start.md in the repository",
    }
    out = console()
    out.print("\nWhat to do next:")
    for what, how in steps.items():
        out.print(f"  {what}: {shown(how)}", soft_wrap=True)
