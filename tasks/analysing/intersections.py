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
    build_record,
)
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records.numbers import CONFIDENCE

MEASURED = 1000  # largest number of measured intersections: those with the most comments
COUNTED = 1_000_000  # largest number of possible intersections
_MAX_CORRELATED = 100  # largest number of intersections whose correlations are computed
_COUNTS = ("n", "n_positive", "n_negative")
_OMITTED_KEYS = {"metric", "undefined"}


@dataclass(frozen=True)
class _IntersectionCounts:
    """Numbers of intersections by support."""

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
        """Refuse a set with fewer than two identities, too many, or the separator in a name."""
        names = source.measured_identities(frozen.identities)
        if len(names) < 2:
            self.refuse(frozen, "two identities or more", f"it has {', '.join(names) or 'none'}")
        ambiguous = [name for name in names if SEPARATOR in name]
        if ambiguous:
            self.refuse(
                frozen, f"identities without {SEPARATOR!r} in their names", f"got {ambiguous[0]!r}"
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
        """Measure the intersections with enough comments, at most the 1,000 largest."""
        candidates = intersections(
            rows.masks,
            max_order=self.max_order,
            min_support=self.min_support,
            y_true=rows.y_true,
        )
        largest = sorted(candidates.kept, key=lambda name: -candidates.kept[name].n)[:MEASURED]
        masks = ((name, candidates.masks[name]) for name in largest)
        report, joint_cells, level = measure_intersections(
            rows, PackedMasks.from_masks(masks, rows.y_true.size)
        )
        names = sort_worst_first(report.subgroups)
        n_small = sum(SEPARATOR in name for name in candidates.left_out)
        n_others = n_small + sum(candidates.n_not_counted.values())
        counts = _IntersectionCounts(len(largest), len(candidates.kept), n_others)
        worst = {metric: report.worst(metric).to_dict() for metric in SUBGROUP_METRICS}
        result = {
            **vars(counts),
            "worst": {
                metric: {key: value for key, value in cell.items() if key not in _OMITTED_KEYS}
                for metric, cell in worst.items()
            },
            "subgroups": {name: build_record(report, name) for name in names[: self.most]},
            "jointly": {
                "confidence": level,
                "subgroups": {
                    name: {
                        metric: {"low": cell.low, "high": cell.high}
                        for metric, cell in joint_cells[name].items()
                    }
                    for name in names[: self.most]
                },
            },
        }
        return Findings(
            result,
            (self._describe_worst(counts, report, joint_cells, names),),
            [_build_row(name, report, joint_cells[name]) for name in names],
        )

    def _describe_worst(
        self,
        counts: _IntersectionCounts,
        table: BiasTable,
        joint_cells: Mapping[str, Mapping[str, MetricValue]],
        names: list[str],
    ) -> str:
        """Report the worst intersection, and the intersections that were left out."""
        support = f"at least {self.min_support:,} toxic and {self.min_support:,} harmless comments"
        if not names:
            return f"No intersection of identities has {support}."
        name = names[0]
        cells = table.subgroups[name]
        metric = min((auc for auc in AUCS if cells[auc].value is not None), key=cells.__getitem__)
        worst = f"{name} ({metric} {cells[metric]}, {table.counts[name].n:,} comments)"
        text = f"The only intersection of identities with {support}: {worst}."
        if counts.n_measured > 1:
            text = (
                f"Worst of {counts.n_measured:,} intersections of identities with {support}: "
                f"{worst}."
            )
            joint = joint_cells[name][metric]
            n_bounded = sum(subgroup[metric].low is not None for subgroup in joint_cells.values())
            if joint.low is not None:
                family = (
                    "all" if n_bounded == counts.n_measured else f"the {n_bounded:,} with intervals"
                )
                text += (
                    f" Simultaneous interval over {family}: [{joint.low:.3f}, {joint.high:.3f}]."
                )
        if counts.n_without_support:
            text += f" Others with fewer: {counts.n_without_support:,}."
        if counts.n_measured < counts.n_with_support:
            text += (
                f" Of {counts.n_with_support:,} with enough comments, only the "
                f"{counts.n_measured:,} largest were measured."
            )
        if len(names) > self.most:
            text += f" The report lists the worst {self.most}; the table has all."
        return text


def measure_intersections(
    rows: MeasuredRows, masks: PackedMasks
) -> tuple[BiasTable, dict[str, dict[str, MetricValue]], float]:
    """Measure intersections as identities, with the background of the set.

    The background `no_identity` still excludes the rows of all identities.

    Returns
    -------
    report : BiasTable
        The numbers of the intersections.
    joint_cells : dict
        The same numbers with simultaneous intervals, by intersection and metric.
    level : float
        Confidence of each simultaneous interval.
    """
    names = list(masks)
    identities = rows.masks.items() if rows.background == "no_identity" else ()
    checked = Rows(
        rows.y_true,
        PackedMasks.from_masks(chain(masks.items(), identities), masks.n_rows),
        clusters=rows.clusters,
        background=rows.background,
    )
    scores = checked.check_scores("y_score", rows.y_score)
    measurement = Measurement(checked, scores)
    options = ReportOptions.from_arguments(
        checked, power_mean_groups=names, intervals="cells", confidence=CONFIDENCE
    )
    report = measurement.report(options, names)
    alpha = (1 - CONFIDENCE) / 2
    level = (
        compute_joint_level(checked, [scores], names, alpha=alpha)
        if len(names) <= _MAX_CORRELATED
        else bonferroni_level(len(names) * len(SUBGROUP_METRICS), alpha)
    )
    joint_cells = {name: measurement.measure_subgroup(name).compute_values(level) for name in names}
    return report, joint_cells, level


def _build_row(name: str, table: BiasTable, joint_cells: Mapping[str, MetricValue]) -> Row:
    counts = table.counts[name]
    row: Row = {"intersection": name} | {count: getattr(counts, count) for count in _COUNTS}
    for metric, cell in table.subgroups[name].items():
        joint = joint_cells[metric]
        row |= {metric: cell.value, f"{metric}_low": cell.low, f"{metric}_high": cell.high}
        row |= {f"{metric}_joint_low": joint.low, f"{metric}_joint_high": joint.high}
    return row
