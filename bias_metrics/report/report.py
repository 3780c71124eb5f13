"""What `evaluate_bias` and `compare_bias` return: every number, also as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic

from bias_metrics._core.differences import Difference
from bias_metrics._core.tables import ByGroup, Row, Table, Tabular, labelled, plain, rows_of
from bias_metrics._core.values import MetricValue, Named, NumbersByMetric, V, with_metrics
from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from bias_metrics.report.worst import WorstSubgroup, worst_subgroup
from bias_metrics.rows import Background


def cell_of(value: MetricValue) -> Row:
    """Return a number with its uncertainty as the last columns of a record."""
    names = ("value", "std_error", "low", "high", "reason")
    return {name: getattr(value, name) for name in names}


def effective_record(effective: Mapping[str, float] | None) -> dict[str, Any]:
    """Return the effective numbers of rows as a part of a record; empty without weights."""
    return {} if effective is None else {"effective": dict(effective)}


@dataclass(frozen=True, kw_only=True)
@with_metrics(*SUBGROUP_METRICS)
class SubgroupBias(NumbersByMetric, Tabular):
    """Counts and metrics of one subgroup: `subgroup_auc`, `bpsn_auc`, .. are attributes."""

    n_positive: int
    n_negative: int
    """Rows of the subgroup with a weight above 0, by class; `n` is both."""
    effective: Mapping[str, float] | None = None
    """With sampling weights: how many rows of equal weight the compared rows are worth (Kish's
    effective size): `positive`, `negative`, `background_positive`, `background_negative`."""

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.n_positive + self.n_negative

    def to_dict(self) -> dict[str, Any]:
        """Return counts and metrics as plain values."""
        cells = {name: cell.to_dict(interval=True) for name, cell in self.by_metric().items()}
        counts = {"n": self.n, "n_positive": self.n_positive, "n_negative": self.n_negative}
        return counts | effective_record(self.effective) | cells

    def rows(self) -> list[Row]:
        """Return one record per metric."""
        counts = {"n": self.n, "n_positive": self.n_positive}
        return [
            {"metric": name} | counts | cell_of(cell) for name, cell in self.by_metric().items()
        ]


@dataclass(frozen=True)
class Overall(Generic[V]):
    """What is measured over all rows."""

    n: int
    n_positive: int
    """Measured rows with a weight above 0, and the positives among them."""
    auc: V
    """ROC AUC, or the difference of two."""
    effective: Mapping[str, float] | None = None
    """With sampling weights: how many rows of equal weight the rows are worth, by class."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        auc: MetricValue | Difference = self.auc  # type: ignore[assignment]
        number = auc.to_dict() if isinstance(auc, Difference) else auc.to_dict(interval=True)
        counts = {"n": self.n, "n_positive": self.n_positive, "auc": number}
        return counts | effective_record(self.effective)


