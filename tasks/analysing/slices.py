"""Numbers of identities in parts of the rows: in each language, on each topic, or within one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    group_record,
)
from biasgate.tasks.data.evaluation_set import CLUSTER, SLICE, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records.numbers import CONFIDENCE

Bools = npt.NDArray[np.bool_]
_COUNTS = ("n", "n_positive", "n_negative")


class SlicesAnalysis(Analysis):
    """The metrics of each identity within each slice, side by side."""

    kind: Literal["slices"]
    column: str | None = None
    """Only the slices that this column of `slices_in` makes. Default: all slices."""
    min_support: Annotated[int, Field(ge=1)] = 10
    """Fewest toxic and fewest harmless comments of some identity in a slice. What the same column
    of `slices_in` makes with fewer is measured together, as COLUMN.(others)."""

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set without these slices."""
        del source
        if not _names(frozen, self.column):
            wanted = "`slices` or `slices_in`" if self.column is None else "`slices_in`"
            of = "" if self.column is None else f" with {self.column!r}"
            self.refuse(frozen, f"{wanted}{of}", "it has none")

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Measure every identity within each slice, against the slice's other comments."""
        columns = self.column, *getattr(rows.source, "slices_in", ())
        masks = {
            name: rows.column(f"{SLICE}{name}").astype(np.bool_)
            for name in _names(rows.frozen, self.column)
        }
        small = [name for name, inside in masks.items() if self._is_small(rows, inside)]
        rolled = []
        for column in filter(None, dict.fromkeys(columns)):
            few = [name for name in small if name.startswith(f"{column}.")]
            if len(few) > 1:
                masks[f"{column}.(others)"] = np.logical_or.reduce([masks.pop(x) for x in few])
                rolled += few
        checked = rows.evidence.measured.checked(rows.background)
        looked_at = len(masks) * len(rows.masks) * len(AUCS)
        found, together = (
            dict(
                evaluate_slices(
                    checked, rows.y_score, slices=masks, intervals="cells", confidence=level
                )
            )
            for level in (CONFIDENCE, bonferroni_level(looked_at, (1 - CONFIDENCE) / 2))
        )
        overall = rows.evidence.measurement
        names = sort_worst_first(
            {name: overall.measure_subgroup(name).compute_values(CONFIDENCE) for name in rows.masks}
        )
        result = {
            "rolled_up": rolled,
            "slices": {
                name: {
                    "n": report.counts[None].n,
                    "auc": report.overall.auc.to_dict(interval=True),
                    "subgroups": {one: group_record(report, one) for one in names},
                }
                for name, report in found.items()
            },
        }
        table = [_row(name, of, report) for name in names for of, report in found.items()]
        return Findings(result, tuple(_sentences(found, together, rolled)), table)

    def _is_small(self, rows: MeasuredRows, inside: Bools) -> bool:
        toxic, harmless = inside & rows.y_true, inside & ~rows.y_true
        return not any(
            min((mask & toxic).sum(), (mask & harmless).sum()) >= self.min_support
            for mask in rows.masks.values()
        )


def _names(frozen: EvaluationSet, column: str | None) -> list[str]:
    names = [one.removeprefix(SLICE) for one in frozen.columns if one.startswith(SLICE)]
    return [name for name in names if column is None or name.startswith(f"{column}.")]


def _cells(found: Mapping[str, BiasTable]) -> dict[tuple[str, str], list[MetricValue]]:
    """Return the AUCs of each identity in each slice."""
    return {
        (name, metric): [report.subgroups[name][metric] for report in found.values()]
        for name in next(iter(found.values())).subgroups
        for metric in AUCS
    }


def _sentences(
    found: Mapping[str, BiasTable], together: Mapping[str, BiasTable], few: list[str]
) -> Iterator[str]:
    """Say whose AUC differs most between slices; it is shown to if intervals do not overlap.

    These are the ones that hold `together`; those of `found` hold alone, and are told.
    """
    apart: dict[tuple[str, str], float] = {}
    each = _cells(found)
    for place, cells in _cells(together).items():
        known = [cell for cell in cells if cell.low is not None and cell.high is not None]
        if len(known) > 1:
            apart[place] = max(_end(x, "low") for x in known) - min(_end(x, "high") for x in known)
    most = max(apart, key=lambda place: apart[place], default=None)
    rolled = ""
    if few:
        rolled = f" Pooled, as they have few comments: {', '.join(few)}."
    n = format_count(len(found), "slice")
    if most is None:
        yield f"No identity has an AUC with an interval in two of the {n}.{rolled}"
        return
    name, metric = most
    numbers = "; ".join(
        f"{of} {cell}" for of, cell in zip(found, each[most], strict=True) if cell.value is not None
    )
    shown = apart[most] > 0
    how = "significant" if shown else "not significant"
    yield (
        f"Between {n}, {metric} of {name} differs most ({how} by simultaneous 95% intervals). Each "
        f"slice with its own interval: {numbers}.{rolled}"
    )


