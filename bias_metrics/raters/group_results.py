"""What `rater_group_bias` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bias_metrics._core.differences import Difference
from bias_metrics._core.tables import Row, Table, Tabular
from bias_metrics._core.values import MetricValue
from bias_metrics.raters.expected import Key


@dataclass(frozen=True)
class GroupLabels:
    """The metrics by the labels of one group of raters.

    Attributes
    ----------
    n_comments, n_votes : int
        Comments that the group rated, and its votes.
    n_raters : int or None
        Raters, if they are known.
    toxic : float
        Share of the votes that say toxic.
    numbers : dict of (str or None, str) to MetricValue
        By subgroup (None for all comments) and metric.
    """

    n_comments: int
    n_votes: int
    n_raters: int | None
    toxic: float
    numbers: dict[Key, MetricValue]

    def counts(self) -> dict[str, Any]:
        """Return everything but the numbers."""
        names = ("n_comments", "n_votes", "n_raters", "toxic")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class RaterGroupReport(Tabular):
    """The metrics by the labels of each group of raters.

    Attributes
    ----------
    groups : dict of str to GroupLabels
        By group.
    differences : dict of (str, str) to dict of (str or None, str) to Difference
        By pair of groups, then by subgroup and metric: the number by the labels of the first group
        minus that of the second, on the comments that both rated.
    """

    groups: dict[str, GroupLabels]
    differences: dict[tuple[str, str], dict[Key, Difference]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "groups": {
                name: one.counts()
                | _nested({key: it.to_dict(interval=True) for key, it in one.numbers.items()})
                for name, one in self.groups.items()
            },
            "differences": [
                {"first": first, "second": second}
                | _nested({key: it.to_dict() for key, it in found.items()})
                for (first, second), found in self.differences.items()
            ],
        }

    def rows(self) -> list[Row]:
        """Return one record per group and number, then one per pair of groups and number."""
        parts = ("value", "std_error", "low", "high", "reason")
        known = [((name, None), one.numbers) for name, one in self.groups.items()]
        return [
            {"group": names[0], "minus": names[1], "subgroup": key[0], "metric": key[1]}
            | {part: getattr(value, part) for part in parts}
            for names, numbers in [*known, *self.differences.items()]
            for key, value in numbers.items()  # type: ignore[attr-defined]
        ]

    def _table(self) -> Table:
        first = next(iter(self.groups.values()), None)
        keys = [] if first is None else list(first.numbers)
        counts = [
            f"{name}: {one.n_votes:,} votes on {one.n_comments:,} comments, {one.toxic:.0%} toxic"
            for name, one in self.groups.items()
        ]
        return Table(
            ["subgroup", "metric", *self.groups],
            [
                [name or "", metric]
                + [str(one.numbers[name, metric]) for one in self.groups.values()]
                for name, metric in keys
            ],
            "\n".join(counts),
        )


def _nested(numbers: dict[Key, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"overall": {}, "subgroups": {}}
    for (name, metric), one in numbers.items():
        part = found["overall"] if name is None else found["subgroups"].setdefault(name, {})
        part[metric] = one
    return found
