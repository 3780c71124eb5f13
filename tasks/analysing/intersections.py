"""Bias on comments that mention several identities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal

from pydantic import Field

from bias_metrics import BiasTable, MetricValue, Rows, intersections
from bias_metrics.families import bonferroni_level
from bias_metrics.groups import SEPARATOR
from bias_metrics.metrics import AUCS, SUBGROUP_METRICS
from bias_metrics.parts import PackedMasks
from bias_metrics.report import Measurement, ReportOptions, compute_joint_level, sort_worst_first
from biasgate.tasks.analysing.analysis import (
    Analysis,
    Findings,
    MeasuredRows,
    Row,
    group_record,
)
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records.numbers import CONFIDENCE

MEASURED = 1000  # most intersections that are measured: those with the most comments
COUNTED = 1_000_000  # most possible intersections
ENDS = ("low", "high")
_FEW = 100  # most intersections whose correlations are computed
COUNTS = ("n", "n_positive", "n_negative")
_LEFT_OUT = {"metric", "undefined"}


@dataclass(frozen=True)
class _Counts:
    """How many intersections there are."""

    n_measured: int
    n_with_support: int
    n_without_support: int


class IntersectionsAnalysis(Analysis):
    """The bias metrics of each intersection of identities, worst first."""

    kind: Literal["intersections"]
    max_order: Annotated[int, Field(ge=2, le=5)] = 2
    """Most identities in an intersection."""
    min_support: Annotated[int, Field(ge=1)] = 10
    """Fewest toxic comments, and fewest harmless ones, in an intersection."""
    most: Annotated[int, Field(ge=1, le=MEASURED)] = 50
    """Intersections in the report; the table has all measured ones: at most 1,000, those with the
    most comments."""

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
                f"set {frozen.name!r} give {n_possible:,}. Lower it, or name "
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
        report, jointly, level = measure_intersections(
            rows, PackedMasks.from_masks(each, rows.y_true.size)
        )
        bias = report.subgroups
        shown = sort_worst_first(bias)
        n_small = sum(SEPARATOR in name for name in found.left_out)
        n_others = n_small + sum(found.n_not_counted.values())
        counts = _Counts(len(largest), len(found.kept), n_others)
        result = {
            **vars(counts),
            "worst": {
                metric: {key: of for key, of in one.to_dict().items() if key not in _LEFT_OUT}
                for metric in SUBGROUP_METRICS
                for one in (report.worst(metric),)
            },
            "subgroups": {name: group_record(report, name) for name in shown[: self.most]},
            "jointly": {
                "confidence": level,
                "subgroups": {
                    name: {
                        metric: {"low": cell.low, "high": cell.high}
                        for metric, cell in jointly[name].items()
                    }
                    for name in shown[: self.most]
                },
            },
        }
        return Findings(
            result,
            self._sentences(counts, report, jointly, shown),
            [_row(name, report, jointly[name]) for name in shown],
        )

    def _sentences(
        self,
        counts: _Counts,
        table: BiasTable,
        jointly: Mapping[str, Mapping[str, MetricValue]],
        shown: list[str],
    ) -> tuple[str, ...]:
        needed = f"at least {self.min_support:,} toxic and {self.min_support:,} harmless comments"
        if not shown:
            return (f"No intersection of identities has {needed}.",)
        name = shown[0]
        cells = table.subgroups[name]
        metric = min((one for one in AUCS if cells[one].value is not None), key=cells.__getitem__)
        found = f"{name} ({metric} {cells[metric]}, {table.counts[name].n:,} comments)"
        told = f"The only intersection of identities with {needed}: {found}."
        if counts.n_measured > 1:
            told = (
                f"Worst of {counts.n_measured:,} intersections of identities with {needed}: "
                f"{found}."
            )
            together = jointly[name][metric]
            bounded = sum(subgroup[metric].low is not None for subgroup in jointly.values())
            if together.low is not None:
                whom = "all" if bounded == counts.n_measured else f"the {bounded:,} with intervals"
                told += (
                    f" Simultaneous interval over {whom}: [{together.low:.3f}, "
                    f"{together.high:.3f}]."
                )
        if counts.n_without_support:
            told += f" Others with fewer: {counts.n_without_support:,}."
        if counts.n_measured < counts.n_with_support:
            told += (
                f" Of {counts.n_with_support:,} with enough comments, only the "
                f"{counts.n_measured:,} largest were measured."
            )
        if len(shown) > self.most:
            told += f" The report lists the worst {self.most}; the table has all."
        return (told,)


def measure_intersections(
    rows: MeasuredRows, masks: PackedMasks
) -> tuple[BiasTable, dict[str, dict[str, MetricValue]], float]:
    """Measure intersections as if they were identities, against the background of the set.

    If the background is the rows without any identity, it stays the same.

    Returns
    -------
    tuple
        The report; the same numbers with intervals that hold for all of them together, and the
        confidence of each of these.
    """
    names = list(masks)
    alone = rows.masks.items() if rows.background == "no_identity" else ()
    checked = Rows(
        rows.y_true,
        PackedMasks.from_masks(chain(masks.items(), alone), masks.n_rows),
        clusters=rows.clusters,
        background=rows.background,
    )
    scores = checked.check_scores("y_score", rows.y_score)
    model = Measurement(checked, scores)
    asked = ReportOptions.from_arguments(
        checked, power_mean_groups=names, intervals="cells", confidence=CONFIDENCE
    )
    report = model.report(asked, names)
    few = len(names) <= _FEW
    alpha = (1 - CONFIDENCE) / 2
    n_cells = len(names) * len(SUBGROUP_METRICS)
    level = (
        compute_joint_level(checked, [scores], names, alpha=alpha)
        if few
        else bonferroni_level(n_cells, alpha)
    )
    return (
        report,
        {name: model.measure_subgroup(name).compute_values(level) for name in names},
        level,
    )


def _row(name: str, table: BiasTable, together: Mapping[str, MetricValue]) -> Row:
    counts = table.counts[name]
    row: Row = {"intersection": name} | {count: getattr(counts, count) for count in COUNTS}
    for metric, cell in table.subgroups[name].items():
        row |= {metric: cell.value, f"{metric}_low": cell.low, f"{metric}_high": cell.high}
        row |= {f"{metric}_joint_{end}": getattr(together[metric], end) for end in ENDS}
    return row