def _end(cell: MetricValue, end: Literal["low", "high"]) -> float:
    return float(getattr(cell, end))


def _row(name: str, of: str, report: BiasTable) -> Row:
    counts = report.counts[name]
    row: Row = {"identity": name, "slice": of} | {one: getattr(counts, one) for one in _COUNTS}
    for metric, cell in report.subgroups[name].items():
        row |= {metric: cell.value, f"{metric}_low": cell.low, f"{metric}_high": cell.high}
        row[f"{metric}_reason"] = cell.reason
    return row


Cells = Mapping[str, Mapping[str, MetricValue]]
_SAME = {"cluster": "of the same cluster", "length": "of about the same length"}


class TopicAnalysis(Analysis):
    """The metrics of each identity among comments of one cluster, and of about one length."""

    kind: Literal["topic"]
    bands: Annotated[int, Field(ge=2, le=100)] = 10
    """Bands of length, with equally many comments."""

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set without clusters and texts."""
        del source
        if CLUSTER not in frozen.columns and not frozen.has_text:
            self.refuse(frozen, "`cluster` or `text`", "it has neither")

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Measure within clusters, and within bands of length, beside the numbers of all pairs."""
        checked = rows.evidence.measured.checked(rows.background)
        everyone = {
            name: rows.evidence.measurement.measure_subgroup(name).compute_values(CONFIDENCE)
            for name in rows.masks
        }
        strata = {} if rows.clusters is None else {"cluster": rows.clusters}
        if rows.frozen.has_text:
            strata["length"] = self._bands(rows)
        found: dict[str, Cells] = {
            kind: measure_within_strata(checked, rows.y_score, codes, confidence=CONFIDENCE)
            for kind, codes in strata.items()
        }
        result = {
            kind: {
                name: {metric: cell.to_dict(interval=True) for metric, cell in cells.items()}
                for name, cells in of_kind.items()
            }
            for kind, of_kind in found.items()
        }
        told = (_sentence(kind, of_kind, everyone) for kind, of_kind in found.items())
        return Findings(result, tuple(told), _table(found, everyone))

    def _bands(self, rows: MeasuredRows) -> npt.NDArray[np.intp]:
        lengths = pc.utf8_length(rows.frozen.column("text")).to_numpy()[rows.measured]
        edges = np.quantile(lengths, np.linspace(0, 1, self.bands + 1)[1:-1])
        return np.asarray(np.searchsorted(edges, lengths, side="right"))


def _sentence(kind: str, found: Cells, everyone: Cells) -> str:
    """Say which AUC of an identity is most different, of those with an interval.

    One whose interval lies apart from that of all pairs comes first; else it may be chance.
    """
    moved = {
        (name, metric): (_apart(cell, everyone[name][metric]), change)
        for name, cells in found.items()
        for metric in AUCS
        if (cell := cells[metric]).low is not None and everyone[name][metric].value is not None
        for change in (abs(float(cell) - float(everyone[name][metric])),)
    }
    start = f"Among comments {_SAME[kind]}"
    if not moved:
        return f"{start}, no identity has an AUC with an interval."
    name, metric = max(moved, key=lambda one: moved[one])
    apart, _ = moved[name, metric]
    return (
        f"{start}, {metric} of {name} changes most: it is {found[name][metric]}, and "
        f"{everyone[name][metric]} among all comments"
        f"{'' if apart else '. This may be chance: the intervals overlap'}."
    )


def _apart(value: MetricValue, other: MetricValue) -> bool:
    """Return whether the intervals of two numbers have nothing in common."""
    if value.low is None or value.high is None or other.low is None or other.high is None:
        return False
    return value.high < other.low or other.high < value.low


def _table(found: Mapping[str, Cells], everyone: Cells) -> list[Row]:
    """Return one record per identity and metric, the numbers side by side."""
    table = []
    for name, cells in everyone.items():
        for metric, cell in cells.items():
            row: Row = {"identity": name, "metric": metric}
            for kind, one in (("all", cell), *((x, of[name][metric]) for x, of in found.items())):
                row |= {f"{kind}_{end}": getattr(one, end) for end in ("value", "low", "high")}
                row[f"{kind}_reason"] = one.reason
            table.append(row)
    return table
