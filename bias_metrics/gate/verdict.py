"""Input and output of the gate: evidence, results of rules, the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from bias_metrics._core.tables import Row, Table, Tabular, plain
from bias_metrics.gate.judging import RIVALS, Outcome
from bias_metrics.gate.rolling import Hierarchy
from bias_metrics.gate.rules import Action, Kind
from bias_metrics.groups.dominance import DominantUnits
from bias_metrics.table import BiasTable

Reason = Literal[
    "met",
    "not_met",
    "undecided",
    "not_finite",
    "no_interval",
    "undefined",
    "few_rows",
    "no_rival",
    "small_group",
    "loss",
    "no_loss",
    "no_better_than_chance",
    "flags_nothing",
    "flags_everything",
    "share",
    "share_zero",
    "share_undefined",
    "missing_not_ruled",
    "truncated_unknown",
]
"""Why a result has its outcome: the id of the message that says so."""


@dataclass(frozen=True)
class SmallGroups:
    """How groups are judged that have too few rows for a rule."""

    hierarchy: Hierarchy | None = None
    """Categories in which they are judged."""
    blind: tuple[float, float] | None = None
    """The largest loss against a rival that their own bounds may leave open: of an AUC, and of the
    size of a gap; None for any. Only with a hierarchy."""
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """Groups that the rows are known not to measure, with the reason."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """What to think of where a group lacks evidence: an entry that ended, or is misspelt."""


@dataclass(frozen=True)
class Lack:
    """Too few rows or clusters for a rule."""

    of: Literal["positive", "negative", "cluster"]
    n: int
    needed: int
    """How many there are, and how many the rule needs."""
    side: Literal["", "background"] = ""
    effective: bool = False
    """Whether `n` is an effective sample size: rows have weights."""
    group: str | None = None
    """Which group lacks them, of several that are judged together."""
    categories: tuple[Lack, ...] = ()
    """What the categories of a group lack, in which it might have been judged."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without defaults."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        content = {name: value for name, (value, default) in values.items() if value != default}
        if self.categories:
            content["categories"] = [one.to_dict() for one in self.categories]
        return content


@dataclass(frozen=True)
class Evidence:
    """What was measured on one slice, with intervals of one confidence."""

    table: BiasTable
    """Every number that rules may read, with the differences from each rival."""
    background: Mapping[str, int] | None = None
    """Rows by class (`positive`, `negative`) of a background that all subgroups share, such as the
    one without identities; default each subgroup's own, all rows outside it."""
    is_sample: bool = True
    """Whether rows are a sample of those in question. If not, values decide whatever a rule's mode,
    no support is needed, and sentences say that they are about these rows."""
    small: SmallGroups = field(default_factory=SmallGroups)
    """How subgroups are judged that have too few rows for a rule. With a hierarchy, the table has
    categories."""
    alone: Evidence | None = None
    """The same with the confidence at which all bounds of the small subgroups hold together."""
    rolled: Mapping[str, Rolled] = field(default_factory=dict)
    """By the rule's name: aggregates over the subgroups with enough rows for it, and over the
    categories of the others."""

    def has(self, kind: Kind) -> bool:
        """Say whether there is what a kind of limit is compared with."""
        return kind not in RIVALS or kind in self.table.rivals


@dataclass(frozen=True)
class Rolled:
    """Aggregates over subgroups with support, and categories of the others."""

    groups: tuple[str, ...]
    """The subgroups and categories."""
    evidence: Evidence
    """The table with these aggregates."""


