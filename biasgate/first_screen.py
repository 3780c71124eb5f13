"""What an evaluation says on the terminal: first the verdicts in a few lines, then the numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from biasgate.printing import command, console, explained, shown
from biasgate.tasks.common.printable import printable
from biasgate.tasks.common.secrets import masked
from biasgate.tasks.outcomes import word_of

if TYPE_CHECKING:
    from biasgate.tasks.records import CandidateDecision, SetUse, Verdict
    from biasgate.tasks.reporting.results import Published, Results

COLOURS = {
    "pass": "green",
    "warn": "yellow",
    "fail": "red",
    "insufficient": "yellow",
    "error": "red",
    "reported": "cyan",
}
_SENTENCES = 8
_INDENT = 2


def print_results(results: Results, store: Path | None = None) -> None:
    """Print the verdicts, who is treated worst and where to look; then the numbers.

    The outcomes are printed again at the end, since the last lines are what a terminal shows.
    """
    out = console()
    _print_first(out, results)
    print_where_to_look(out, results, store)
    for one in results.each:
        out.print("")
        print_details(out, one)
    if results.summary is not None:
        _print_uses(out, results.summary.sets)
        told = [f"{word_of(one).text}: {one.candidate}" for one in results.summary.decisions]
        out.print(f"\n[bold]{shown('; '.join(told))}[/]", soft_wrap=True)
        out.print(f"Who is treated worst is said above, and again by: {_again(results)}")


def _print_uses(out: Console, sets: Sequence[SetUse]) -> None:
    """Print how often sets were used that have judged others, too."""
    from biasgate.tasks.gating.set_use import is_reused  # noqa: PLC0415 - numpy, as below

    for one in sets:
        if one.spent_by is not None:
            out.print(f"[yellow]warning[/]: {shown(one.sentence)}", soft_wrap=True)
        elif is_reused(one):
            out.print(shown(one.sentence), soft_wrap=True)


def _again(results: Results) -> str:
    return shown(f"{command()} show {results.folder}")


def _print_first(out: Console, results: Results) -> None:
    if results.summary is None:
        [only] = results.each
        first = only.headline
        _print_outcome(
            out, first.status, first.word, f"{first.candidate} on {first.evaluation_set}"
        )
        print_lines(out, [*first.exceptions, first.worst, first.counted])
        return
    for decision in results.summary.decisions:
        _print_decision(out, decision, results.each)


def _print_decision(out: Console, decision: CandidateDecision, each: Sequence[Published]) -> None:
    status = "reported" if decision.report_only else decision.outcome
    _print_outcome(out, status, word_of(decision).text, decision.candidate)
    of_candidate = [one.headline for one in each if one.names[1] == decision.candidate]
    for one in of_candidate:
        lines = [*one.exceptions, one.worst, one.counted]
        if len(of_candidate) > 1:
            print_lines(out, [f"{one.evaluation_set}: {one.word[:1].lower()}{one.word[1:]}"])
            print_lines(out, lines, _INDENT * 2)
        else:
            print_lines(out, lines)
    print_lines(out, [decision.sentence])


def _print_outcome(out: Console, status: str, word: str, name: str) -> None:
    out.print(f"[bold {COLOURS[status]}]{shown(word)}[/]: [bold]{shown(name)}[/]", soft_wrap=True)


def print_lines(
    out: Console, lines: Sequence[str], indent: int = _INDENT, word: Text | None = None
) -> None:
    """Print lines with an indent, also where they are wrapped; each begins with the word."""
    for line in lines:
        text = (word or Text()) + Text(printable(line))
        for part in text.wrap(out, max(out.width - indent, 1)):
            part.rstrip()
            out.print(Text(" " * indent) + part, soft_wrap=True)


def print_where_to_look(out: Console, results: Results, store: Path | None) -> None:
    """Print where the results are and how to see them."""
    places = {"Look at": str(results.page), "Files": str(results.folder)}
    server = os.environ.get("MLFLOW_TRACKING_URI")
    if server:
        places["MLflow"] = masked(server)
    elif store is not None:
        places["MLflow"] = f"{command()} ui --store {store}"
    for what, place in places.items():
        out.print(f"[bold]{what}[/]: {shown(place)}", soft_wrap=True)


def print_details(out: Console, one: Published) -> None:
    """Print the table of a candidate on a set, what it means, and the checks that did not pass."""
    from biasgate.tables import print_table  # noqa: PLC0415 - needs numpy, and messages do not
    from biasgate.tasks.reporting.headline import nights_sentences, year_sentences  # noqa: PLC0415

    print_table(out, one.report, one.verdict, COLOURS)
    for sentence in (*nights_sentences(one.verdict), *year_sentences(one.verdict)):
        print_lines(out, [sentence], 0)
    for warning in one.report.warnings:
        print_lines(out, [warning], 0, Text("warning", "yellow") + Text(": "))
    print_lines(out, explained(one.report), 0)
    _print_checks(out, one.verdict)


def _print_checks(out: Console, verdict: Verdict) -> None:
    from biasgate.tasks.reporting.headline import checks_not_passed, counted  # noqa: PLC0415

    against = checks_not_passed(verdict)
    policy = verdict.policy.name
    end = ":" if against else "."
    print_lines(out, [f"Policy {policy}, {counted(verdict)}{end}"], 0)
    for one in against[:_SENTENCES]:
        kind = "warn" if one.action == "warn" else one.outcome
        print_lines(out, [one.sentence], _INDENT, Text(kind, COLOURS[kind]) + Text(" "))
    if len(against) > _SENTENCES:
        out.print(f"  and {len(against) - _SENTENCES} more in verdict.json.")
