"""Results of the joint bootstrap: the spread of every number over the replicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bias_metrics._core.tables import Row, Tabular, labelled
from bias_metrics._core.values import Named


@dataclass(frozen=True)
class BootstrapValue:
    """One number's spread over the replicates.

    Attributes
    ----------
    std_error : float or None
        Standard deviation over the replicates in which the number is defined; None if there are
        fewer than two.
    low, high : float or None
        Its BCa interval; None if it is undefined in any replicate.
    n_undefined : int
        Replicates in which it is undefined for lack of rows; they are not replaced.
    reason : str or None
        Why it has no interval.
    """

    std_error: float | None
    low: float | None
    high: float | None
    n_undefined: int
    reason: str | None = None


@dataclass(frozen=True)
class BootstrapReport(Tabular):
    """The spread of every number.

    Attributes
    ----------
    overall : Named of BootstrapValue
        The ROC AUC over all rows: `auc`.
    subgroups : dict of str to Named of BootstrapValue
        By subgroup and metric.
    power_mean : Named of BootstrapValue
        By metric.
    final_score : BootstrapValue
        The Jigsaw final score.
    n_replicates : int
        Number of replicates.
    confidence : float
        Confidence of each interval.
    """

    overall: Named[BootstrapValue]
    subgroups: dict[str, Named[BootstrapValue]]
    power_mean: Named[BootstrapValue]
    final_score: BootstrapValue
    n_replicates: int
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in the shape of `BiasReport.to_dict()`."""
        return {
            "n_replicates": self.n_replicates,
            "confidence": self.confidence,
            "overall": _plain(self.overall),
            "subgroups": {name: _plain(cells) for name, cells in self.subgroups.items()},
            "power_mean": _plain(self.power_mean),
            "final_score": dict(vars(self.final_score)),
        }

    def rows(self) -> list[Row]:
        """Return one record per number: first each subgroup's, then those of all rows."""
        others = {"auc": self.overall.auc}
        others |= {f"power_mean_{name}": one for name, one in self.power_mean.items()}
        others |= {"final_score": self.final_score}
        cells: dict[Any, Mapping[str, BootstrapValue]] = {**self.subgroups, None: others}
        return labelled(
            "subgroup",
            {
                name: [{"metric": metric} | vars(one) for metric, one in of_group.items()]
                for name, of_group in cells.items()
            },
        )


def _plain(named: Mapping[str, BootstrapValue]) -> dict[str, Any]:
    return {name: dict(vars(one)) for name, one in named.items()}
