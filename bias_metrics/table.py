"""Every number of one model at one confidence: by metric, group, threshold and rival."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bias_metrics._core.differences import Difference
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import CALIBRATION_GAP
from bias_metrics.report.report import BiasComparison, BiasReport, Overall, PowerMeans, SubgroupBias
from bias_metrics.thresholds.rate_gaps import RateGapComparison, RateGaps

__all__ = ["BiasTable", "Estimate", "Key", "RowCounts"]

Estimate = MetricValue | Difference
"""A number, or the difference of two models' numbers, with its interval."""


class Key(NamedTuple):
    """What a number is about."""

    metric: str
    """Its name in `METRICS`."""
    group: str | None = None
    """The group; None for all rows, and for a power mean over the groups."""
    threshold: str | None = None
    """The name of the decision threshold of a metric that has one."""
    against: str | None = None
    """The rival from which it is a difference: `champion` or `reference`."""


@dataclass(frozen=True)
class RowCounts:
    """Rows behind the numbers of a group, or of all rows."""

    n_positive: int
    n_negative: int
    effective: Mapping[str, float] | None = None
    """With sampling weights: how many rows of equal weight they are worth, by class; of a group
    also those of its background, as `background_positive` and `background_negative`."""

    @classmethod
    def of(cls, known: SubgroupBias | Overall[MetricValue]) -> RowCounts:
        """Return the rows of a group, or of all."""
        return cls(known.n_positive, known.n - known.n_positive, known.effective)


@dataclass(frozen=True)
class BiasTable(Mapping[Key, Estimate]):
    """Numbers by their key; those of rivals are differences, the candidate minus the rival."""

    numbers: Mapping[Key, Estimate]
    """In the order in which they were measured."""
    rows: Mapping[str | None, RowCounts]
    """Of each group in the order given, and of all rows under None."""
    covered: tuple[str, ...] = ()
    """The groups in the power means and the final score."""
    categories: tuple[str, ...] = ()
    """The groups that join others."""
    thresholds: Mapping[tuple[str, str | None], float] = field(default_factory=dict)
    """By the threshold's name and the rival (None for the candidate), the decision thresholds."""

    @classmethod
    def of(
        cls,
        report: BiasReport,
        rates: Mapping[str, RateGaps] | None = None,
        calibration: Mapping[str, MetricValue] | None = None,
        *,
        categories: Iterable[str] = (),
    ) -> BiasTable:
        """Return the numbers of a report.

        Parameters
        ----------
        report : BiasReport
            AUCs, AEGs, power means and final score.
        rates : mapping of str to RateGaps, optional
            Gaps in error rates, by the name of their threshold.
        calibration : mapping of str to MetricValue, optional
            The calibration gap of each group.
        categories : iterable of str, optional
            Which of the report's groups join others.
        """
        numbers = dict(_numbers(report, None))
        thresholds: dict[tuple[str, str | None], float] = {}
        for name, gaps in (rates or {}).items():
            numbers |= _of_groups(gaps.subgroups, threshold=name)
            thresholds[name, None] = gaps.threshold
        for name, gap in (calibration or {}).items():
            numbers[Key(CALIBRATION_GAP, name)] = gap
        rows: dict[str | None, RowCounts] = {None: RowCounts.of(report.overall)}
        rows |= {name: RowCounts.of(bias) for name, bias in report.subgroups.items()}
        joined = tuple(name for name in categories if name in rows)
        return cls(numbers, rows, report.power_mean.groups, joined, thresholds)

    def with_differences(
        self,
        rival: str,
        comparison: BiasComparison | None = None,
        rates: Mapping[str, RateGapComparison] | None = None,
        calibration: Mapping[str, Difference] | None = None,
    ) -> BiasTable:
        """Return the table with the differences from a rival on the same rows.

        Parameters
        ----------
        rival : str
            `champion` or `reference`.
        comparison, rates, calibration : optional
            As in `of`, of both models.
        """
        numbers = dict(self.numbers)
        if comparison is not None:
            numbers |= dict(_numbers(comparison, rival))
        thresholds = dict(self.thresholds)
        for name, gaps in (rates or {}).items():
            for of_groups in (gaps.subgroups, gaps.changed):
                numbers |= _of_groups(of_groups, threshold=name, against=rival)
            thresholds[name, rival] = gaps.second.threshold
        for name, gap in (calibration or {}).items():
            numbers[Key(CALIBRATION_GAP, name, against=rival)] = gap
        return replace(self, numbers=numbers, thresholds=thresholds)

    def __getitem__(self, key: Key | tuple[str, ...] | str) -> Estimate:
        """Return a number: `table["bpsn_auc", "muslim"]`, `table["auc"]`."""
        return self.numbers[Key(*((key,) if isinstance(key, str) else key))]

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys."""
        return iter(self.numbers)

    def __len__(self) -> int:
        """Count the numbers."""
        return len(self.numbers)

    @property
    def groups(self) -> list[str]:
        """The groups that join no others."""
        return [name for name in self.rows if name is not None and name not in self.categories]

    @property
    def rivals(self) -> list[str]:
        """The models from which there are differences."""
        return list(dict.fromkeys(key.against for key in self.numbers if key.against is not None))

    def mapped(self, change: Callable[[Estimate], Estimate]) -> BiasTable:
        """Return the table with each number changed by a function."""
        return replace(self, numbers={key: change(one) for key, one in self.numbers.items()})


def _numbers(
    found: BiasReport | BiasComparison, against: str | None
) -> Iterator[tuple[Key, Estimate]]:
    """Yield the numbers of a report or comparison."""
    yield Key("auc", against=against), found.overall.auc
    means = found.power_mean
    for metric, mean in (means.by_metric() if isinstance(means, PowerMeans) else means).items():
        yield Key(metric, against=against), mean
    yield Key("final_score", against=against), found.final_score
    for name, bias in found.subgroups.items():
        for metric, one in (bias.by_metric() if isinstance(bias, SubgroupBias) else bias).items():
            yield Key(metric, name, against=against), one


def _of_groups(
    groups: Mapping[str, Mapping[str, Estimate]], threshold: str, against: str | None = None
) -> dict[Key, Estimate]:
    return {
        Key(metric, name, threshold, against): one
        for name, cells in groups.items()
        for metric, one in cells.items()
    }