@dataclass(frozen=True)
class RuleResult(Tabular):
    """What one rule says about one number and one limit."""

    rule: str
    """`Rule.name`."""
    kind: Kind
    """What the number was compared with."""
    metric: str
    scope: str
    """The number; `scope` is `overall`, `aggregate`, `worst`, `subgroup` or `category`."""
    group: str | None
    slice: str | None
    """The subgroup (for `worst`: the worst one) or category, and the slice."""
    mode: str
    """What decides: a bound or the value."""
    confidence: float
    """One-sided confidence."""
    limit: float
    """Floor, ceiling or margin."""
    n_positive: int
    n_negative: int
    """Rows of the subgroup; for the other scopes, all rows."""
    outcome: Outcome | Literal["skipped"]
    action: Action
    """See `bias_metrics.gate.decide` and `Rule`."""
    reason: Reason
    """Why it has this outcome."""
    value: float | None = None
    rival: float | None = None
    """The candidate's value and the champion's or reference's; None if undefined."""
    low: float | None = None
    high: float | None = None
    """Interval of what is compared with the limit: the value, the size of an AEG, or the change
    against the rival. Each end is a one-sided bound of `confidence`."""
    bound: float | None = None
    """The end, or the value, that decided."""
    n_clusters: int | None = None
    """Clusters behind the number, if rows come in clusters."""
    threshold: str | None = None
    """Name of the decision threshold, if the metric has one."""
    at: float | None = None
    rival_at: float | None = None
    """The thresholds of that name: the candidate's, and the champion's or reference's."""
    judged_in: str | None = None
    """The category in which a subgroup is judged that has too few rows to be judged alone. Its own
    result is `skipped`, or `fail` if it is shown to be worse."""
    blind: float | None = None
    """The largest loss that may be left open of a subgroup with too few rows."""
    not_measured: str | None = None
    """Why the rows are known not to measure the subgroup."""
    not_excluded: float | None = None
    """Of a subgroup with too few rows, its own one-sided bound: the loss against the rival, the
    value, or the size of a gap."""
    visible: float | None = None
    """The loss (below a floor, above a ceiling) that such rows show with a chance of 80 %."""
    rows_needed: Mapping[str, int] = field(default_factory=dict)
    """How many more rows of each class the rule would need, if the model is as good as the rival.
    """
    instead_of: tuple[str, ...] = ()
    """The subgroups that are judged in this category; for an aggregate, what it covers."""
    hint: str | None = None
    """What to think of where a subgroup lacks evidence: an entry of `not_measured` that ended, or
    that is misspelt."""
    on_these_rows: bool = False
    """Whether the number is about exactly these rows, and not about comments like them."""
    lack: Lack | None = None
    """Too few rows or clusters."""
    why: str | None = None
    """Why a number, or its interval, is undefined."""
    n_categories: int = 0
    """How many of `instead_of` an aggregate covers as categories."""
    rows_for_margin: int | None = None
    n_compared: int | None = None
    """Rows of each compared class that a margin needs, and how many there are, if fewer."""
    n_bounds: int | None = None
    """How many bounds of losses hold together."""
    without: tuple[str, ...] = ()
    """Groups: if the rows of one are left out, the loss is not significant."""
    may_be_shared: bool = False
    """Whether a loss may come from rows of another group that loses: counts do not tell."""
    n_marked: int | None = None
    n_rows: int | None = None
    """Rows without a score, or truncated, and all rows."""
    role: str | None = None
    """Whose scores are missing."""
    positives_flagged: float | None = None
    """Share of positives that a threshold flags; `value` is that of negatives."""
    dominated_by: DominantUnits | None = None
    """The few rows of large weight for which a pass is not proven."""

    @property
    def lacks_rows(self) -> bool:
        """Whether the rule asks for more rows or clusters than there are.

        Only an entry of `not_measured` helps then: else the group is judged all the same.
        """
        is_alone = bool(self.rows_needed) or self.visible is not None
        return self.outcome == "insufficient" and (is_alone or self.reason == "few_rows")

    @property
    def counts(self) -> bool:
        """Whether the result counts for the verdict."""
        return self.action == "block" and self.outcome != "skipped"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; those that few results have only if they differ from the default."""
        content = {one.name: plain(getattr(self, one.name)) for one in fields(self)}
        kept = {"value", "rival", "low", "high", "bound", "n_clusters"}
        if self.threshold is not None:
            kept |= {"threshold", "at", "rival_at"}
        empty = {one.name: plain(one.default) for one in fields(self)} | {"rows_needed": {}}
        return {key: value for key, value in content.items() if key in kept or value != empty[key]}


_SHOWN = {
    *("rule", "kind", "metric", "scope", "group", "slice", "threshold", "outcome", "action"),
    *("reason", "mode", "confidence", "limit", "value", "rival", "low", "high", "bound"),
    *("n_positive", "n_negative", "n_clusters"),
}


@dataclass(frozen=True)
class Verdict(Tabular):
    """The decision over all rules."""

    outcome: Outcome
    """The worst outcome among blocking results."""
    results: tuple[RuleResult, ...]
    """Every result, in the order of the rules."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"outcome": self.outcome, "results": [result.to_dict() for result in self.results]}

    def rows(self) -> list[Row]:
        """Return one record per result."""
        return [
            {one.name: getattr(result, one.name) for one in fields(result) if one.name in _SHOWN}
            for result in self.results
        ]

    def _table(self) -> Table:
        shown = ("rule", "group", "outcome", "reason")
        rows = [{name: row[name] for name in shown} for row in self.rows()]
        return Table.of(rows, f"verdict: {self.outcome}")
