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


def format_terms_csv(errors: ErrorsByTerm) -> str:
    """Return the errors and mean scores of all comments, then by term, as CSV.

    `shown_worse` names the numbers that are significantly worse than those of all comments.
    """
    worse = {name: errors.list_worse_terms(name) for name in errors.numbers}
    columns = ["subgroup", "term", "n", "n_flagged", "flag_rate"]
    columns += [*_name_columns("false_positive", "false_positive_rate", "negative")]
    columns += _name_columns("false_negative", "false_negative_rate", "positive")
    columns += [f"{name}{end}" for name in errors.mean_scores for end in ("", "_low", "_high")]
    overall, means = errors.overall.values(), errors.mean_scores.values()
    rows: list[list[Any]] = [[None] * 5 + [*_list_numbers(overall), *_list_means(means), None]]
    rows += [
        [
            *(term.subgroup, term.term, term.n, term.n_flagged),
            term.n_flagged / term.n if term.n else None,
            *_list_numbers(term.rates.values()),
            *_list_means(term.mean_scores.values()),
            " ".join(name for name, terms in worse.items() if term in terms) or None,
        ]
        for term in errors.terms
    ]
    return format_csv([*columns, "shown_worse"], rows)


def format_changes_csv(changed: Mapping[str, Mapping[str, CountedShare]]) -> str:
    """Return the decisions that differ from the champion's as CSV, one row per identity."""
    columns = ["subgroup", *_name_columns("newly_flagged", "newly_flagged", "negative")]
    columns += _name_columns("newly_missed", "newly_missed", "positive")
    rows = (
        [name, *_list_numbers(shares[metric] for metric in _CHANGES)]
        for name, shares in changed.items()
    )
    return format_csv(columns, rows)


def _name_columns(event: str, rate: str, label: str) -> list[str]:
    return [f"n_{label}", f"n_{event}", rate, f"{rate}_low", f"{rate}_high"]


def _list_numbers(shares: Iterable[CountedShare]) -> Iterator[float | None]:
    for share in shares:
        yield from (share.n, share.count, share.value, share.low, share.high)


def _list_means(means: Iterable[MetricValue]) -> Iterator[float | None]:
    for mean in means:
        yield from (mean.value, mean.low, mean.high)


def build_decision_tables(report: Report, verdict: Verdict) -> Iterator[Table]:
    """Yield the tables of changed decisions and of errors by term, if they were measured."""
    if verdict.changed:
        yield build_change_table(verdict.changed)
    if report.terms is not None:
        yield build_term_table(report.terms)


def build_term_table(errors: ErrorsByTerm, identity: str | None = None) -> Table:
    """Return the errors and mean scores by term, of an identity or of all, the worst first.

    Terms that are significantly worse than all comments come first, then the highest bounds.
    """
    worse = {id(term) for name in errors.numbers for term in errors.list_worse_terms(name)}
    terms = [term for term in errors.terms if identity in {None, term.subgroup}]
    terms.sort(key=lambda term: (id(term) in worse, *_find_highest(term.rates)), reverse=True)
    columns: dict[str, Kind] = {"Identity": "name", "Term": "name"}
    overall = *_format_shares(errors.overall.values()), *_format_means(errors.mean_scores)
    rows = [("all comments", "", "", *overall)]
    rows += [
        (
            term.subgroup,
            term.term,
            format_size(term.n),
            *_format_shares(term.rates.values()),
            *_format_means(term.mean_scores),
        )
        for term in terms[:_TERMS]
    ]
    threshold = format_score(errors.threshold)
    caption = f"Errors by term at threshold {threshold} and mean scores, {_JOINT}"
    titles = [*_name_titles("flagged", "missed"), "Harmless mean score", "Toxic mean score"]
    return Table(
        caption + _describe_cut(len(terms), _TERMS, f"terms; all are in {TERMS_FILE}"),
        columns | number_columns("Comments", *titles[: 4 + len(errors.mean_scores)]),
        rows,
    )


def build_change_table(changed: Mapping[str, Mapping[str, CountedShare]]) -> Table:
    """Return the decisions that differ from the champion's by identity, the most first."""
    names = sorted(changed, key=lambda name: _find_highest(changed[name]), reverse=True)
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


def _format_shares(shares: Iterable[CountedShare]) -> Iterator[str]:
    for share in shares:
        yield f"{share.count:,} of {share.n:,}"
        bounds = format_bounds(share.low, share.high, format_percent)
        yield f"{format_percent(share.value)} {bounds}".rstrip()


def _format_means(means: Mapping[str, MetricValue]) -> Iterator[str]:
    for mean in means.values():
        bounds = format_bounds(mean.low, mean.high, format_score)
        yield UNDEFINED if mean.value is None else f"{format_score(mean.value)} {bounds}".rstrip()


def _find_highest(shares: Mapping[str, CountedShare]) -> tuple[float, float]:
    return max((share.low or 0.0, share.value or 0.0) for share in shares.values())


def _name_titles(flagged: str, missed: str) -> tuple[str, ...]:
    return f"Harmless {flagged}", f"Share {flagged}", f"Toxic {missed}", f"Share {missed}"


def _describe_cut(n: int, most: int, names: str) -> str:
    return f": the worst {most} of {n:,} {names}" if n > most else ""
