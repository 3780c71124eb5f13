"""Whether an identity's numbers are those of the articles, or the length, that it comes with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from pydantic import Field

from bias_metrics import MetricValue
from bias_metrics.metrics import AUCS
from bias_metrics.report import within_strata
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows, Row
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.choose import CLUSTER
from biasgate.tasks.records import metric_cells
from biasgate.tasks.records.numbers import CONFIDENCE

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
            name: metric_cells(rows.evidence.measurement.subgroup(name).at(CONFIDENCE))
            for name in rows.masks
        }
        strata = {} if rows.clusters is None else {"cluster": rows.clusters}
        if rows.frozen.has_text:
            strata["length"] = self._bands(rows)
        found: dict[str, Cells] = {
            kind: within_strata(checked, rows.y_score, codes, confidence=CONFIDENCE)
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
        return f"{start} no AUC of an identity has an interval."
    name, metric = max(moved, key=lambda one: moved[one])
    apart, _ = moved[name, metric]
    return (
        f"{start} {metric} of {name} changes most: it is {found[name][metric]}, and "
        f"{everyone[name][metric]} among all"
        f"{'' if apart else '. That may be chance: these intervals overlap'}."
    )


def _apart(one: MetricValue, other: MetricValue) -> bool:
    """Return whether the intervals of two numbers have nothing in common."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.high < other.low or other.high < one.low


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
