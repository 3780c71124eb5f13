"""Results on the terminal: a few lines on the verdicts, and all numbers on request."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path

from rich.console import Console
from rich.text import Text

from bias_metrics.gate import RIVALS
from bias_metrics.metrics import GIVEN, METRICS
from biasgate.tasks.common.command_lines import format_command, format_path, format_store_option
from biasgate.tasks.common.console import escape_text, make_console, print_text, wrap_text
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.secrets import mask_secrets
from biasgate.tasks.measuring.explaining import describe_harm
from biasgate.tasks.records import Report, Summary, Value, list_error_rates
from biasgate.tasks.records.trend import Night
from biasgate.tasks.remembering.moved import find_moves
from biasgate.tasks.remembering.rows import compare_nights
from biasgate.tasks.reporting.comparing import CandidateComparison
from biasgate.tasks.reporting.decisions import build_decision_tables, build_term_table
from biasgate.tasks.reporting.leaderboard import Leaderboard, build_leaderboard
from biasgate.tasks.reporting.page.grids import DIFFERS, LIMITS, MARKS, build_difference, build_grid
from biasgate.tasks.reporting.results import SUMMARY, Published, Results
from biasgate.tasks.reporting.story import TERMS, Story, describe_terms, list_gains
from biasgate.tasks.reporting.tables import build_night_table, format_percent, format_score
from biasgate.tasks.reporting.terminal_table import (
    COLOURS,
    ROWS,
    format_half_width,
    print_leaderboard,
    print_rows,
    print_table,
    print_text_table,
)
from biasgate.tasks.wording import (
    MARKED,
    describe_changed_decisions,
    describe_losses,
    shorten_names,
)

_CHECKS = 8  # most checks that did not pass
_NAMES = 5  # most names in a list
_INDENT = 2
_LINES = 6  # most lines below the leaderboard


def print_results(
    results: Results,
    store: Path | None = None,
    *,
    everything: bool = False,
    identity: str | None = None,
    as_written: bool = False,
) -> None:
    """Print the leaderboard and the next commands; with `everything` also summaries and tables.

    `as_written` means that others may have written the results; the command that verifies them is
    then printed.

    Raises
    ------
    InputError
        If the identity is not measured.
    """
    out = make_console()
    if identity is None:
        _print_board(out, results, store, everything=everything)
    else:
        _print_identity(out, results, identity)
    if as_written:
        _print_verify_hint(out, results)
    for published in results.published if everything and identity is None else ():
        out.print("")
        print_details(out, published)


def _print_board(out: Console, results: Results, store: Path | None, *, everything: bool) -> None:
    """Print the leaderboard, its notices, and the next commands."""
    board = build_leaderboard(results.candidates)
    print_text(out, Text(escape_invisible(board.headline), "bold"), indent=0, in_pipe=True)
    if board.rows:
        out.print("")
        print_leaderboard(out, board)
        out.print("")
    places = _format_places(out, _list_places(results, board, store, everything=everything))
    if everything or results.summary is None:
        for candidate in board.candidates:
            word = escape_invisible(candidate.word.text), f"bold {COLOURS[candidate.badge]}"
            name = escape_invisible(candidate.name), "bold"
            print_text(out, Text.assemble(word, ": ", name))
            for text in candidate.sentences:
                print_text(out, Text(escape_invisible(text)), in_pipe=True)
    else:
        _print_notices(out, results, board, _LINES - len(places))
    for place in places:
        out.print(place, soft_wrap=True)


def _print_notices(out: Console, results: Results, board: Leaderboard, most: int) -> None:
    """Print limits of the outcomes, then other facts that fit into `most` lines."""
    notices = [*_list_news(results.summary), *board.notices]
    texts = [wrap_text(out, Text(escape_invisible(text))) for text in notices]
    ends = list(accumulate(map(len, texts)))
    fits = not texts or ends[-1] <= most
    n_shown = len(texts) if fits else bisect_right(ends, most - 1)
    for part in chain.from_iterable(texts[:n_shown]):
        out.print(part, soft_wrap=True)
    if not fits:
        everything = escape_text(format_command("show", results.folder, "--all"))
        out.print(f"[dim]and {len(texts) - n_shown:,} more: {everything}[/]", soft_wrap=True)
        return
    left = most - (ends[-1] if ends else 0)
    facts = [board.threshold_note]
    if len(board.candidates) == 1:
        [candidate] = board.candidates
        facts = [candidate.headline, candidate.requirements, *facts]
    for fact in filter(None, facts):
        lines = wrap_text(out, Text(escape_invisible(fact)))
        if len(lines) <= left:
            left -= len(lines)
            for part in lines:
                out.print(part, soft_wrap=True)


def _list_news(summary: Summary | None) -> Iterator[str]:
    """Yield sets that were used too often, then identities that moved, then other reused sets."""
    if summary is None:
        return
    yield from (f"warning: {use.sentence}" for use in summary.sets if use.spent_by is not None)
    yield from summary.moved
    reused = (use for use in summary.sets if use.is_reused and use.spent_by is None)
    yield from (use.sentence for use in reused)


def _format_places(out: Console, places: Mapping[str, str]) -> list[Text]:
    """Return unwrapped lines of commands and addresses; the last two may share a line."""
    lines = [_format_place(label, place) for label, place in places.items()]
    if [*places][-2:] == ["Report", "MLflow"] and sum(map(len, lines[-2:])) + 3 <= out.width:
        lines[-2:] = [Text("   ").join(lines[-2:])]
    return lines


def _format_place(label: str, place: str) -> Text:
    return Text.assemble((label, "bold"), f": {escape_invisible(place)}")


def _print_identity(out: Console, results: Results, identity: str) -> None:
    """Print all numbers, checks and sentences on an identity."""
    names = {name for published in results.published for name in published.report.bias.subgroups}
    # Names can be copied from the screen.
    names_as_shown = {escape_invisible(name): name for name in sorted(names)}
    if identity not in names and identity not in names_as_shown:
        msg = f"`--identity` must be one of {', '.join(names_as_shown)}; got {identity!r}."
        raise InputError(msg)
    identity = identity if identity in names else names_as_shown[identity]
    for published in results.published:
        report, story = published.report, published.story
        if identity not in report.bias.subgroups:
            continue
        print_text(out, Text(escape_invisible(f"{identity}, {story.title}"), "bold"))
        if worst := describe_terms(report, identity):
            print_text(out, Text(f"  {TERMS}: {escape_invisible(worst)}."), in_pipe=True)
        differences = published.differences
        grid = build_grid(report, published.verdict, (*LIMITS, *RIVALS), differences=differences)
        for row in (row for row in grid.rows if row.name == identity):
            out.print(f"  {row.n} comments, {row.n_positive} toxic")
            for column, cell in zip(grid.columns, row.cells, strict=True):
                change = f"  {cell.change} than the champion's" if cell.change else ""
                rival = f"  champion {cell.rival}" if cell.rival else ""
                value = f"{cell.text} {cell.interval}" if cell.text else f"undefined: {cell.lack}"
                text = f"  {column.title:13} {cell.mark or ' '} {value}{rival}{change}"
                print_text(out, Text(escape_invisible(text), COLOURS.get(cell.status, "")))
        for line in _describe_rates(report, identity):
            print_text(out, Text(f"  {escape_invisible(line)}"))
        if report.terms and any(term.subgroup == identity for term in report.terms.terms):
            print_text_table(out, build_term_table(report.terms, identity))
        sentences = [describe_harm(report.bias, report.harms, identity)]
        sentences += [check.sentence for check in story.unmet if check.result.group == identity]
        for text in filter(None, sentences):
            print_text(out, Text(escape_invisible(text)), in_pipe=True)


def _describe_rates(report: Report, identity: str) -> Iterator[str]:
    """Yield shares of an identity's comments, and its error rates at the given threshold."""
    for kind, comments in report.marked.items():
        share, overall = comments.subgroups[identity], comments.overall.rate
        yield (
            f"{share.n_marked:,} of {share.n:,} comments {MARKED[kind]} "
            f"({format_percent(share.rate.value)}), {format_percent(overall.value)} of all"
        )
    at = report.thresholds.get(GIVEN)
    if at is None or identity not in at.subgroups:
        return
    rates = list_error_rates(at.subgroups[identity]).values()
    titles = ("harmless comments flagged", "toxic comments missed")
    for title, rate, every in zip(
        titles, rates, list_error_rates(at.overall).values(), strict=True
    ):
        yield (
            f"At threshold {format_score(at.threshold)}: {format_percent(rate.value)} of {title}, "
            f"{format_percent(every.value)} of all"
        )


