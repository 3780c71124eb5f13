"""Significant losses in a comparison of two models, with joint bounds over all cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bias_metrics._core.differences import Difference
from bias_metrics.gate.outcome import read_number
from bias_metrics.metrics import GIVEN, METRICS
from bias_metrics.table import BiasTable, Key

ALPHA = 0.05
MAX_CAUSES = 8
"""Most subgroups to leave out. Each needs a joint comparison of all other subgroups."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A cell in which the first model is significantly worse than the second."""

    metric: str
    group: str
    first: float
    second: float
    worse_by: float
    """Size of the loss; above 0."""
    worse_by_at_least: float
    """Lower bound of the loss."""
    low: float
    """With `high`, bounds of the change as the gate reads it: the difference of an AUC, or the
    growth of the size of a gap."""
    high: float
    threshold: str | None = None
    """The name of the threshold of an error gap."""
    without: tuple[str, ...] = ()
    """The subgroups without whose rows the loss is not significant, in the order in which they were
    left out; empty if the loss is the subgroup's own."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; `threshold` only for error gaps."""
        content = vars(self) | {"without": list(self.without)}
        return {key: value for key, value in content.items() if value is not None}


MeasureWithout = Callable[[Sequence[str]], "Losses | None"]
"""Function that measures all but the given subgroups, without the rows of the given subgroups."""


@dataclass(frozen=True)
class Losses:
    """The significant losses against a rival, with joint bounds."""

    cells: tuple[Loss, ...]
    """The significant losses, the largest lower bound first."""
    n_bounds: int
    """Number of joint one-sided bounds."""
    confidence: float
    """Two-sided confidence of the intervals, whose ends are the bounds."""
    by_rows: bool = True
    """True if losses can be attributed to subgroups, which needs rows instead of counts."""

    @classmethod
    def from_table(
        cls,
        table: BiasTable,
        rival: str,
        metrics_by_group: Mapping[str, Iterable[str]],
        level: float,
    ) -> Losses:
        """List the cells in which the first model is significantly worse than the second.

        The bounds are those that the gate compares with a margin: the difference of an AUC, or the
        growth of the size of a gap. A gap that only changes its sign did not get worse.

        Parameters
        ----------
        table : BiasTable
            With the differences from the rival, and error gaps at the thresholds in use.
        rival : str
            `champion` or `reference`.
        metrics_by_group : mapping of str to iterable of str
            The metrics to compare, by subgroup. Cells without an interval are left out.
        level : float
            The confidence of the table: that of `joint_level`, so that all bounds hold jointly.
        """
        bounds = list(_list_bounds(table, rival, metrics_by_group))
        significant = (bound for bound in bounds if bound.worse_by_at_least > 0)
        # Sorted by the bound: a large estimate from a few rows is weaker evidence.
        ordered = sorted(significant, key=lambda loss: -loss.worse_by_at_least)
        return cls(tuple(ordered), len(bounds), level)

    @property
    def groups(self) -> list[str]:
        """The subgroups with a significant loss, in the order of the cells."""
        return list(dict.fromkeys(cell.group for cell in self.cells))

    @property
    def may_be_shared(self) -> bool:
        """True if several subgroups lose, and counts do not show whose rows are the cause."""
        return not self.by_rows and len(self.groups) > 1

    def attribute_losses(self, measure_without: MeasureWithout) -> Losses:
        """Attribute losses to the subgroups whose rows cause them.

        Subgroups share rows, with each other and with the backgrounds that they are compared with.
        The loss of a subgroup is therefore often significant in cells of others. The subgroup with
        the largest loss is taken as the first cause, and the others are measured again without its
        rows. The largest remaining loss is the next cause, until no loss is significant. The losses
        of a cause are its own.

        Parameters
        ----------
        measure_without : callable
            Takes the causes so far and returns the losses of the other subgroups without the rows
            of the causes; None if the remaining rows cannot be measured, which ends the search.
        """
        if len(self.groups) < 2:
            return self
        removed_by: dict[tuple[str, str], tuple[str, ...]] = {}
        causes: list[str] = []
        remaining = self
        while remaining.cells and len(causes) < MAX_CAUSES:
            causes.append(remaining.cells[0].group)
            if set(remaining.groups) <= set(causes):
                break
            losses = measure_without(causes)
            if losses is None:
                break
            before = {_cell_key(loss) for loss in remaining.cells}
            after = {_cell_key(loss) for loss in losses.cells}
            removed_by |= dict.fromkeys(before - after, tuple(causes))
            cells = tuple(loss for loss in losses.cells if _cell_key(loss) in before)
            remaining = replace(losses, cells=cells)
        return replace(
            self,
            cells=tuple(
                replace(
                    cell,
                    without=() if cell.group in causes else removed_by.get(_cell_key(cell), ()),
                )
                for cell in self.cells
            ),
        )


def _list_bounds(
    table: BiasTable, rival: str, metrics_by_group: Mapping[str, Iterable[str]]
) -> Iterator[Loss]:
    """Yield each cell that has a bound, also if its loss is not significant."""
    for group, metrics in metrics_by_group.items():
        for name in metrics:
            metric = METRICS[name]
            threshold = GIVEN if metric.has_threshold else None
            cell = table[Key(name, group, threshold, rival)]
            assert isinstance(cell, Difference)  # noqa: S101 - the key names a rival
            change = read_number(cell, is_gap=metric.is_gap)
            value, low, high = change.value, change.low, change.high
            if value is None or low is None or high is None:
                continue
            assert cell.first is not None  # noqa: S101 - the difference has a value
            assert cell.second is not None  # noqa: S101
            worse_by, at_least = (value, low) if metric.is_gap else (-value, -high)
            yield Loss(
                metric=name,
                group=group,
                first=cell.first,
                second=cell.second,
                worse_by=worse_by,
                worse_by_at_least=at_least,
                low=low,
                high=high,
                threshold=threshold,
            )


def _cell_key(cell: Loss) -> tuple[str, str]:
    return cell.group, cell.metric
