"""Every number of one model on one set of rows: by metric, group, threshold and rival."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from bias_metrics._core.checks import check_choice
from bias_metrics._core.differences import Difference
from bias_metrics._core.tables import Row, Table, Tabular, known_name, optional, plain
from bias_metrics._core.values import Estimate, MetricValue, Named
from bias_metrics.borkan import final_score, power_mean_of
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, PAIRS, SUBGROUP_METRICS
from bias_metrics.rows import Background
from bias_metrics.spread import SubgroupSpread, spread_of
from bias_metrics.worst import WorstSubgroup, worst_of

__all__ = ["BiasTable", "Estimate", "Key", "Named", "RowCounts"]

SECOND = "second"
"""The rival in a table of differences, whose numbers are the first model's minus the second's."""
_OF_DIFFERENCES = ("first", "second", "p_value", "p_holm", "p_bh", "size_low", "size_high")


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
    """Number of rows of a group, or of all rows, with a weight above 0."""

    n_positive: int
    n_negative: int
    effective: Mapping[str, float] | None = None
    """With sampling weights: Kish's effective sample size by class; of a group also that of its
    background, as `background_positive` and `background_negative`."""

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.n_positive + self.n_negative

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; effective sample sizes only if rows have weights."""
        found: dict[str, Any] = {"n_positive": self.n_positive, "n_negative": self.n_negative}
        return found if self.effective is None else found | {"effective": dict(self.effective)}


class Subtractable(Protocol):
    """Rows with the scores of one model."""

    def minus(self, other: Any, /) -> BiasTable:
        """Return the differences from another model on the same rows."""


