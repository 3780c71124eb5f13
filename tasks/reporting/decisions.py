"""Tables and CSV of errors and mean scores by term, and of changed decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bias_metrics import MetricValue
from bias_metrics.thresholds import CountedShare, ErrorsByTerm
from biasgate.tasks.common.csv_files import format_csv
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.reporting.tables import (
    ROWS,
    UNDEFINED,
    Kind,
    Table,
    format_bounds,
    format_percent,
    format_score,
    format_size,
    number_columns,
)

TERMS_FILE, CHANGED_FILE = "terms.csv", "changed_decisions.csv"
_JOINT = "simultaneous 95% intervals"
_CHANGES = ("newly_flagged", "newly_missed")
_TERMS = ROWS - 1  # most terms in a table, whose first row is all comments


def format_terms_csv(found: ErrorsByTerm) -> str:
    """Return the errors and mean scores by term as CSV, those of all comments first.

    `shown_worse` names the numbers that are significantly worse than those of all comments.
    """
    worse = {name: found.list_worse_terms(name) for name in found.numbers}
    columns = ["subgroup", "term", "n", "n_flagged", "flag_rate"]
    columns += [*_name_columns("false_positive", "false_positive_rate", "negative")]
    columns += _name_columns("false_negative", "false_negative_rate", "positive")
    columns += [f"{name}{end}" for name in found.mean_scores for end in ("", "_low", "_high")]
    rows: list[list[Any]] = [
        [None] * 5
        + [*_list_numbers(found.overall.values()), *_list_means(found.mean_scores.values()), None]
    ]
    rows += [
        [
            *(one.subgroup, one.term, one.n, one.n_flagged),
            one.n_flagged / one.n if one.n else None,
            *_list_numbers(one.rates.values()),
            *_list_means(one.mean_scores.values()),
            " ".join(name for name, terms in worse.items() if one in terms) or None,
        ]
        for one in found.terms
    ]
    return format_csv([*columns, "shown_worse"], rows)


def format_changes_csv(changed: Mapping[str, Mapping[str, CountedShare]]) -> str:
    """Return the decisions that differ from the champion's as CSV, one row per identity."""
    columns = ["subgroup", *_name_columns("newly_flagged", "newly_flagged", "negative")]
    columns += _name_columns("newly_missed", "newly_missed", "positive")
    rows = (
        [name, *_list_numbers(of[metric] for metric in _CHANGES)] for name, of in changed.items()
    )
    return format_csv(columns, rows)


def _name_columns(event: str, rate: str, label: str) -> list[str]:
    return [f"n_{label}", f"n_{event}", rate, f"{rate}_low", f"{rate}_high"]


def _list_numbers(found: Iterable[CountedShare]) -> Iterator[float | None]:
    for one in found:
        yield from (one.n, one.count, one.value, one.low, one.high)


def _list_means(found: Iterable[MetricValue]) -> Iterator[float | None]:
    for one in found:
        yield from (one.value, one.low, one.high)


def build_decision_tables(report: Report, verdict: Verdict) -> Iterator[Table]:
    """Yield the tables of changed decisions and of errors by term, where there are any."""
    if verdict.changed:
        yield build_change_table(verdict.changed)
    if report.terms is not None:
        yield build_term_table(report.terms)


def build_term_table(found: ErrorsByTerm, identity: str | None = None) -> Table:
    """Return the errors and mean scores by term, of one identity or of all, the worst first.

    These are the terms that are shown to be worse than all comments, then the highest bounds.
    """
    worse = {id(one) for name in found.numbers for one in found.list_worse_terms(name)}
    terms = [one for one in found.terms if identity in {None, one.subgroup}]
    terms.sort(key=lambda one: (id(one) in worse, *_find_highest(one.rates.values())), reverse=True)
    names: dict[str, Kind] = {"Identity": "name", "Term": "name"}
    rows = [
        (
            "all comments",
            "",
            "",
            *_format_shares(found.overall.values()),
            *_format_means(found.mean_scores),
        )
    ]
    rows += [
        (
            one.subgroup,
            one.term,
            format_size(one.n),
            *_format_shares(one.rates.values()),
            *_format_means(one.mean_scores),
        )
        for one in terms[:_TERMS]
    ]
    caption = (
        f"Errors by term at threshold {format_score(found.threshold)} and mean scores, {_JOINT}"
    )
    titles = [*_name_titles("flagged", "missed"), "Harmless mean score", "Toxic mean score"]
    return Table(
        caption + _describe_cut(len(terms), _TERMS, f"terms; all are in {TERMS_FILE}"),
        names | number_columns("Comments", *titles[: 4 + len(found.mean_scores)]),
        rows,
    )


def build_change_table(changed: Mapping[str, Mapping[str, CountedShare]]) -> Table:
    """Return the decisions that differ from the champion's by identity, most first."""
    names = sorted(changed, key=lambda name: _find_highest(changed[name].values()), reverse=True)
    rows = [
        (name, *_format_shares(changed[name][metric] for metric in _CHANGES))
        for name in names[:ROWS]
    ]
    caption = f"Decisions that differ from the champion's, {_JOINT}"
    return Table(
        caption + _describe_cut(len(names), ROWS, f"identities; all are in {CHANGED_FILE}"),
        {"Identity": "name", **number_columns(*_name_titles("newly flagged", "newly missed"))},
        rows,
    )


def _format_shares(found: Iterable[CountedShare]) -> Iterator[str]:
    for one in found:
        yield f"{one.count:,} of {one.n:,}"
        ends = ""
        if one.low is not None and one.high is not None:
            ends = f" {format_bounds(format_percent(one.low), format_percent(one.high))}"
        yield f"{format_percent(one.value)}{ends}"


def _format_means(found: Mapping[str, MetricValue]) -> Iterator[str]:
    for one in found.values():
        ends = "" if one.ends is None else f" {format_bounds(*map(format_score, one.ends))}"
        yield UNDEFINED if one.value is None else f"{format_score(one.value)}{ends}"


def _find_highest(found: Iterable[CountedShare]) -> tuple[float, float]:
    return max((one.low or 0.0, one.value or 0.0) for one in found)


def _name_titles(flagged: str, missed: str) -> tuple[str, ...]:
    return f"Harmless {flagged}", f"Share {flagged}", f"Toxic {missed}", f"Share {missed}"


def _describe_cut(n: int, most: int, what: str) -> str:
    return f": the worst {most} of {n:,} {what}" if n > most else ""
