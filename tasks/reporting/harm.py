"""The picture of harm: error rates of each identity at the threshold, else BPSN and BNSP AUCs."""

from __future__ import annotations

import math
from collections.abc import Iterator
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
# By the class of an identity's comments that is harmed: its AUC without a threshold.
_AUCS = {
    "negative": find_subgroup_metric("negative", "positive"),
    "positive": find_subgroup_metric("positive", "negative"),
}


@dataclass(frozen=True)
class HarmRow:
    """A number of an identity with its interval, and the champion's."""

    name: str
    n: int
    """Its comments of the class that is harmed."""
    value: float
    low: float | None
    high: float | None
    champion: float | None
    changed: CountedShare | None
    """The decisions that differ from the champion's."""


@dataclass(frozen=True)
class HarmPanel:
    """One number of every identity, the worst first."""

    title: str
    hint: str
    rows: tuple[HarmRow, ...]
    overall: float | None
    """The same of all comments."""
    is_rate: bool = False
    """Whether it is a share of comments: lower is better."""
    change: str = ""
    """What `HarmRow.changed` counts; empty without a champion at a threshold."""

    @cached_property
    def axis(self) -> Axis:
        """The scale of the drawings, which spans the intervals."""
        if not self.is_rate:
            return Axis.of_aucs(row.low for row in self.rows)
        ends = [end for row in self.rows for end in (row.high, row.value, row.champion)]
        most = max((end for end in [*ends, self.overall] if end is not None), default=0.0)
        return Axis(0.0, max(math.ceil(20 * most) / 20, 0.05))

    @property
    def ends(self) -> str:
        """The two ends of the drawings, in words."""
        if not self.is_rate:
            return self.axis.ends.removeprefix("drawn from ")
        return f"0% to {100 * self.axis.high:g}%"

    def text(self, value: float | None) -> str:
        """Return a share in percent, or an AUC."""
        return format_percent(value) if self.is_rate or value is None else format_number(value)

    def interval(self, row: HarmRow) -> str:
        """Return the interval of a row; empty if there is none."""
        if row.low is None or row.high is None:
            return ""
        return format_bounds(self.text(row.low), self.text(row.high))

    def draw(self, row: HarmRow) -> Markup:
        """Draw a row: its interval, the champion's number, and a line at that of all comments."""
        limits = () if self.overall is None else (self.overall,)
        ends = row.value, row.low, row.high
        return draw_interval(self.axis, ends, limits=limits, rival=row.champion, width=_WIDTH)

    @property
    def has_champion(self) -> bool:
        """Whether a row has the champion's number."""
        return any(row.champion is not None for row in self.rows)


def build_harm_panels(report: Report, verdict: Verdict, details: Details) -> tuple[HarmPanel, ...]:
    """Return two panels: of harmless comments that are flagged, and of toxic ones that are missed.

    Without a given threshold they show which AUCs are low, by the same two kinds of harm.
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
    changed = verdict.changed or {}

    def rows() -> Iterator[HarmRow]:
        for name, of_group in curves.subgroups.items():
            value = getattr(of_group, rate)[at]
            if value is not None:
                low, high = getattr(of_group, f"{rate}_ends")[at]
                champion = (details.champion_rates or {}).get(name, {}).get(rate)
                of_change = changed.get(name, {}).get(change)
                n = _count_rows(report, name, side)
                yield HarmRow(name, n, value, low, high, champion, of_change)

    overall = getattr(curves.overall, rate)[at]
    ordered = sorted(rows(), key=lambda row: row.value, reverse=True)
    hint = f"at threshold {curves.thresholds[at]:g}"
    return HarmPanel(
        _TITLES[rate],
        hint,
        tuple(ordered),
        overall,
        is_rate=True,
        change=words if changed else "",
    )


def _build_auc_panel(report: Report, details: Details, side: str) -> HarmPanel:
    bias, differences, metric = report.bias, details.champion, _AUCS[side]
    rows = []
    for name in details.scores.subgroups:
        cell = bias.subgroups[name][metric]
        if cell.value is not None:
            champion = None
            if differences is not None:
                champion = differences.subgroups[name][metric].second
            n = _count_rows(report, name, side)
            rows.append(HarmRow(name, n, cell.value, cell.low, cell.high, champion, None))
    rows.sort(key=lambda row: row.value)
    known = METRICS[metric]
    return HarmPanel(known.title, known.hint, tuple(rows), bias.overall.auc.value)
