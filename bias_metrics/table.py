"""All numbers of a model on a set of rows, by metric, group, threshold and rival."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from bias_metrics._core.checks import check_choice
from bias_metrics._core.differences import Difference
from bias_metrics._core.tables import (
    Row,
    Table,
    Tabular,
    get_known_value,
    import_optional,
    to_plain_values,
)
from bias_metrics._core.values import Estimate, MetricValue, NamedValues
from bias_metrics.borkan import compute_power_mean, final_score
from bias_metrics.extremes import SubgroupSpread, WorstSubgroup, find_worst, measure_spread
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS, PAIRS, SUBGROUP_METRICS
from bias_metrics.rows import Background, RowCounts

__all__ = ["BiasTable", "Estimate", "Key", "NamedValues", "RowCounts"]

SECOND = "second"
"""Name of the second model in a table of differences (first minus second)."""
_OF_DIFFERENCES = ("first", "second", "p_value", "p_holm", "p_bh", "size_low", "size_high")


class Key(NamedTuple):
    """Key of a number in a table."""

    metric: str
    """Its name in `METRICS`."""
    group: str | None = None
    """The group; None for all rows, and for a power mean over the groups."""
    threshold: str | None = None
    """Name of the decision threshold, if the metric has a threshold."""
    against: str | None = None
    """The rival of a difference: `champion` or `reference`."""


class Subtractable(Protocol):
    """Rows with the scores of a model."""

    def subtract(self, other: Any, /) -> BiasTable:
        """Return the differences from another model on the same rows."""


@dataclass(frozen=True, repr=False)
class BiasTable(Mapping[Key, Estimate], Tabular):
    """Numbers by metric and group: `table["bpsn_auc", "gay"]`, `table["gay"]`, `table.overall`.

    Differences of two models have the same keys as the numbers of a single model. A power mean over
    the groups has the name of its metric, and group None.
    """

    numbers: Mapping[Key, Estimate]
    """The numbers, in the order of measurement."""
    counts: Mapping[str | None, RowCounts]
    """Row counts by group, in the given order, and of all rows under None."""
    confidence: float = 0.95
    """Confidence of the intervals."""
    background: Background = "outside_subgroup"
    """The rows that each group is compared with: all rows outside it, or rows in no group."""
    power: float = -5.0
    """Exponent of the power means."""
    covered: tuple[str, ...] = ()
    """The groups in the power means and the final score."""
    categories: tuple[str, ...] = ()
    """Groups that join other groups."""
    thresholds: Mapping[tuple[str, str | None], float] = field(default_factory=dict)
    """The decision thresholds, by name and model: None for the candidate or first model, the name
    of a rival, or `second` in a table of differences."""
    joint_confidence: float | None = None
    """Joint confidence of the intervals of a number for several candidates: see
    `compare_candidates`."""
    measured: Subtractable | None = field(default=None, repr=False, compare=False)
    """The measured rows and scores, for `subtract`."""

    @classmethod
    def from_cells(
        cls,
        auc: MetricValue,
        cells: Mapping[str, Mapping[str, MetricValue]],
        counts: Mapping[str | None, RowCounts],
        *,
        power: float,
        covered: tuple[str, ...],
        **options: Any,
    ) -> BiasTable:
        """Make a table, and compute power means and the final score without intervals.

        `auc` is the overall AUC, and `cells` have numbers by group and metric; other arguments are
        fields of the table.
        """
        means = {
            metric: compute_power_mean({name: cells[name][metric] for name in covered}, power)
            for metric in FINAL_SCORE_PARTS
        }
        numbers = {
            Key("auc"): auc,
            **{Key(metric): mean for metric, mean in means.items()},
            Key("final_score"): final_score(auc, means),
            **key_numbers(cells),
        }
        return cls(numbers, counts, power=power, covered=covered, **options)

    def add_numbers(self, numbers: Mapping[Key, Estimate], against: str | None = None) -> BiasTable:
        """Return the table with further numbers; `against` is the rival of differences."""
        thresholds = dict(numbers.thresholds) if isinstance(numbers, BiasTable) else {}
        if against is not None:
            numbers = {key._replace(against=against): number for key, number in numbers.items()}
            thresholds = {
                (name, against): value
                for (name, model), value in thresholds.items()
                if model == SECOND
            }
        return replace(
            self,
            numbers={**self.numbers, **numbers},
            thresholds={**self.thresholds, **thresholds},
        )

    def select_groups(self, groups: Iterable[str]) -> BiasTable:
        """Return the table of all rows and of the selected groups, in this order."""
        places = {name: place for place, name in enumerate((None, *groups))}
        kept = [(places[key.group], key) for key in self.numbers if key.group in places]
        return replace(
            self,
            numbers={key: self.numbers[key] for _, key in sorted(kept, key=lambda pair: pair[0])},
            counts={name: self.counts[name] for name in places},
            measured=None,
        )

    def select_rival(self, rival: str) -> BiasTable | None:
        """Return the differences from a rival as a table; None without such differences."""
        numbers = {
            key._replace(against=None): number
            for key, number in self.numbers.items()
            if key.against == rival
        }
        return replace(self, numbers=numbers, measured=None) if numbers else None

    def select_threshold(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the numbers at a decision threshold, by group and metric."""
        numbers: dict[str, dict[str, Any]] = {}
        for key, number in self.numbers.items():
            if key.threshold == name and key.against is None and key.group is not None:
                numbers.setdefault(key.group, {})[key.metric] = number
        return numbers

    def recompute_cells(self, confidence: float) -> BiasTable:
        """Return the overall AUC, and all AUCs and AEGs of groups, at another confidence.

        Raises
        ------
        ValueError
            As `Estimate.change_confidence`.
        """
        numbers = {
            key: number.change_confidence(confidence)
            for key, number in self.numbers.items()
            if key.metric in PAIRS and (key.group is not None or key.metric == "auc")
        }
        return replace(self, numbers=numbers, confidence=confidence)

    def map_numbers(self, change: Callable[[Estimate], Estimate]) -> BiasTable:
        """Return the table with a function applied to each number."""
        return replace(self, numbers={key: change(number) for key, number in self.numbers.items()})

    def __getitem__(self, key: Key | tuple[str, ...] | str) -> Any:
        """Return a number by metric and group, or all numbers of a group by metric.

        Raises
        ------
        KeyError
            If the number or the group is unknown; the message lists the known names.
        """
        if isinstance(key, str):
            if key in METRICS and key not in self.subgroups:
                msg = f"{key!r} must have a group, as in table[{key!r}, 'gay'], or see `overall`."
                raise KeyError(msg)
            return get_known_value(self.subgroups, key)
        full = key if isinstance(key, Key) else Key(*key)
        if full in self.numbers:
            return self.numbers[full]
        similar = [other for other in self.numbers if (other.group, other.against) == full[1::2]]
        by_threshold = {
            other.threshold: other
            for other in similar
            if other.metric == full.metric and other.threshold
        }
        if full.threshold is None and len(by_threshold) == 1:
            return self.numbers[by_threshold.popitem()[1]]
        if full.against is not None:
            get_known_value(dict.fromkeys(self.rivals), full.against)
        if full.group is not None:
            if full.metric in self.subgroups and full.group in METRICS:
                msg = f"the metric comes first: table[{full.group!r}, {full.metric!r}]."
                raise KeyError(msg)
            get_known_value(self.subgroups, full.group)
        get_known_value({other.metric: other for other in similar}, full.metric)
        if full.threshold is not None:
            get_known_value(by_threshold, full.threshold)
        known = ", ".join(by_threshold)
        msg = f"{full.metric!r} must have the name of its threshold (known: {known})."
        raise KeyError(msg)

    def __repr__(self) -> str:
        return str(self)

    def __contains__(self, key: object) -> bool:
        """Check for a number with exactly this key."""
        return key in self.numbers

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys."""
        return iter(self.numbers)

    def __len__(self) -> int:
        """Count the numbers."""
        return len(self.numbers)

    @property
    def groups(self) -> list[str]:
        """The groups without the categories."""
        return [name for name in self.counts if name is not None and name not in self.categories]

    @property
    def rivals(self) -> list[str]:
        """The rivals of the differences in the table."""
        return list(dict.fromkeys(key.against for key in self.numbers if key.against is not None))

    @cached_property
    def overall(self) -> NamedValues[Any]:
        """The overall AUC (`auc`), the power means by metric, and the `final_score`."""
        return NamedValues(
            {
                key.metric: number
                for key, number in self.numbers.items()
                if key.group is None and key.against is None
            }
        )

    @cached_property
    def subgroups(self) -> dict[str, NamedValues[Any]]:
        """The numbers by group and metric; with several thresholds, as `fpr_gap at NAME`."""
        thresholds = {key.threshold for key in self.numbers if key.threshold is not None}
        by_group: dict[str, NamedValues[Any]] = {
            name: NamedValues() for name in self.counts if name is not None
        }
        for metric, group, threshold, against in self.numbers:
            if group is not None and against is None:
                several = threshold is not None and len(thresholds) > 1
                label = f"{metric} at {threshold}" if several else metric
                by_group[group][label] = self.numbers[Key(metric, group, threshold)]
        return by_group

    @property
    def by_group(self) -> Any:
        """The values as a pandas data frame: a row per group, a column per metric."""
        pandas = import_optional("pandas", "by_group")
        values = {
            name: {metric: number.value for metric, number in group_numbers.items()}
            for name, group_numbers in self.subgroups.items()
        }
        return pandas.DataFrame.from_dict(values, orient="index", dtype=float)

    def worst(self, metric: str) -> WorstSubgroup:
        """Return the group with the worst value: see `WorstSubgroup`.

        Parameters
        ----------
        metric : str
            A metric of groups: the lowest AUC is worst, or the gap farthest from 0.

        Raises
        ------
        ValueError
            If the table lacks the metric, has differences of two models, or several thresholds.

        Examples
        --------
        >>> from bias_metrics import evaluate_bias
        >>> groups = {"jewish": [1, 1, 0, 0, 0, 0], "muslim": [0, 0, 1, 1, 0, 0]}
        >>> y_score = [0.1, 0.9, 0.8, 0.7, 0.2, 0.75]
        >>> worst = evaluate_bias([0, 1, 0, 1, 0, 1], y_score, groups).worst("bpsn_auc")
        >>> worst.subgroup, worst.value.value
        ('muslim', 0.5)
        """
        return find_worst(metric, self._select_metric(metric), self.counts, self.confidence)

    def difference(self, metric: str) -> SubgroupSpread:
        """Return the highest value of a metric among groups minus the lowest.

        Its interval allows for the selection of the two groups: see `SubgroupSpread`.

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
        >>> groups = {"gay": gay, "others": [1 - member for member in gay]}
        >>> spread = evaluate_bias(y_true, y_score, groups).difference("subgroup_auc")
        >>> spread.lowest, str(spread.value)
        ('gay', '0.250 [0.060, 0.438]')
        """
        return measure_spread(metric, self._select_metric(metric), self.counts, self.confidence)

    def _select_metric(self, metric: str) -> dict[str, MetricValue]:
        """Return a single model's numbers of a metric, by group."""
        by_key = {
            key: number
            for key, number in self.numbers.items()
            if key.group is not None and isinstance(number, MetricValue)
        }
        if not by_key and any(key.group is not None for key in self.numbers):
            msg = "the table must have numbers of one model; it has differences of two."
            raise ValueError(msg)
        metrics = tuple(dict.fromkeys(key.metric for key in by_key)) or SUBGROUP_METRICS
        check_choice("metric", metric, metrics)
        matches = {key: number for key, number in by_key.items() if key.metric == metric}
        thresholds = dict.fromkeys(str(key.threshold) for key in matches)
        if len(thresholds) > 1:
            msg = f"{metric} must be at one threshold; got {', '.join(thresholds)}."
            raise ValueError(msg)
        return {str(key.group): number for key, number in matches.items()}

    def subtract(self, other: BiasTable) -> BiasTable:
        """Return the differences from another model's table of the same rows: see `compare_bias`.

        Raises
        ------
        ValueError
            If a table is not from `evaluate_bias` with intervals, or if rows or options differ.
        """
        if self.measured is None or other.measured is None:
            msg = "both tables must be from `evaluate_bias`; use `compare_bias` with both scores."
            raise ValueError(msg)
        return self.measured.subtract(other.measured)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values: the options, counts by group, and a list of numbers."""
        counts = [{"group": name} | rows.to_dict() for name, rows in self.counts.items()]
        values: dict[str, Any] = {
            "confidence": self.confidence,
            "background": self.background,
            "power": self.power,
            "covered": list(self.covered),
            "counts": counts,
            "numbers": [
                {part: value for part, value in key._asdict().items() if value is not None}
                | to_plain_values(number)
                for key, number in self.numbers.items()
            ],
        }
        if self.categories:
            values["categories"] = list(self.categories)
        if self.thresholds:
            values["thresholds"] = [
                {"name": name, "against": against, "value": value}
                for (name, against), value in self.thresholds.items()
            ]
        if self.joint_confidence is not None:
            values["joint_confidence"] = self.joint_confidence
        return values

    def rows(self) -> list[Row]:
        """Return a record per number.

        Returns
        -------
        list of dict
            The keys are `metric`, `group`, `threshold` (its name; its value is `at`), `against`,
            `value`, `std_error`, `low`, `high`, `confidence`, `n_positive`, `n_negative`,
            `n_clusters` and, if a number is None, the `reason`. If any number is a difference, also
            `first`, `second`, p-values, and bounds on the change of a gap's size. `group` is None
            for all rows and for a power mean over the groups.
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
            return f"{number} *" if number.is_significant(level) else str(number)

        body = [
            [name, f"{self.counts[name].n:,}", f"{self.counts[name].n_positive:,}"]
            + [text(number) for number in group_numbers.values()]
            for name, group_numbers in self.subgroups.items()
        ]
        everyone = self.counts[None]
        title = f"{everyone.n:,} rows, {everyone.n_positive:,} positive"
        title = f"first minus second: {title}" if marks else title
        for name, title_of in (("auc", "AUC"), ("final_score", "final score")):
            if name in self.overall:
                title += f"; {title_of} {text(self.overall[name])}"
        header = ["subgroup", "n", "n_positive", *metrics]
        return Table(header, body, title, marks)


def key_numbers(
    groups: Mapping[str, Mapping[str, Estimate]], threshold: str | None = None
) -> dict[Key, Estimate]:
    """Return numbers by key, given numbers by group and metric."""
    return {
        Key(metric, name, threshold if METRICS[metric].has_threshold else None): number
        for name, cells in groups.items()
        for metric, number in cells.items()
    }