@dataclass(frozen=True)
@with_metrics(*FINAL_SCORE_PARTS)
class PowerMeans(NumbersByMetric):
    """The power means over several subgroups: `subgroup_auc`, .. are attributes."""

    power: float
    """Their exponent."""
    groups: tuple[str, ...]
    """The subgroups they cover."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        means = self.by_metric().items()
        return {
            "power": self.power,
            "groups": list(self.groups),
            **{name: value.to_dict(interval=True) for name, value in means},
        }


@dataclass(frozen=True)
class BiasReport(ByGroup):
    """Every number of one evaluation."""

    overall: Overall[MetricValue]
    """ROC AUC over all rows, and how many there are."""
    subgroups: dict[str, SubgroupBias]
    """In the order given."""
    power_mean: PowerMeans
    """Of `subgroup_auc`, `bpsn_auc` and `bnsp_auc`."""
    final_score: MetricValue
    """Jigsaw final score."""
    background: Background = "outside_subgroup"
    """Which rows each subgroup was compared with: all outside it, or those in no subgroup."""
    confidence: float = 0.95
    """Confidence of each interval."""

    @property
    def worst(self) -> dict[str, WorstSubgroup]:
        """The subgroup that is treated worst, by metric."""
        content = {"subgroups": plain(self.subgroups)}
        return {
            name: worst_subgroup(content, name, confidence=self.confidence)
            for name in SUBGROUP_METRICS
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values: str, int, float, list, dict and None."""
        return {
            "background": self.background,
            "overall": self.overall.to_dict(),
            "subgroups": plain(self.subgroups),
            "power_mean": self.power_mean.to_dict(),
            "final_score": self.final_score.to_dict(interval=True),
            "worst": plain(self.worst),
        }

    def rows(self) -> list[Row]:
        """Return one record per number: five a subgroup, then those of all rows.

        Returns
        -------
        list of dict
            `subgroup` (None for a number of all rows), `metric`, `n` and `n_positive` of the
            rows, `value`, `std_error`, `low`, `high` and, if one of these is None, the `reason`.
        """
        counts = {"n": self.overall.n, "n_positive": self.overall.n_positive}
        others = {"auc": self.overall.auc}
        others |= {f"power_mean_{name}": mean for name, mean in self.power_mean.by_metric().items()}
        others |= {"final_score": self.final_score}
        of_all = [{"metric": name} | counts | cell_of(value) for name, value in others.items()]
        return labelled("subgroup", rows_of(self.subgroups) | {None: of_all})

    def _table(self) -> Table:
        return Table(
            ["subgroup", "n", "n_positive", *SUBGROUP_METRICS],
            [
                [name, f"{bias.n:,}", f"{bias.n_positive:,}", *map(str, bias.by_metric().values())]
                for name, bias in self.subgroups.items()
            ],
            f"{self.overall.n:,} rows, {self.overall.n_positive:,} positive; "
            f"AUC {self.overall.auc}, final score {self.final_score}",
        )


@dataclass(frozen=True)
class BiasComparison(ByGroup):
    """Every difference of one comparison."""

    first: BiasReport
    second: BiasReport
    """The two models' reports on the same rows."""
    overall: Overall[Difference]
    """The ROC AUC over all rows."""
    subgroups: dict[str, Named[Difference]]
    """By subgroup and metric: `comparison.subgroups["gay"].bpsn_auc`."""
    power_mean: Named[Difference]
    """By metric."""
    final_score: Difference
    """The Jigsaw final score."""
    confidence: float
    """Confidence of each interval."""
    joint_confidence: float | None = None
    """Confidence of the intervals of one number for all candidates together, if there are several:
    see `compare_candidates`."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values in the shape of `BiasReport.to_dict()`."""
        joint = {} if self.joint_confidence is None else {"joint_confidence": self.joint_confidence}
        return {
            "confidence": self.confidence,
            **joint,
            "overall": self.overall.to_dict(),
            "subgroups": {
                name: {metric: one.to_dict() for metric, one in cells.items()}
                for name, cells in self.subgroups.items()
            },
            "power_mean": {name: one.to_dict() for name, one in self.power_mean.items()},
            "final_score": self.final_score.to_dict(),
        }

    def rows(self) -> list[Row]:
        """Return one record per difference: five a subgroup, then those of all rows.

        Returns
        -------
        list of dict
            `subgroup` (None for all rows), `metric`, and all attributes of the Difference.
        """
        others = {"auc": self.overall.auc}
        others |= {f"power_mean_{name}": one for name, one in self.power_mean.items()}
        others |= {"final_score": self.final_score}
        cells: dict[Any, Mapping[str, Difference]] = {**self.subgroups, None: others}
        return labelled(
            "subgroup",
            {
                name: [{"metric": metric} | vars(one) for metric, one in of_group.items()]
                for name, of_group in cells.items()
            },
        )

    def _table(self) -> Table:
        metrics = list(next(iter(self.subgroups.values()), ()))
        body = [
            [name, *(self._marked(cell) for cell in cells.values())]
            for name, cells in self.subgroups.items()
        ]
        return Table(
            ["subgroup", *metrics],
            body,
            f"first minus second: AUC {self.overall.auc}, final score {self.final_score}",
            [f"* shown at {self._level:.0%} confidence after Holm's adjustment"],
        )

    def _marked(self, difference: Difference) -> str:
        return f"{difference} *" if difference.shown(self._level) else str(difference)

    @property
    def _level(self) -> float:
        return self.joint_confidence or self.confidence
