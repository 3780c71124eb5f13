"""Figure of harm: error rates by identity at the threshold, else BPSN and BNSP AUCs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from bias_metrics.metrics import GIVEN, METRICS, find_subgroup_metric
from bias_metrics.thresholds import CountedShare
from biasgate.tasks.records import RATE_OF_GAP, Details, Report, Verdict
from biasgate.tasks.reporting.page.drawing import Axis, draw_interval
from biasgate.tasks.reporting.tables import format_bounds, format_number, format_percent

_TITLES = {
    "false_positive_rate": "Harmless comments flagged",
    "false_negative_rate": "Toxic comments missed",
}
_CHANGES = {
    "false_positive_rate": ("newly_flagged", "newly flagged"),
    "false_negative_rate": ("newly_missed", "newly missed"),
}
_WIDTH = 120  # pixels of a drawing, as in page.css
# The AUC by the class of an identity's comments that is harmed, without a threshold.
_AUCS = {
    "negative": find_subgroup_metric("negative", "positive"),
    "positive": find_subgroup_metric("positive", "negative"),
}


@dataclass(frozen=True)
class HarmRow:
    """A number of an identity with its interval, and the champion's number."""

    name: str
    n: int
    """The number of comments of the class that is harmed."""
    value: float
    low: float | None
    high: float | None
    champion: float | None
    changed: CountedShare | None
    """The decisions that differ from the champion's."""


@dataclass(frozen=True)
class HarmPanel:
    """A number of each identity, the worst first."""

    title: str
    hint: str
    rows: tuple[HarmRow, ...]
    overall: float | None
    """The number of all comments."""
    is_rate: bool = False
    """True for a share of comments, which is better if lower."""
    change: str = ""
    """The name of the decisions in `HarmRow.changed`; empty without a champion at a threshold."""

    @cached_property
    def axis(self) -> Axis:
        """The scale of the drawings, which spans the intervals."""
        if not self.is_rate:
            return Axis.from_aucs(row.low for row in self.rows)
        values = [value for row in self.rows for value in (row.high, row.value, row.champion)]
        most = max((value for value in [*values, self.overall] if value is not None), default=0.0)
        return Axis(0.0, max(math.ceil(20 * most) / 20, 0.05))

    @property
    def ends(self) -> str:
        """The two ends of the drawings, in words."""
        if not self.is_rate:
            return self.axis.ends.removeprefix("drawn from ")
        return f"0% to {100 * self.axis.high:g}%"

    def format_value(self, value: float | None) -> str:
        """Return a share in percent, or an AUC."""
        return format_percent(value) if self.is_rate or value is None else format_number(value)

    def format_interval(self, row: HarmRow) -> str:
        """Return the interval of a row; empty if it is undefined."""
        return format_bounds(row.low, row.high, self.format_value)

    def draw(self, row: HarmRow) -> Markup:
        """Draw a row: its interval, the champion's number, and a line for all comments."""
        limits = () if self.overall is None else (self.overall,)
        ends = row.value, row.low, row.high
        return draw_interval(self.axis, ends, limits=limits, rival=row.champion, width=_WIDTH)

    @property
    def has_champion(self) -> bool:
        """True if a row has the champion's number."""
        return any(row.champion is not None for row in self.rows)


def build_harm_panels(report: Report, verdict: Verdict, details: Details) -> tuple[HarmPanel, ...]:
    """Return two panels, of harmless comments that are flagged and toxic comments that are missed.

    Without a given threshold the panels have the AUCs of the same two kinds of harm.
    """
    at = None if details.curves is None else details.curves.named.get(GIVEN)
    if at is None:
        return tuple(_build_auc_panel(report, details, side) for side in _AUCS)
    return tuple(
        _build_rate_panel(report, verdict, details, metric, side, at)
        for metric, side in zip(RATE_OF_GAP, _AUCS, strict=True)
    )


def _count_rows(report: Report, name: str, side: str) -> int:
    counts = report.bias.counts[name]
    return counts.n_negative if side == "negative" else counts.n_positive


def _build_rate_panel(
    report: Report, verdict: Verdict, details: Details, metric: str, side: str, at: int
) -> HarmPanel:
    curves, rate = details.curves, RATE_OF_GAP[metric]
    assert curves is not None  # noqa: S101 - it has the given threshold
    change, words = _CHANGES[rate]
    changed, champion_rates = verdict.changed or {}, details.champion_rates or {}
    rows = [
        HarmRow(
            name,
            _count_rows(report, name, side),
            value,
            low,
            high,
            champion_rates.get(name, {}).get(rate),
            changed.get(name, {}).get(change),
        )
        for name, rates in curves.subgroups.items()
        if (value := getattr(rates, rate)[at]) is not None
        for low, high in [getattr(rates, f"{rate}_ends")[at]]
    ]
    return HarmPanel(
        _TITLES[rate],
        f"at threshold {curves.thresholds[at]:g}",
        tuple(sorted(rows, key=lambda row: row.value, reverse=True)),
        getattr(curves.overall, rate)[at],
        is_rate=True,
        change=words if changed else "",
    )


def _build_auc_panel(report: Report, details: Details, side: str) -> HarmPanel:
    bias, differences, metric = report.bias, details.champion, _AUCS[side]
    rows = []
    for name in details.scores.subgroups:
        cell = bias.subgroups[name][metric]
        if cell.value is not None:
            rival = None if differences is None else differences.subgroups[name][metric].second
            n = _count_rows(report, name, side)
            rows.append(HarmRow(name, n, cell.value, cell.low, cell.high, rival, None))
    rows.sort(key=lambda row: row.value)
    title, hint = METRICS[metric].title, METRICS[metric].hint
    return HarmPanel(title, hint, tuple(rows), bias.overall.auc.value)