def _print_lines(
    out: Console, lines: Sequence[str], indent: int = _INDENT, word: Text | None = None
) -> None:
    """Print lines that begin with `word`; wrapped parts keep the indent."""
    for line in lines:
        text = (word or Text()) + Text(escape_invisible(line))
        print_text(out, Text(" " * indent) + text, indent=0, in_pipe=True)


def _print_verify_hint(out: Console, results: Results) -> None:
    folder = results.folder
    whole = folder.resolve().parent.parent
    required = {name for entry in results.published for name in entry.verdict.required_sets}
    other_sets = required - {entry.names[0] for entry in results.published}
    if results.summary is None and other_sets and (whole / SUMMARY).exists():
        # A verdict is verified with the other sets that it requires.
        folder = Path(os.path.relpath(whole))
    check = format_command("verify", format_path(folder))
    out.print(_format_place("Not verified. To verify", check), soft_wrap=True)


def _list_places(
    results: Results, board: Leaderboard, store: Path | None, *, everything: bool
) -> dict[str, str]:
    """Return the next command, the page and the tracking server, each by its label."""
    folder = str(results.folder)
    place = folder if results.summary is None else ""
    command = board.candidates[0].suggest_command(folder, place, results.store_path)
    places = {"Next": format_command(*command), "Report": str(results.page)}
    if results.summary is None and "--all" not in command and not everything:
        places["All numbers"] = format_command("show", results.folder, "--all")
    server = os.environ.get("MLFLOW_TRACKING_URI")
    if server:
        places["MLflow"] = mask_secrets(server)
    elif store is not None:
        places["MLflow"] = format_command("ui", "--store", store)
    return places


