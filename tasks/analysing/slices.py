"""The same identity in each part of the rows, side by side: in each language, or on each topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from bias_metrics import BiasReport, MetricValue, SubgroupBias, evaluate_slices
from bias_metrics.metrics import AUCS
from bias_metrics.parts import counted
from bias_metrics.report import bonferroni_level, worst_first
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows, Row
from biasgate.tasks.data.evaluation_set import SLICE, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records import metric_cells
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
            dict(evaluate_slices(checked, rows.y_score, masks, intervals="cells", confidence=level))
            for level in (CONFIDENCE, bonferroni_level(looked_at, (1 - CONFIDENCE) / 2))
        )
        overall = rows.evidence.measurement
        names = worst_first({name: overall.subgroup(name).at(CONFIDENCE) for name in rows.masks})
        result = {
            "rolled_up": rolled,
            "slices": {
                name: {
                    "n": report.overall.n,
                    "auc": report.overall.auc.to_dict(interval=True),
                    "subgroups": {one: report.subgroups[one].to_dict() for one in names},
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


def _cells(found: Mapping[str, BiasReport]) -> dict[tuple[str, str], list[MetricValue]]:
    """Return the AUCs of each identity in each slice."""
    return {
        (name, metric): [metric_cells(report.subgroups[name])[metric] for report in found.values()]
        for name in next(iter(found.values())).subgroups
        for metric in AUCS
    }


def _sentences(
    found: Mapping[str, BiasReport], together: Mapping[str, BiasReport], few: list[str]
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
        rolled = f" Measured together, as they have few comments: {', '.join(few)}."
    n = counted(len(found), "slice")
    if most is None:
        yield f"In {n} no identity has an AUC with an interval in two of them.{rolled}"
        return
    name, metric = most
    numbers = "; ".join(
        f"{of} {cell}" for of, cell in zip(found, each[most], strict=True) if cell.value is not None
    )
    shown = apart[most] > 0
    how = "is shown to differ most" if shown else "differs most, but no AUC is shown to differ"
    yield (
        f"Between {n} {metric} of {name} {how}, by intervals that hold together at 95 %; each with "
        f"its own: {numbers}.{rolled}"
    )


def _end(cell: MetricValue, end: Literal["low", "high"]) -> float:
    return float(getattr(cell, end))


def _row(name: str, of: str, report: BiasReport) -> Row:
    bias: SubgroupBias = report.subgroups[name]
    row: Row = {"identity": name, "slice": of} | {one: getattr(bias, one) for one in _COUNTS}
    for metric, cell in metric_cells(bias).items():
        row |= {metric: cell.value, f"{metric}_low": cell.low, f"{metric}_high": cell.high}
        row[f"{metric}_reason"] = cell.reason
    return row
