"""One model's scores on labelled and on all rows: what each cell is estimated from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bias_metrics._core.cells import Auc, Comparison, pair_auc
from bias_metrics._core.checks import BoolArray, FloatArray
from bias_metrics._core.clusters import Clustering, ClusterSums, Within
from bias_metrics._core.influence import rank_rows
from bias_metrics._core.intervals import few_clusters
from bias_metrics._core.ranks import Floats
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.prediction_powered.rows import PoweredRows
from bias_metrics.report.measurement import Measurement
from bias_metrics.report.steps import ranked_members


@dataclass(frozen=True, eq=False)
class Pieces:
    """What one cell is estimated from."""

    ordinary: Auc  # The cell from the human labels of the labelled rows alone
    # The influences on it, of all rows or clusters; None if it has no standard error.
    sums: ClusterSums | None
    sizes: tuple[float, float]  # How many independent rows the two compared classes are worth
    shift: float = 0.0  # The cell from matched terms on the labelled rows, minus that on all rows
    on_shift: Floats | None = None  # The influences on the shift; None if terms cannot help
    reason: str | None = None  # Why not
    counted: BoolArray | None = None  # The rows or clusters behind the cell and the shift


class PoweredModel:
    """One model's scores, ranked on the labelled and on all rows.

    `everyone`: all rows; `clustering`: their clusters; `labelled`: the labelled rows, measured
    without terms.
    """

    def __init__(self, rows: PoweredRows, scores: FloatArray) -> None:
        self.rows = rows
        self.everyone = rank_rows(rows.human.y_true, scores)
        self.clustering = Clustering.of(self.everyone, rows.human.clusters)
        at = np.flatnonzero(rows.labelled)
        self.labelled = Measurement(rows.human.within(at), scores[at])
        ranked = self.labelled.ranked
        self._part_clustering = replace(  # clusters keep their codes
            Clustering.of(ranked, rows.codes[at]), n=self.clustering.n, alone=not rows.clustered
        )
        self._matched_part = ranked_members(ranked, rows.matched.within(at))
        self._matched = ranked_members(self.everyone, rows.matched)

    @cached_property
    def overall(self) -> tuple[Auc, ClusterSums | None]:
        """The overall AUC of all rows, and the influences on it."""
        auc = pair_auc(self.everyone.everyone.negative, self.everyone.everyone.positive)
        if auc.std_error is None:
            return auc, None
        sums = self.clustering.within(None).sums("auc")
        return sums.clustered(auc), sums

    def pieces(self, name: str) -> dict[str, Pieces]:
        """Return what the cells of one subgroup are estimated from, by metric."""
        human = self._part_clustering.within(self.labelled.members[name])
        part = self._part_clustering.within(self._matched_part[name])
        whole = self.clustering.within(self._matched[name])
        return {
            metric: self._piece(name, metric, human, part, whole) for metric in SUBGROUP_METRICS
        }

    def _piece(self, name: str, metric: str, human: Within, part: Within, whole: Within) -> Pieces:
        auc = self.labelled.subgroup(name).cells[metric]
        if auc.std_error is None:
            return Pieces(auc, None, (0, 0), reason=auc.reason)
        sums = human.sums(metric)
        auc = sums.clustered(auc)
        few, sizes = None, auc.sizes
        if auc.clustered is not None:
            few, sizes = few_clusters(auc.clustered.n_clusters), auc.clustered.sizes
        found = Pieces(auc, sums, sizes)
        if few or sums.std_error == 0:
            return replace(found, reason=few or "the labelled rows have no errors there")
        both = part.compared(metric), whole.compared(metric)
        if min(both[0].sizes) < _FEWEST:
            return replace(found, reason="terms match too few labelled rows")
        on_shift = part.moves(metric).minus(whole.moves(metric))
        shift = _value(both[0]) - _value(both[1])
        counted = sums.plus(on_shift).counted
        return replace(found, shift=shift, on_shift=on_shift.each, counted=counted)


# With fewer matched rows in a compared class there is no variance.
_FEWEST = 2


def _value(comparison: Comparison) -> float:
    return float(comparison.measured(uncertain=False).at(None))