@dataclass(frozen=True, repr=False)
class BiasTable(Mapping[Key, Estimate], Tabular):
    """Numbers by metric and group: `table["bpsn_auc", "gay"]`, `table["gay"]`, `table.overall`.

    Differences of two models have the same keys as the numbers of one. A power mean over the groups
    has the name of its metric and no group.
    """

    numbers: Mapping[Key, Estimate]
    """In the order in which they were measured."""
    counts: Mapping[str | None, RowCounts]
    """Rows of each group, in the order given, and of all rows under None."""
    confidence: float = 0.95
    """Confidence of each interval."""
    background: Background = "outside_subgroup"
    """The rows that each group is compared with: all outside it, or those in no group."""
    power: float = -5.0
    """Exponent of the power means."""
    covered: tuple[str, ...] = ()
    """The groups in the power means and the final score."""
    categories: tuple[str, ...] = ()
    """The groups that join others."""
    thresholds: Mapping[tuple[str, str | None], float] = field(default_factory=dict)
    """The decision thresholds, by name and model: None for the candidate or first model, the name
    of a rival, or `second` in a table of differences."""
    joint_confidence: float | None = None
    """Confidence of the intervals of one number for all candidates together, if there are several:
    see `compare_candidates`."""
    measured: Subtractable | None = field(default=None, repr=False, compare=False)
    """What the numbers were measured on, for `minus`."""

    @classmethod
    def of_cells(
        cls,
        auc: MetricValue,
        cells: Mapping[str, Mapping[str, MetricValue]],
        counts: Mapping[str | None, RowCounts],
        *,
        power: float,
        covered: tuple[str, ...],
        **options: Any,
    ) -> BiasTable:
        """Compute power means and final score, without intervals, from the other numbers.

        Parameters
        ----------
        auc : MetricValue
            The overall AUC.
        cells : mapping of str to mapping of str to MetricValue
            By group and metric.
        counts, power, covered, **options
            As in the table.
        """
        means = {
            metric: power_mean_of({name: cells[name][metric] for name in covered}, power)
            for metric in FINAL_SCORE_PARTS
        }
        numbers = {
            Key("auc"): auc,
            **{Key(metric): mean for metric, mean in means.items()},
            Key("final_score"): final_score(auc, means),
            **of_groups(cells),
        }
        return cls(numbers, counts, power=power, covered=covered, **options)

    def with_numbers(
        self, numbers: Mapping[Key, Estimate], against: str | None = None
    ) -> BiasTable:
        """Return the table with further numbers; `against` names the rival of differences."""
        thresholds = dict(numbers.thresholds) if isinstance(numbers, BiasTable) else {}
        if against is not None:
            numbers = {key._replace(against=against): one for key, one in numbers.items()}
            thresholds = {
                (name, against): value for (name, of), value in thresholds.items() if of == SECOND
            }
        return replace(
            self,
            numbers={**self.numbers, **numbers},
            thresholds={**self.thresholds, **thresholds},
        )

    def among(self, groups: Iterable[str]) -> BiasTable:
        """Return the table with the numbers of these groups, in this order, and of all rows."""
        names = list(groups)
        of_group: dict[str | None, dict[Key, Estimate]] = {None: {}, **{one: {} for one in names}}
        for key, number in self.numbers.items():
            if key.group in of_group:
                of_group[key.group][key] = number
        numbers = {key: one for of in of_group.values() for key, one in of.items()}
        return replace(
            self,
            numbers=numbers,
            counts={name: self.counts[name] for name in (None, *names)},
            measured=None,
        )

    def against(self, rival: str) -> BiasTable | None:
        """Return the differences from a rival as a table; None if there are none."""
        numbers = {
            key._replace(against=None): number
            for key, number in self.numbers.items()
            if key.against == rival
        }
        return replace(self, numbers=numbers, measured=None) if numbers else None

    def at_threshold(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the numbers at a decision threshold, by group and metric."""
        found: dict[str, dict[str, Any]] = {}
        for key, number in self.numbers.items():
            if key.threshold == name and key.against is None and key.group is not None:
                found.setdefault(key.group, {})[key.metric] = number
        return found

    def cells_at(self, confidence: float) -> BiasTable:
        """Return the overall AUC and the AUCs and AEGs of each group at another confidence.

        Raises
        ------
        ValueError
            As `Estimate.at`.
        """
        numbers = {
            key: number.at(confidence)
            for key, number in self.numbers.items()
            if key.metric in PAIRS and (key.group is not None or key.metric == "auc")
        }
        return replace(self, numbers=numbers, confidence=confidence)

    def mapped(self, change: Callable[[Estimate], Estimate]) -> BiasTable:
        """Return the table with each number changed by a function."""
        return replace(self, numbers={key: change(one) for key, one in self.numbers.items()})

    def __getitem__(self, key: Key | tuple[str, ...] | str) -> Any:
        """Return a number by metric and group, or all numbers of a group by metric.

        Raises
        ------
        KeyError
            If the number or the group is unknown; the message lists the known ones.
        """
        if isinstance(key, str):
            if key in METRICS and key not in self.subgroups:
                msg = f"{key!r} must have a group, as in table[{key!r}, 'gay'], or see `overall`."
                raise KeyError(msg)
            return known_name(self.subgroups, key)
        full = key if isinstance(key, Key) else Key(*key)
        if full in self.numbers:
            return self.numbers[full]
        like = [one for one in self.numbers if (one.group, one.against) == full[1::2]]
        at = {one.threshold: one for one in like if one.metric == full.metric and one.threshold}
        if full.threshold is None and len(at) == 1:
            return self.numbers[at.popitem()[1]]
        if full.against is not None:
            known_name(dict.fromkeys(self.rivals), full.against)
        if full.group is not None:
            if full.metric in self.subgroups and full.group in METRICS:
                msg = f"the metric comes first: table[{full.group!r}, {full.metric!r}]."
                raise KeyError(msg)
            known_name(self.subgroups, full.group)
        known_name({one.metric: one for one in like}, full.metric)
        if full.threshold is not None:
            known_name(at, full.threshold)
        msg = f"{full.metric!r} must have the name of its threshold (known: {', '.join(at)})."
        raise KeyError(msg)

    def __repr__(self) -> str:
        return str(self)

    def __contains__(self, key: object) -> bool:
        """Say whether there is a number with exactly this key."""
        return key in self.numbers

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys."""
        return iter(self.numbers)

    def __len__(self) -> int:
        """Count the numbers."""
        return len(self.numbers)

    @property
    def groups(self) -> list[str]:
        """The groups that join no others."""
        return [name for name in self.counts if name is not None and name not in self.categories]

    @property
    def rivals(self) -> list[str]:
        """The models from which there are differences."""
        return list(dict.fromkeys(key.against for key in self.numbers if key.against is not None))

    @cached_property
    def overall(self) -> Named[Any]:
        """The overall AUC (`auc`), the power means by metric, and the `final_score`."""
        return Named(
            {
                key.metric: number
                for key, number in self.numbers.items()
                if key.group is None and key.against is None
            }
        )

    @cached_property
    def subgroups(self) -> dict[str, Named[Any]]:
        """The numbers of each group, by metric; at one of several thresholds as `fpr_gap at x`."""
        at = {key.threshold for key in self.numbers if key.threshold is not None}
        found: dict[str, Named[Any]] = {name: Named() for name in self.counts if name is not None}
        for metric, group, threshold, against in self.numbers:
            if group is not None and against is None:
                several = threshold is not None and len(at) > 1
                label = f"{metric} at {threshold}" if several else metric
                found[group][label] = self.numbers[Key(metric, group, threshold)]
        return found

    @property
    def by_group(self) -> Any:
        """The values as a pandas data frame: one row per group, one column per metric."""
        pandas = optional("pandas", "by_group")
        values = {
            name: {metric: number.value for metric, number in of_group.items()}
            for name, of_group in self.subgroups.items()
        }
        return pandas.DataFrame.from_dict(values, orient="index", dtype=float)

    def worst(self, metric: str) -> WorstSubgroup:
        """Return the group that is treated worst: see `WorstSubgroup`.

        Parameters
        ----------
        metric : str
            A metric of groups: the lowest AUC is worst, or the gap farthest from 0.

        Raises
        ------
        ValueError
            If the table has no such numbers of one model, or has them at several thresholds.

        Examples
        --------
        >>> from bias_metrics import evaluate_bias
        >>> groups = {"jewish": [1, 1, 0, 0, 0, 0], "muslim": [0, 0, 1, 1, 0, 0]}
        >>> y_score = [0.1, 0.9, 0.8, 0.7, 0.2, 0.75]
        >>> worst = evaluate_bias([0, 1, 0, 1, 0, 1], y_score, groups).worst("bpsn_auc")
        >>> worst.subgroup, worst.value.value
        ('muslim', 0.5)
        """
        return worst_of(metric, self._of_metric(metric), self.counts, self.confidence)

    def difference(self, metric: str) -> SubgroupSpread:
        """Return how far the groups are apart: the highest value of a metric minus the lowest.

        Its interval is that of the two groups that differ most, whichever they are: see
        `SubgroupSpread`.

        Parameters
        ----------
        metric : str
            A metric of groups.

        Raises
        ------
        ValueError
            As `worst`; or if the table was read from a file.

        Examples
        --------
        >>> from bias_metrics import evaluate_bias
        >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
        >>> y_score = [0.1, 0.4, 0.5, 0.9] * 10 + [0.4, 0.6, 0.5, 0.7] * 10
        >>> groups = {"gay": gay, "others": [1 - one for one in gay]}
        >>> found = evaluate_bias(y_true, y_score, groups).difference("subgroup_auc")
        >>> found.lowest, str(found.value)
        ('gay', '0.250 [0.060, 0.438]')
        """
        return spread_of(metric, self._of_metric(metric), self.counts, self.confidence)

    def _of_metric(self, metric: str) -> dict[str, MetricValue]:
        """Return one model's numbers of a metric, by group."""
        of_groups = {
            key: number
            for key, number in self.numbers.items()
            if key.group is not None and isinstance(number, MetricValue)
        }
        if not of_groups and any(key.group is not None for key in self.numbers):
            msg = "the table must have numbers of one model; it has differences of two."
            raise ValueError(msg)
        metrics = tuple(dict.fromkeys(key.metric for key in of_groups)) or SUBGROUP_METRICS
        check_choice("metric", metric, metrics)
        found = {key: one for key, one in of_groups.items() if key.metric == metric}
        at = dict.fromkeys(str(key.threshold) for key in found)
        if len(at) > 1:
            msg = f"{metric} must be at one threshold; got {', '.join(at)}."
            raise ValueError(msg)
        return {str(key.group): one for key, one in found.items()}

    def minus(self, other: BiasTable) -> BiasTable:
        """Return the differences from another model's table of the same rows: see `compare_bias`.

        Raises
        ------
        ValueError
            If a table is not from `evaluate_bias` with intervals, or they are of other rows or
            options.
        """
        if self.measured is None or other.measured is None:
            msg = "both tables must be from `evaluate_bias`; use `compare_bias` with both scores."
            raise ValueError(msg)
        return self.measured.minus(other.measured)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values: the options, counts by group, and a list of numbers."""
        counts = [{"group": name} | rows.to_dict() for name, rows in self.counts.items()]
        found: dict[str, Any] = {
            "confidence": self.confidence,
            "background": self.background,
            "power": self.power,
            "covered": list(self.covered),
            "counts": counts,
            "numbers": [
                {part: value for part, value in key._asdict().items() if value is not None}
                | plain(number)
                for key, number in self.numbers.items()
            ],
        }
        if self.categories:
            found["categories"] = list(self.categories)
        if self.thresholds:
            found["thresholds"] = [
                {"name": name, "against": against, "value": value}
                for (name, against), value in self.thresholds.items()
            ]
        if self.joint_confidence is not None:
            found["joint_confidence"] = self.joint_confidence
        return found

    def rows(self) -> list[Row]:
        """Return one record per number.

        Returns
        -------
        list of dict
            `metric`, `group`, `threshold` (its name; its value is `at`), `against`, `value`,
            `std_error`, `low`, `high`, `confidence`, `n_positive`, `n_negative`, `n_clusters` and,
            if a number is None, the `reason`; if any number is a difference, also `first`,
            `second`, p-values, and bounds on the change of a gap's size. `group` is None for all
            rows and for a power mean over the groups.
        """
        compared = any(isinstance(number, Difference) for number in self.numbers.values())
        names = _OF_DIFFERENCES if compared else ()
        return [
            {
                **key._asdict(),
                "at": self.thresholds.get((key.threshold or "", None)),
                **{end: getattr(number, end) for end in ("value", "std_error", "low", "high")},
                "confidence": self.confidence,
                "n_positive": self.counts[key.group].n_positive,
                "n_negative": self.counts[key.group].n_negative,
                "n_clusters": number.n_clusters,
                **{name: getattr(number, name, None) for name in names},
                "reason": number.reason,
            }
            for key, number in self.numbers.items()
        ]

    def _table(self) -> Table:
        metrics = list(next(iter(self.subgroups.values()), ()))
        level, marks = self.joint_confidence or self.confidence, list[str]()

        def text(number: Estimate) -> str:
            if not isinstance(number, Difference):
                return str(number)
            marks[:] = [f"* shown at {level:.0%} confidence after Holm's adjustment"]
            return f"{number} *" if number.shown(level) else str(number)

        body = [
            [name, f"{self.counts[name].n:,}", f"{self.counts[name].n_positive:,}"]
            + [text(number) for number in of_group.values()]
            for name, of_group in self.subgroups.items()
        ]
        everyone = self.counts[None]
        title = f"{everyone.n:,} rows, {everyone.n_positive:,} positive"
        title = f"first minus second: {title}" if marks else title
        for name, title_of in (("auc", "AUC"), ("final_score", "final score")):
            if name in self.overall:
                title += f"; {title_of} {text(self.overall[name])}"
        header = ["subgroup", "n", "n_positive", *metrics]
        return Table(header, body, title, marks)


def of_groups(
    groups: Mapping[str, Mapping[str, Estimate]], threshold: str | None = None
) -> dict[Key, Estimate]:
    """Return numbers by key, given those of each group by metric."""
    return {
        Key(metric, name, threshold if METRICS[metric].has_threshold else None): number
        for name, cells in groups.items()
        for metric, number in cells.items()
    }
