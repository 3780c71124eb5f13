"""Input and output of the gate: evidence, results of rules, the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from bias_metrics._core.tables import Row, Table, Tabular, drop_defaults
from bias_metrics.gate.hierarchy import Hierarchy
from bias_metrics.gate.outcome import RIVALS, Outcome
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
"""Why a result has its outcome; also the id of its message."""


@dataclass(frozen=True)
class SmallGroups:
    """Settings for groups with too few rows for a rule."""

    hierarchy: Hierarchy | None = None
    """Categories in which they are judged."""
    blind: tuple[float, float] | None = None
    """The largest loss against a rival that their own bounds need not exclude, in an AUC and in the
    size of a gap; None for no limit. Only with a hierarchy."""
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """Groups that the evaluation set cannot measure, with the policy's reason."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Hints for groups that lack evidence: an entry of `not_measured` expired or is misspelt."""


@dataclass(frozen=True)
class Lack:
    """Too few rows or clusters for a rule."""

    of: Literal["positive", "negative", "cluster"]
    n: int
    needed: int
    """The present and the required number."""
    side: Literal["", "background"] = ""
    effective: bool = False
    """True if `n` is the effective sample size of weighted rows."""
    group: str | None = None
    """The group that lacks them, if several are judged together."""
    categories: tuple[Lack, ...] = ()
    """The lacks of the categories in which the group might have been judged."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without defaults."""
        return drop_defaults(self)


@dataclass(frozen=True)
class Evidence:
    """The measurements on a slice, with intervals at a single confidence."""

    table: BiasTable
    """Every number that rules may read, with the differences from each rival."""
    background: Mapping[str, int] | None = None
    """Rows by class (`positive`, `negative`) of a background that all subgroups share, such as all
    rows without identities; by default each subgroup's background is all rows outside it."""
    is_sample: bool = True
    """True if rows are a sample. If not, values decide whatever a rule's mode, no support is
    needed, and messages state that they are about these rows."""
    small_groups: SmallGroups = field(default_factory=SmallGroups)
    """Settings for subgroups with too few rows for a rule. With a hierarchy, the table has
    categories."""
    joint_evidence: Evidence | None = None
    """The same evidence with joint bounds for all small subgroups."""
    rolled_aggregates: Mapping[str, RolledAggregate] = field(default_factory=dict)
    """By the rule's name, aggregates over the subgroups with enough rows for the rule, and over the
    categories of the others."""

    def can_judge(self, kind: Kind) -> bool:
        """Return True for a floor or ceiling, and for a rival with differences in the table."""
        return kind not in RIVALS or kind in self.table.rivals


@dataclass(frozen=True)
class RolledAggregate:
    """Aggregates over subgroups with enough rows, and over categories of the others."""

    groups: tuple[str, ...]
    """The covered subgroups and categories."""
    evidence: Evidence


@dataclass(frozen=True)
class RuleResult(Tabular):
    """The result of a rule for a number and a limit."""

    rule: str
    """`Rule.name`."""
    kind: Kind
    """The floor, ceiling or rival that the number was compared with."""
    metric: str
    scope: str
    """The metric, and its scope: `overall`, `aggregate`, `worst`, `subgroup` or `category`."""
    group: str | None
    slice: str | None
    """The subgroup (the worst, for scope `worst`) or category, and the slice."""
    mode: str
    """`proven` if a bound decides, `estimate` if the value decides."""
    confidence: float
    """One-sided confidence."""
    limit: float
    """Floor, ceiling or margin."""
    n_positive: int
    n_negative: int
    """Rows of the subgroup or category; for the other scopes, all rows."""
    outcome: Outcome | Literal["skipped"]
    action: Action
    """See `bias_metrics.gate.judge_rules` and `Rule`."""
    reason: Reason
    """Why it has this outcome."""
    value: float | None = None
    rival: float | None = None
    """The candidate's value, and the champion's or reference's; None if undefined."""
    low: float | None = None
    high: float | None = None
    """Interval of the number that the limit applies to: the value, the size of an AEG, or the
    change against the rival. Each end is a one-sided bound of `confidence`."""
    bound: float | None = None
    """The end of the interval, or the value, that decided."""
    n_clusters: int | None = None
    """Number of clusters, if rows come in clusters."""
    threshold: str | None = None
    """Name of the decision threshold, for a metric at a threshold."""
    at: float | None = None
    rival_at: float | None = None
    """The thresholds of that name: the candidate's, and the champion's or reference's."""
    judged_in: str | None = None
    """The category in which a subgroup with too few rows is judged. The subgroup's own result is
    `skipped`, or `fail` if it is significantly worse."""
    blind: float | None = None
    """The largest loss that a subgroup with too few rows need not exclude."""
    not_measured: str | None = None
    """The policy's reason why the evaluation set cannot measure the subgroup."""
    not_excluded: float | None = None
    """One-sided bound of a subgroup with too few rows: of the loss against the rival, of the value,
    or of the size of a gap."""
    visible: float | None = None
    """The loss (below a floor, above a ceiling) that such rows detect with a power of 80 %."""
    rows_needed: Mapping[str, int] = field(default_factory=dict)
    """Further rows by class that the rule would need, if the model is as good as the rival."""
    instead_of: tuple[str, ...] = ()
    """The subgroups judged in this category; for an aggregate, the groups that it covers."""
    hint: str | None = None
    """Hint for a subgroup that lacks evidence: an entry of `not_measured` expired or is misspelt.
    """
    on_these_rows: bool = False
    """True if the rows are a complete list, so that the number does not apply to other comments."""
    lack: Lack | None = None
    why: str | None = None
    """Why a number, or its interval, is undefined."""
    n_categories: int = 0
    """Number of categories among `instead_of` of an aggregate."""
    rows_for_margin: int | None = None
    n_compared: int | None = None
    """Rows per compared class that a margin needs, and the present number, if smaller."""
    n_bounds: int | None = None
    """Number of joint bounds of losses."""
    without: tuple[str, ...] = ()
    """Groups without whose rows the loss is not significant."""
    may_be_shared: bool = False
    """True if a loss may come from rows of another group that loses, which counts cannot show."""
    n_marked: int | None = None
    n_rows: int | None = None
    """Rows without a score, or truncated, and all rows."""
    role: str | None = None
    """The role of the model with missing scores."""
    positives_flagged: float | None = None
    """Share of positives that a threshold flags; `value` is the share of negatives."""
    dominated_by: DominantUnits | None = None
    """The heavy rows, or clusters, that dominate the number, so that a pass is not proven."""

    @property
    def lacks_rows(self) -> bool:
        """True if the result is `insufficient` for lack of rows or clusters.

        Only then does an entry of `not_measured` change the outcome.
        """
        is_small = bool(self.rows_needed) or self.visible is not None
        return self.outcome == "insufficient" and (is_small or self.reason == "few_rows")

    @property
    def is_counted(self) -> bool:
        """True if the result counts for the verdict."""
        return self.action == "block" and self.outcome != "skipped"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; rare fields only if they differ from their default."""
        kept = {"value", "rival", "low", "high", "bound", "n_clusters"}
        if self.threshold is not None:
            kept |= {"threshold", "at", "rival_at"}
        return drop_defaults(self, kept)


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
        """Return a record per result."""
        return [
            {
                item.name: getattr(result, item.name)
                for item in fields(result)
                if item.name in _SHOWN
            }
            for result in self.results
        ]

    def _table(self) -> Table:
        shown = ("rule", "group", "outcome", "reason")
        rows = [{name: row[name] for name in shown} for row in self.rows()]
        return Table.from_records(rows, f"verdict: {self.outcome}")
