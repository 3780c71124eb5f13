"""One model's scores on labelled and on all rows: what each cell is estimated from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bias_metrics._core.cells import Auc, Comparison, pair_auc
from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.clusters import Clustering, ClusterSums, Within
from bias_metrics._core.influence import RankedRows, rank_rows
from bias_metrics._core.ranks import Floats
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.prediction_powered.rows import PoweredRows
from bias_metrics.report.report import BiasReport, SubgroupBias
from bias_metrics.report.steps import MeasuredSubgroup, ranked_members, summarise_bias


@dataclass(frozen=True, eq=False)
class Pieces:
    """What one cell is estimated from."""

    ordinary: MetricValue  # The cell from the human labels of the labelled rows alone
    # The influences on it, of all rows or clusters; None if it has no standard error.
    sums: ClusterSums | None
    sizes: tuple[float, float]  # How many independent rows the two compared classes are worth
    centre: float  # What the metric subtracts from the probability
    shift: float = 0.0  # The cell from matched terms on the labelled rows, minus that on all rows
    on_shift: Floats | None = None  # The influences on the shift; None if terms cannot help
    reason: str | None = None  # Why not
    counted: BoolArray | None = None  # The rows or clusters behind the cell and the shift


class PoweredModel:
    """One model's scores, ranked on the labelled and on all rows.

    `everyone`: all rows; `clustering`: their clusters; `labelled`: the report of the labelled rows,
    without intervals of aggregates.
    """

    def __init__(self, rows: PoweredRows, scores: FloatArray) -> None:
        self.rows = rows
        self.everyone = rank_rows(rows.human.y_true, scores)
        self.clustering = Clustering.of(self.everyone, rows.human.clusters)
        at = np.flatnonzero(rows.labelled)
        human, matched = rows.human.within(at), rows.matched.within(at)
        ranked = rank_rows(human.y_true, scores[at])
        self._part_clustering = replace(  # clusters keep their codes
            Clustering.of(ranked, rows.codes[at]), n=self.clustering.n, alone=not rows.clustered
        )
        self._human = ranked_members(ranked, human)
        self._matched_part = ranked_members(ranked, matched)
        self._matched = ranked_members(self.everyone, rows.matched)
        self._cells = {name: MeasuredSubgroup.of(one) for name, one in self._human.items()}
        confidence = rows.confidence
        cells = {name: one.at(confidence) for name, one in self._cells.items()}
        self.labelled = self._summarised(ranked, cells)

    @property
    def overall(self) -> Auc:
        """The overall AUC of all rows."""
        return pair_auc(self.everyone.everyone.negative, self.everyone.everyone.positive)

    def _summarised(self, ranked: RankedRows, subgroups: Mapping[str, SubgroupBias]) -> BiasReport:
        return summarise_bias(
            ranked.everyone,
            subgroups,
            power=self.rows.options.power,
            power_mean_groups=self.rows.options.groups,
            confidence=self.rows.confidence,
            background=self.rows.human.background,
        )

    def summarise(self, subgroups: Mapping[str, SubgroupBias]) -> BiasReport:
        """Return the report of all rows, given the cells."""
        report = self._summarised(self.everyone, subgroups)
        overall = replace(report.overall, labelled=self.rows.n_labelled)
        return replace(report, overall=overall)

    def pieces(self, name: str) -> dict[str, Pieces]:
        """Return what the cells of one subgroup are estimated from, by metric."""
        human = self._part_clustering.within(self._human[name])
        part = self._part_clustering.within(self._matched_part[name])
        whole = self.clustering.within(self._matched[name])
        return {
            metric: self._piece(name, metric, human, part, whole) for metric in SUBGROUP_METRICS
        }

    def _piece(self, name: str, metric: str, human: Within, part: Within, whole: Within) -> Pieces:
        auc, centre = self._cells[name].cells[metric], METRICS[metric].centre
        if auc.std_error is None:
            cell = auc.at(self.rows.confidence)
            return Pieces(cell, None, (0, 0), centre, reason=cell.reason)
        sums = human.sums(metric)
        auc = sums.clustered(auc)
        cell = auc.at(self.rows.confidence)
        sizes = auc.sizes if auc.clustered is None else auc.clustered.sizes
        found = Pieces(cell, replace(sums, alone=not self.rows.clustered), sizes, centre)
        if cell.reason is not None or sums.std_error == 0:
            return replace(found, reason=cell.reason or "the labelled rows have no errors there")
        both = part.compared(metric), whole.compared(metric)
        if min(both[0].sizes) < _FEWEST:
            return replace(found, reason="terms match too few labelled rows")
        on_shift = part.sums(metric).minus(whole.sums(metric))
        shift = _value(both[0]) - _value(both[1])
        counted = sums.plus(on_shift).counted
        return replace(found, shift=shift, on_shift=on_shift.each, counted=counted)


# With fewer matched rows in a compared class there is no variance.
_FEWEST = 2


def _value(comparison: Comparison) -> float:
    return float(comparison.measured(uncertain=False).at(None))
