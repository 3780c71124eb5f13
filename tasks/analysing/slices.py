"""Bias metrics within parts of the rows: slices, clusters, and bands of text length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from pydantic import Field

from bias_metrics import BiasTable, MetricValue, evaluate_slices
from bias_metrics.families import bonferroni_level
from bias_metrics.metrics import AUCS
from bias_metrics.parts import format_count
from bias_metrics.report import measure_within_strata, sort_worst_first
from biasgate.tasks.analysing.analysis import (
    Analysis,
    Findings,
    MeasuredRows,
    Row,
    build_record,
)
from biasgate.tasks.data.evaluation_set import CLUSTER, SLICE, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records.numbers import CONFIDENCE

_COUNTS = ("n", "n_positive", "n_negative")


class SlicesAnalysis(Analysis):
    """The metrics of each identity within each slice."""

    kind: Literal["slices"]
    column: str | None = None
    """Only the slices that this column of `slices_in` makes. Default: all slices."""
    min_support: Annotated[int, Field(ge=1)] = 10
    """Fewest toxic and fewest harmless comments of some identity in a slice. What the same column
    of `slices_in` makes with fewer is measured together, as COLUMN.(others)."""

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set without these slices."""
        del source
        if not _list_slices(frozen, self.column):
            option = "`slices` or `slices_in`" if self.column is None else "`slices_in`"
            value = "" if self.column is None else f" with {self.column!r}"
            self.refuse(frozen, f"{option}{value}", "it has none")

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Measure every identity within each slice, against the slice's other comments."""
        columns = self.column, *getattr(rows.source, "slices_in", ())
        masks = {
            name: rows.column(f"{SLICE}{name}").astype(np.bool_)
            for name in _list_slices(rows.frozen, self.column)
        }
        small = [name for name, mask in masks.items() if self._is_small(rows, mask)]
        pooled = []
        for column in filter(None, dict.fromkeys(columns)):
            names = [name for name in small if name.startswith(f"{column}.")]
            if len(names) > 1:
                masks[f"{column}.(others)"] = np.logical_or.reduce(
                    [masks.pop(name) for name in names]
                )
                pooled += names
        checked = rows.evidence.rows.check_rows(rows.background)
        n_cells = len(masks) * len(rows.masks) * len(AUCS)
        reports, joint_reports = (
            dict(
                evaluate_slices(
                    checked, rows.y_score, slices=masks, intervals="cells", confidence=level
                )
            )
            for level in (CONFIDENCE, bonferroni_level(n_cells, (1 - CONFIDENCE) / 2))
        )
        measurement = rows.evidence.measurement
        identities = sort_worst_first(
            {
                name: measurement.measure_subgroup(name).compute_values(CONFIDENCE)
                for name in rows.masks
            }
        )
        result = {
            "rolled_up": pooled,
            "slices": {
                slice_: {
                    "n": report.counts[None].n,
                    "auc": report.overall.auc.to_dict(interval=True),
                    "subgroups": {name: build_record(report, name) for name in identities},
                }
                for slice_, report in reports.items()
            },
        }
        table = [
            _build_row(name, slice_, report)
            for name in identities
            for slice_, report in reports.items()
        ]
        return Findings(result, (_describe_largest_gap(reports, joint_reports, pooled),), table)

    def _is_small(self, rows: MeasuredRows, in_slice: npt.NDArray[np.bool_]) -> bool:
        """Return True if a slice has too few comments of every identity."""
        toxic, harmless = in_slice & rows.y_true, in_slice & ~rows.y_true
        return not any(
            min((mask & toxic).sum(), (mask & harmless).sum()) >= self.min_support
            for mask in rows.masks.values()
        )


def _list_slices(frozen: EvaluationSet, column: str | None) -> list[str]:
    names = [name.removeprefix(SLICE) for name in frozen.columns if name.startswith(SLICE)]
    return [name for name in names if column is None or name.startswith(f"{column}.")]


def _describe_largest_gap(
    reports: Mapping[str, BiasTable], joint_reports: Mapping[str, BiasTable], pooled: list[str]
) -> str:
    """Report the AUC that differs most between slices.

    The difference is significant if two simultaneous intervals, those of `joint_reports`, do not
    overlap. The printed intervals are those of `reports`.
    """
    distances: dict[tuple[str, str], float] = {}
    for name in next(iter(joint_reports.values())).subgroups:
        for metric in AUCS:
            cells = [report.subgroups[name][metric] for report in joint_reports.values()]
            bounds = [
                (cell.low, cell.high)
                for cell in cells
                if cell.low is not None and cell.high is not None
            ]
            if len(bounds) > 1:
                highest_low, lowest_high = max(low for low, _ in bounds), min(h for _, h in bounds)
                distances[name, metric] = highest_low - lowest_high
    n_slices = format_count(len(reports), "slice")
    note = f" Pooled, as they have few comments: {', '.join(pooled)}." if pooled else ""
    if not distances:
        return f"No identity has an AUC with an interval in two of the {n_slices}.{note}"
    name, metric = max(distances, key=lambda key: distances[key])
    numbers = "; ".join(
        f"{slice_} {cell}"
        for slice_, report in reports.items()
        if (cell := report.subgroups[name][metric]).value is not None
    )
    significance = "significant" if distances[name, metric] > 0 else "not significant"
    return (
        f"Between {n_slices}, {metric} of {name} differs most ({significance} by simultaneous 95% "
        f"intervals). Each slice with its own interval: {numbers}.{note}"
    )