def print_details(out: Console, published: Published) -> None:
    """Print the table of a candidate on a set, its meaning, and the unmet checks."""
    story = published.story
    print_table(out, published.report, published.verdict)
    for table in build_decision_tables(published.report, published.verdict):
        print_text_table(out, table)
        out.print("")
    _print_lines(out, [*story.exceptions, *story.basis], 0)
    _print_lines(out, story.warnings, 0, Text("warning", "yellow") + Text(": "))
    _print_lines(out, list(explain_report(published.report, story)), 0)
    end = ":" if story.unmet else "."
    _print_lines(out, [f"Policy {story.policy}, {story.check_counts}{end}"], 0)
    for check in story.unmet[:_CHECKS]:
        word = Text(escape_invisible(check.word), COLOURS.get(check.status, "")) + Text(": ")
        _print_lines(out, [check.sentence], _INDENT, word)
    if len(story.unmet) > _CHECKS:
        out.print(f"  and {len(story.unmet) - _CHECKS} more in verdict.json.")


def explain_report(report: Report, story: Story) -> Iterator[str]:
    """Yield the identity to look at first, errors at thresholds, and findings of analyses."""
    if story.look_first != story.headline:
        yield story.look_first
    for kind, errors in report.thresholds.items():
        flagged, missed = (
            f"{rate.value:.1%}" for rate in list_error_rates(errors.overall).values()
        )
        name = "threshold of equal errors" if kind == "equal_errors" else "threshold"
        yield (
            f"At the {name} {errors.threshold:.4g}: {flagged} of harmless comments flagged, "
            f"{missed} of toxic comments missed. FPED {_format_value(errors.fped)}; "
            f"FNED {_format_value(errors.fned)}."
        )
    yield from (*story.remarks, *story.analyses)


def _format_value(cell: Value) -> str:
    return f"undefined ({cell.reason})" if cell.value is None else f"{cell.value:.3f}"


def print_comparisons(compared: Sequence[CandidateComparison]) -> None:
    """Print losses, gains and significant differences, then all differences."""
    out = make_console()
    for at, comparison in enumerate(compared):
        if at:
            out.print("")
        _print_comparison(out, comparison)


