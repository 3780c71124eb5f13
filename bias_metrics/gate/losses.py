"""Which cells of a comparison are shown to be worse, corrected for looking at all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bias_metrics._core.differences import Difference
from bias_metrics.gate.judging import measured
from bias_metrics.metrics import GIVEN, METRICS
from bias_metrics.table import BiasTable, Key

ALPHA = 0.05
MOST_CAUSES = 8
"""Subgroups whose rows are left out at most. Each takes a joint comparison of all others."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A cell in which the first model is shown to be worse than the second."""

    metric: str
    group: str
    first: float
    second: float
    worse_by: float
    """By how much; above 0."""
    worse_by_at_least: float
    """Its lower bound."""
    low: float
    """With `high`, bounds of the change as the gate reads it: of an AUC the difference, of a gap
    the growth of its size."""
    high: float
    threshold: str | None = None
    """The name of the threshold of an error gap."""
    without: tuple[str, ...] = ()
    """The subgroups without whose rows it is no longer shown, in the order in which they were left
    out; empty if it is the subgroup's own."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; that of a threshold only if there is one."""
        content = vars(self) | {"without": list(self.without)}
        return {key: value for key, value in content.items() if value is not None}


Again = Callable[[Sequence[str]], "Losses | None"]


@dataclass(frozen=True)
class Losses:
    """What is shown to be worse, with bounds that hold together."""

    cells: tuple[Loss, ...]
    """What is shown, the largest lower bound first."""
    n_bounds: int
    """How many one-sided bounds were looked at."""
    confidence: float
    """The two-sided confidence of each interval; one of its ends is the bound."""
    by_rows: bool = True
    """Whether there are rows that tell whose a loss is; counts do not."""

    @classmethod
    def of(
        cls,
        table: BiasTable,
        rival: str,
        looked_at: Mapping[str, Iterable[str]],
        level: float,
    ) -> Losses:
        """List the cells in which the first model is shown to be worse than the second.

        The bounds are those that the gate compares with a margin: for an AUC the difference, for
        a gap the growth of its size. A gap that only changes its sign did not get worse.

        Parameters
        ----------
        table : BiasTable
            With the differences from the rival, error gaps at the thresholds in use.
        rival : str
            `champion` or `reference`.
        looked_at : mapping of str to iterable of str
            By subgroup, the metrics that are looked at. A cell without an interval is not.
        level : float
            The confidence of the table: that of `joint_level`, so that all bounds hold
            together.
        """
        bounds = list(_bounds(table, rival, looked_at))
        shown = (bound for bound in bounds if bound.worse_by_at_least > 0)
        # By the bound, so that a few unlucky rows do not come before evidence.
        ordered = sorted(shown, key=lambda loss: -loss.worse_by_at_least)
        return cls(tuple(ordered), len(bounds), level)

    @property
    def groups(self) -> list[str]:
        """The subgroups with a cell that is shown, in the order of the cells."""
        return list(dict.fromkeys(cell.group for cell in self.cells))

    @property
    def may_be_shared(self) -> bool:
        """Whether several subgroups lose, and counts do not tell by whose rows."""
        return not self.by_rows and len(self.groups) > 1

    def attributed(self, again: Again) -> Losses:
        """Say of each cell whose rows it comes from.

        Subgroups share rows, with each other and in what they are compared with, so a loss of one
        is shown in cells of others too. The subgroup of the largest shown loss is taken as a
        cause; the others are measured again without its rows; the largest of what is then still
        shown is the next cause, until nothing is shown. A cell of a cause is its own.

        Parameters
        ----------
        again : callable
            From the causes so far to the losses of the other subgroups in the rows of none of
            them; None if these rows cannot be measured, which ends it.
        """
        if len(self.groups) < 2:
            return self
        left_out: dict[tuple[str, str], tuple[str, ...]] = {}
        causes: list[str] = []
        shown = self
        while shown.cells and len(causes) < MOST_CAUSES:
            causes.append(shown.cells[0].group)
            if set(shown.groups) <= set(causes):
                break
            found = again(causes)
            if found is None:
                break
            still = {_key(loss) for loss in found.cells}
            for loss in shown.cells:
                if _key(loss) not in still:
                    left_out[_key(loss)] = tuple(causes)
            known = {_key(loss) for loss in shown.cells}
            shown = replace(found, cells=tuple(x for x in found.cells if _key(x) in known))

        def told(cell: Loss) -> Loss:
            is_own = cell.group in causes
            return replace(cell, without=() if is_own else left_out.get(_key(cell), ()))

        return replace(self, cells=tuple(map(told, self.cells)))


def _bounds(table: BiasTable, rival: str, looked_at: Mapping[str, Iterable[str]]) -> Iterator[Loss]:
    """Yield each cell that has a bound, as if it were shown."""
    for group, metrics in looked_at.items():
        for metric in metrics:
            known = METRICS[metric]
            threshold = GIVEN if known.has_threshold else None
            cell = table[Key(metric, group, threshold, rival)]
            assert isinstance(cell, Difference)  # noqa: S101 - against a rival
            change = measured(cell, is_gap=known.is_gap)
            value, low, high = change.value, change.low, change.high
            if value is None or low is None or high is None:
                continue
            assert cell.first is not None  # noqa: S101 - there is a difference
            assert cell.second is not None  # noqa: S101
            by, at_least = (value, low) if known.is_gap else (-value, -high)
            yield Loss(
                metric=metric,
                group=group,
                first=cell.first,
                second=cell.second,
                worse_by=by,
                worse_by_at_least=at_least,
                low=low,
                high=high,
                threshold=threshold,
            )


def _key(cell: Loss) -> tuple[str, str]:
    return cell.group, cell.metric
