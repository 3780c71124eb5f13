"""The section of a night: what is news, and tonight's numbers beside those of the nights before."""

from __future__ import annotations

from dataclasses import dataclass

from biasgate.tasks.records.trend import Drifted, Trend
from biasgate.tasks.remembering.rows import Lines, lines_of


@dataclass(frozen=True)
class TrendView:
    """What the section says."""

    number: int
    n_before: int
    """Of tonight, and how many nights before are compared."""
    news: tuple[str, ...]
    """What changed."""
    tests: tuple[str, ...]
    """What was tested for drift, and what was not, with the reason."""
    lines: tuple[Lines, ...]
    """Every model on every set."""


def describe_trend(trend: Trend) -> TrendView:
    """Return what the page says of a night."""
    nights = trend.nights
    return TrendView(
        nights[-1].number,
        len(nights) - 1,
        tuple(nights[-1].news),
        tuple(result_in_words(one) for one in trend.drift),
        tuple(lines_of(nights)),
    )


def result_in_words(one: Drifted) -> str:
    """Say what was tested, and how it ended."""
    of = f"{one.candidate or 'the data'} on {one.evaluation_set}"
    if one.why_not is not None:
        return f"{of}: not tested for drift ({one.why_not})."
    shared = f", {one.n_shared:,} of them in both" if one.n_shared else ""
    rows = f"{one.n_now:,} comments against {one.n_before:,}{shared}"
    number = len(one.alarms)
    found = "no number changed by more than chance" if number == 0 else f"{number} changed"
    return f"{of}: {rows}; {found}."