def _build_row(name: str, slice_: str, report: BiasTable) -> Row:
    counts = report.counts[name]
    row: Row = {"identity": name, "slice": slice_}
    row |= {count: getattr(counts, count) for count in _COUNTS}
    for metric, cell in report.subgroups[name].items():
        row |= {metric: cell.value, f"{metric}_low": cell.low, f"{metric}_high": cell.high}
        row[f"{metric}_reason"] = cell.reason
    return row


Cells = Mapping[str, Mapping[str, MetricValue]]
_STRATA = {"cluster": "of the same cluster", "length": "of about the same length"}


class TopicAnalysis(Analysis):
    """The metrics of each identity among comments of the same cluster, and of similar length."""

    kind: Literal["topic"]
    bands: Annotated[int, Field(ge=2, le=100)] = 10
    """Bands of length, with equally many comments."""

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set without clusters and texts."""
        del source
        if CLUSTER not in frozen.columns and not frozen.has_text:
            self.refuse(frozen, "`cluster` or `text`", "it has neither")

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Measure within clusters and within bands of length, in addition to all pairs."""
        checked = rows.evidence.rows.check_rows(rows.background)
        overall = {
            name: rows.evidence.measurement.measure_subgroup(name).compute_values(CONFIDENCE)
            for name in rows.masks
        }
        strata = {} if rows.clusters is None else {"cluster": rows.clusters}
        if rows.frozen.has_text:
            strata["length"] = self._assign_bands(rows)
        cells_by_kind: dict[str, Cells] = {
            kind: measure_within_strata(checked, rows.y_score, codes, confidence=CONFIDENCE)
            for kind, codes in strata.items()
        }
        result = {
            kind: {
                name: {metric: cell.to_dict(interval=True) for metric, cell in group.items()}
                for name, group in cells.items()
            }
            for kind, cells in cells_by_kind.items()
        }
        sentences = (
            _describe_largest_change(kind, cells, overall) for kind, cells in cells_by_kind.items()
        )
        return Findings(result, tuple(sentences), _build_table(cells_by_kind, overall))

    def _assign_bands(self, rows: MeasuredRows) -> npt.NDArray[np.intp]:
        """Assign each row to a band of text length, by number."""
        lengths = pc.utf8_length(rows.frozen.column("text")).to_numpy()[rows.row_numbers]
        edges = np.quantile(lengths, np.linspace(0, 1, self.bands + 1)[1:-1])
        return np.asarray(np.searchsorted(edges, lengths, side="right"))


def _describe_largest_change(kind: str, within: Cells, overall: Cells) -> str:
    """Report the AUC that changes most within strata, among AUCs with an interval.

    AUCs whose interval does not overlap the interval among all comments take precedence.
    """
    changes: dict[tuple[str, str], tuple[bool, float]] = {}
    for name, cells in within.items():
        for metric in AUCS:
            cell, overall_cell = cells[metric], overall[name][metric]
            if cell.low is not None and overall_cell.value is not None:
                size = abs(float(cell) - float(overall_cell))
                changes[name, metric] = (_is_disjoint(cell, overall_cell), size)
    start = f"Among comments {_STRATA[kind]}"
    if not changes:
        return f"{start}, no identity has an AUC with an interval."
    name, metric = max(changes, key=lambda key: changes[key])
    is_disjoint, _ = changes[name, metric]
    return (
        f"{start}, {metric} of {name} changes most: it is {within[name][metric]}, and "
        f"{overall[name][metric]} among all comments"
        f"{'' if is_disjoint else '. This may be chance: the intervals overlap'}."
    )


def _is_disjoint(value: MetricValue, other: MetricValue) -> bool:
    """Return True if both numbers have an interval and the intervals do not overlap."""
    if value.low is None or value.high is None or other.low is None or other.high is None:
        return False
    return value.high < other.low or other.high < value.low


def _build_table(cells_by_kind: Mapping[str, Cells], overall: Cells) -> list[Row]:
    """Build a record per identity and metric, with the numbers of all kinds of strata."""
    table = []
    for name, group in overall.items():
        for metric in group:
            row: Row = {"identity": name, "metric": metric}
            for kind, cells in {"all": overall, **cells_by_kind}.items():
                cell = cells[name][metric]
                row |= {f"{kind}_{end}": getattr(cell, end) for end in ("value", "low", "high")}
                row[f"{kind}_reason"] = cell.reason
            table.append(row)
    return table