def _print_comparison(out: Console, compared: CandidateComparison) -> None:
    title = escape_invisible(f"{compared.first} minus {compared.second}")
    print_text(out, Text(title, "bold"))
    lines = []
    if compared.paired:
        lines = [
            describe_losses(compared.worsened, compared.second),
            _describe_gains(compared),
            _describe_differences(compared),
        ]
    if compared.changed is not None:
        lines.append(
            f"Changed decisions (not tested): {describe_changed_decisions(compared.changed)}."
        )
    if compared.reason is not None:
        lines = [f"No intervals, so no difference can be tested: {compared.reason}."]
    if compared.left_out:
        lines.append(f"Only one of the two has {shorten_names(compared.left_out, _NAMES)}.")
    _print_lines(out, lines)
    table = compared.comparison
    auc, final = (
        format_half_width(build_difference(cell, "plain", table.confidence).number, signed=True)
        for cell in (table.overall.auc, table.overall.final_score)
    )
    title = (
        f"Differences on {escape_invisible(compared.evaluation_set)}: {table.counts[None].n:,} "
        f"rows, AUC {auc}, final score {final}"
    )
    rows = compared.rows
    intervals = print_rows(out, title, rows[:ROWS])
    if len(rows) > ROWS:
        out.print(f"... and {len(rows) - ROWS:,} more identities with --json")
    legend = ["AUCs: above 0 the first is better. AEGs: neither sign is better."]
    if compared.paired and not intervals:
        legend.append("Intervals: --json, or at least 76 columns.")
    if compared.paired:
        sign, words = DIFFERS
        marks = f"{MARKS['fail'][0]} significantly worse, {sign} {words}"
        legend.append(f"{marks} (Holm-adjusted for all).")
    print_text(out, Text(" ".join(legend), "dim"), indent=0, in_pipe=True)


def _describe_gains(compared: CandidateComparison) -> str:
    """Return the largest significant gain, and name other identities with gains."""
    gains = list_gains(compared.comparison)
    if not gains:
        second = escape_invisible(compared.second)
        return f"No identity is significantly better than under {second}."
    others = list(dict.fromkeys(gain.group for gain in gains if gain.group != gains[0].group))
    also = f"; also {shorten_names(others, _NAMES)}" if others else ""
    return f"Significantly better than {escape_invisible(compared.second)}: {gains[0].text}{also}."


def _describe_differences(compared: CandidateComparison) -> str:
    n = len(compared.comparison.subgroups)
    groups = compared.differing_groups
    if not groups:
        return f"No significant difference for the {n:,} identities."
    names = shorten_names(groups, _NAMES)
    return f"Significant differences for {len(groups):,} of {n:,} identities: {names}."


def print_trend(
    nights: Sequence[Night], metric: str | None, store: str = "", *, everything: bool = False
) -> None:
    """Print identities that moved and other news; all numbers only on request."""
    out = make_console()
    *before, last = nights
    out.print(f"[bold]night {last.number}, {last.at[:10]}[/]")
    _print_lines(out, last.news or ["Nothing changed."])
    for move in (move for move in find_moves(nights) if metric in {None, move.metric}):
        values = f"{METRICS[move.metric].title} {' '.join(move.texts)}  {move.bars}"
        title = f"{move.candidate} on {move.evaluation_set}"
        print_text(out, Text(escape_invisible(f"  {move.group:<24} {values}  {title}")))
    for night in reversed(before):
        first, *others = night.news or ["nothing changed."]
        more = f" (and {len(others):,} more)" if others else ""
        text = f"night {night.number}, {night.at[:10]}: {first}{more}"
        print_text(out, Text(escape_invisible(text)))
    if not everything and metric is None:
        again = format_command("trend", last.evaluation, "--all", *format_store_option(store))
        out.print(_format_place("Every number", again), soft_wrap=True)
        return
    for lines in compare_nights(nights):
        models = "; ".join(filter(None, (lines.model, lines.before)))
        title = f"{lines.candidate} ({models}) on {lines.evaluation_set}"
        out.print("")
        print_text_table(out, replace(build_night_table(lines, metric), caption=title))
