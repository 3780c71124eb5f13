"""What `evaluate_bias` returns: every number of one evaluation, and its plain form."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from bias_metrics._cells import Cells
from bias_metrics._values import MetricValue
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.worst import worst_subgroup

BACKGROUNDS = ("outside_subgroup", "no_identity")
"""Which rows a subgroup may be compared with; the default first."""


@dataclass(frozen=True)
class SubgroupBias:
    """Counts and the five metrics of one subgroup.

    Attributes
    ----------
    n, n_positive, n_negative : int
        Rows of the subgroup with a weight above 0, in all and by class.
    cells : Cells
        The five metrics.
    """

    n_positive: int
    n_negative: int
    cells: Cells

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.n_positive + self.n_negative

    def to_dict(self) -> dict[str, Any]:
        """Return counts and metrics as plain values."""
        counts = {"n": self.n, "n_positive": self.n_positive, "n_negative": self.n_negative}
        return counts | {
            f.name: getattr(self.cells, f.name).to_dict(interval=True) for f in fields(Cells)
        }


@dataclass(frozen=True)
class BiasReport:
    """Every number of one evaluation.

    Attributes
    ----------
    n, n_positive : int
        Measured rows with a weight above 0, and the positives among them.
    overall_auc : MetricValue
        ROC AUC over all rows.
    subgroups : dict of str to SubgroupBias
        In the order given.
    power : float
        Exponent of the power means.
    power_mean_groups : tuple of str
        The subgroups that the power means cover.
    power_means : dict of str to MetricValue
        For `subgroup_auc`, `bpsn_auc` and `bnsp_auc`.
    final_score : MetricValue
        Jigsaw final score.
    background : {"outside_subgroup", "no_identity"}
        Which rows each subgroup was compared with: all outside it, or those in none.
    """

    n: int
    n_positive: int
    overall_auc: MetricValue
    subgroups: dict[str, SubgroupBias]
    power: float
    power_mean_groups: tuple[str, ...]
    power_means: dict[str, MetricValue]
    final_score: MetricValue
    background: str = BACKGROUNDS[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values: str, int, float, list, dict and None.

        Under `worst` stands, for each metric, which subgroup is treated worst.
        """
        subgroups = {name: bias.to_dict() for name, bias in self.subgroups.items()}
        worst = {name: worst_subgroup({"subgroups": subgroups}, name) for name in SUBGROUP_METRICS}
        return {
            "background": self.background,
            "overall": {
                "n": self.n,
                "n_positive": self.n_positive,
                "auc": self.overall_auc.to_dict(interval=True),
            },
            "subgroups": subgroups,
            "power_mean": {
                "power": self.power,
                "groups": list(self.power_mean_groups),
                **{name: value.to_dict(interval=True) for name, value in self.power_means.items()},
            },
            "final_score": self.final_score.to_dict(interval=True),
            "worst": {name: found.to_dict() for name, found in worst.items()},
        }
