"""Bias on comments that mention several identities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import Field

from bias_metrics import BiasReport, evaluate_bias, intersections, worst_subgroup
from bias_metrics.groups import SEPARATOR
from bias_metrics.metrics import AUCS, SUBGROUP_METRICS
from bias_metrics.parts import PackedMasks
from bias_metrics.report import worst_first
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows, Row
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records.numbers import CONFIDENCE

MEASURED = 1000  # most intersections that are measured: those with the most comments
COUNTED = 1_000_000  # most possible intersections
COUNTS = ("n", "n_positive", "n_negative")


class IntersectionsAnalysis(Analysis):
    """The bias metrics of each intersection of identities, worst first."""

    kind: Literal["intersections"]
    max_order: Annotated[int, Field(ge=2, le=5)] = 2
    """Most identities in an intersection."""
    min_support: Annotated[int, Field(ge=1)] = 10
    """Fewest toxic comments, and fewest harmless ones, in an intersection."""
    most: Annotated[int, Field(ge=1, le=MEASURED)] = 50
    """Intersections in the report; the table has all measured ones."""

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set with one identity, too many, or names that contain the separator."""
        names = source.measured_identities(frozen.identities)
        if len(names) < 2:
            self.refuse(frozen, "two identities or more", f"it has {', '.join(names) or 'none'}")
        unjoined = [name for name in names if SEPARATOR in name]
        if unjoined:
            self.refuse(
                frozen, f"identities without {SEPARATOR!r} in their names", f"got {unjoined[0]!r}"
            )
        n_possible = sum(math.comb(len(names), k) for k in range(2, self.max_order + 1))
        if n_possible > COUNTED:
            msg = (
                f"analysis intersections: `max_order` must give at most {COUNTED:,} "
                f"intersections; {self.max_order} of the {len(names):,} identities of evaluation "
                f"set {frozen.name!r} give {n_possible:,}. Choose a smaller one, or name "
                "suitable sets with `sets`."
            )
            raise InputError(msg)

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Measure the intersections with enough comments, at most 1,000 of them."""
        found = intersections(
            rows.masks,
            max_order=self.max_order,
            min_support=self.min_support,
            y_true=rows.y_true,
        )
        largest = sorted(found.kept, key=lambda name: -found.kept[name].n)[:MEASURED]
        each = ((name, found.masks[name]) for name in largest)
        report = measure_intersections(rows, PackedMasks.of(each, rows.y_true.size))
        bias = report.to_dict()["subgroups"]
        shown = worst_first(report.subgroups)
        n_small = sum(SEPARATOR in name for name in found.left_out)
        counts = {
            "n_measured": len(largest),
            "n_with_support": len(found.kept),
            "n_without_support": n_small + sum(found.n_not_counted.values()),
        }
        result = {
            **counts,
            "worst": {metric: _worst(report, metric) for metric in SUBGROUP_METRICS},
            "subgroups": {name: bias[name] for name in shown[: self.most]},
        }
        return Findings(
            result, self._sentences(counts, bias, shown), [_row(name, bias[name]) for name in shown]
        )

    def _sentences(
        self, counts: Mapping[str, int], bias: Mapping[str, Any], shown: list[str]
    ) -> tuple[str, ...]:
        needed = f"at least {self.min_support:,} toxic and {self.min_support:,} harmless comments"
        if not shown:
            return (f"No intersection of identities has {needed}.",)
        name, metric = shown[0], _lowest(bias[shown[0]])
        found = f"{name} ({metric} {_number(bias[name][metric])}, {bias[name]['n']:,} comments)"
        told = f"The only intersection of identities with {needed}: {found}."
        if counts["n_measured"] > 1:
            told = (
                f"Worst of {counts['n_measured']:,} intersections of identities with {needed}: "
                f"{found}."
            )
        if counts["n_without_support"]:
            told += f" Others with fewer: {counts['n_without_support']:,}."
        if counts["n_measured"] < counts["n_with_support"]:
            told += (
                f" Of {counts['n_with_support']:,} with enough comments only the "
                f"{counts['n_measured']:,} largest were measured."
            )
        if len(shown) > self.most:
            told += f" The report lists the worst {self.most}; the table has all."
        return (told,)


def measure_intersections(rows: MeasuredRows, masks: PackedMasks) -> BiasReport:
    """Measure intersections as if they were identities, against the background of the set.

    If the background is the rows without any identity, it stays the same.
    """
    alone = rows.masks.items() if rows.background == "no_identity" else ()
    report = evaluate_bias(
        rows.y_true,
        rows.y_score,
        PackedMasks.of(chain(masks.items(), alone), masks.n_rows),
        intervals="cells",
        confidence=CONFIDENCE,
        clusters=rows.clusters,
        background=rows.background,
        power_mean_groups=list(masks),
    )
    return replace(report, subgroups={name: report.subgroups[name] for name in masks})


def _worst(report: BiasReport, metric: str) -> dict[str, Any]:
    found = worst_subgroup(report, metric).to_dict()
    return {key: found[key] for key in found if key not in {"metric", "undefined"}}


def _lowest(cells: Mapping[str, Any]) -> str:
    defined = [metric for metric in AUCS if cells[metric]["value"] is not None]
    return min(defined, key=lambda metric: cells[metric]["value"])


def _number(cell: Mapping[str, Any]) -> str:
    bounds = "" if cell.get("low") is None else f" [{cell['low']:.3f}, {cell['high']:.3f}]"
    return f"{cell['value']:.3f}{bounds}"


def _row(name: str, cells: Mapping[str, Any]) -> Row:
    row: Row = {"intersection": name} | {count: cells[count] for count in COUNTS}
    for metric in SUBGROUP_METRICS:
        for column, key in (
            (metric, "value"),
            (f"{metric}_low", "low"),
            (f"{metric}_high", "high"),
        ):
            row[column] = cells[metric].get(key)
    return row
