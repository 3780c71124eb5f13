"""The rules of a policy about single numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bias_metrics._core.intervals import MIN_CLUSTERS
from bias_metrics.metrics import (
    AGGREGATE_METRICS,
    METRICS,
    OVERALL_METRICS,
    SUBGROUP_METRICS,
    THRESHOLDS,
    Scope,
    list_metrics,
)
from bias_metrics.suggestion import did_you_mean

__all__ = [
    "AGGREGATE",
    "AGGREGATE_METRICS",
    "EACH",
    "OVERALL",
    "OVERALL_METRICS",
    "SCOPES",
    "SUBGROUP_METRICS",
    "WORST",
    "Action",
    "Kind",
    "Mode",
    "Rule",
    "correct_for_candidates",
]

Action = Literal["block", "warn"]
Mode = Literal["proven", "estimate"]
Kind = Literal["floor", "ceiling", "champion", "reference"]

LEAST_ROWS = 20
"""Fewest rows per compared class with which a report ranks a cell."""
LEAST_COMPARED = 4
"""Fewest rows of a subgroup, per class, with which a cell is compared. With 2 or 3 rows the
standard error is too uncertain: of equal models, 10 % instead of 5 % are significantly worse."""

# A category cannot replace the result of a group with fewer rows of a compared class: even for
# equal scores, the group's own bound hardly excludes a loss of 0.15.
LEAST_FOR_A_BOUND = 10

OVERALL, EACH, WORST, AGGREGATE = "overall", "each", "worst", "aggregate"
SCOPES = (OVERALL, EACH, WORST, AGGREGATE)
_WHOLE: dict[str, Scope] = {OVERALL: "overall", AGGREGATE: "aggregate"}


@dataclass(frozen=True)
class Rule:
    """The limit, the margins, or both, that a metric must satisfy."""

    metric: str
    """A metric that exists in the scope."""
    scope: str | tuple[str, ...]
    """`overall`, `each` (every subgroup), `worst` (the worst of all subgroups), `aggregate` (power
    means, final score) or the names of subgroups."""
    floor: float | None = None
    """Smallest value that passes (AUCs, power means, final score)."""
    ceiling: float | None = None
    """Largest size that passes (AEGs, with 0 as best value)."""
    margin: float | None = None
    """Largest loss against the champion on the same rows; for an AEG, growth of its size."""
    reference_margin: float | None = None
    """The same against a fixed reference, so that quality cannot drop a margin per promotion."""
    threshold: str | None = None
    """Name of the threshold, for a metric at a threshold only; each model has its own value."""
    slice: str | None = None
    """The slice of the rows on which the number is measured; default all rows."""
    mode: Mode = "proven"
    """`proven` compares a confidence bound with the limit, `estimate` the value itself."""
    confidence: float = 0.95
    """One-sided confidence of the bound."""
    min_positives: int = 2
    min_negatives: int = 2
    min_clusters: int = MIN_CLUSTERS
    """Support: fewest rows in each compared class, in the subgroup and in the background, and
    fewest clusters if rows come in clusters. With fewer, the result is `insufficient`, whatever the
    value. With sampling weights, the effective sample size counts. An aggregate needs support in
    every subgroup that it covers."""
    action: Action = "block"
    """`block` if the result counts for the verdict, `warn` if not."""
    id: str | None = None
    """Name in verdicts; default `metric/scope`, followed by `/threshold` and `/slice`
    if set."""

    def __post_init__(self) -> None:
        """Refuse a rule without limits, or with settings that do not fit its metric."""
        metrics = list_metrics(_WHOLE.get(str(self.scope), "subgroup"))
        if self.metric not in metrics:
            msg = (
                f"`metric` must be one of {', '.join(metrics)} in scope {self.scope}; "
                f"got {self.metric!r}.{did_you_mean(self.metric, metrics)}"
            )
            raise ValueError(msg)
        self._check_threshold()
        if self.is_gap and self.floor is not None:
            msg = f"`ceiling`, not `floor`, must limit {self.metric}: 0 is its best value."
            raise ValueError(msg)
        if not self.is_gap and self.ceiling is not None:
            msg = f"`floor`, not `ceiling`, must limit {self.metric}: 1 is its best value."
            raise ValueError(msg)
        if not self.limits:
            msg = (
                f"a rule on {self.metric} must set {'`ceiling`' if self.is_gap else '`floor`'}, "
                "`margin` or `reference_margin`; it sets none."
            )
            raise ValueError(msg)
        for name, limit in self.limits:
            most = METRICS[self.metric].largest
            if not 0 < limit <= most:
                msg = f"`{name}` of {self.metric} must be in (0, {most:g}]; got {limit}."
                raise ValueError(msg)
        if not 0.5 < self.confidence < 1:
            msg = f"`confidence` must be between 0.5 and 1, as in 0.95; got {self.confidence}."
            raise ValueError(msg)
        if min(self.min_positives, self.min_negatives, self.min_clusters) < 1:
            msg = "`min_positives`, `min_negatives` and `min_clusters` must be at least 1."
            raise ValueError(msg)

    def _check_threshold(self) -> None:
        limits = (self.floor, self.ceiling)
        if METRICS[self.metric].needs_rival and limits != (None, None):
            msg = (
                f"`margin` or `reference_margin` must limit {self.metric}, which counts decisions "
                "that differ from a rival's."
            )
            raise ValueError(msg)
        if METRICS[self.metric].has_threshold and self.threshold not in THRESHOLDS:
            msg = (
                f"`threshold` of {self.metric} must be one of {', '.join(THRESHOLDS)}; "
                f"got {self.threshold!r}."
            )
            raise ValueError(msg)
        if not METRICS[self.metric].has_threshold and self.threshold is not None:
            msg = f"`threshold` must not be set for {self.metric}, which has none."
            raise ValueError(msg)

    @property
    def is_gap(self) -> bool:
        """True if the metric is signed, with 0 as its best value."""
        return METRICS[self.metric].is_gap

    @property
    def named_groups(self) -> tuple[str, ...]:
        """The subgroups that `scope` names."""
        if isinstance(self.scope, tuple):
            return self.scope
        return () if self.scope in SCOPES else (self.scope,)

    @property
    def limits(self) -> list[tuple[str, float]]:
        """Names and values of the limits that are set."""
        names = ("floor", "ceiling", "margin", "reference_margin")
        return [(name, getattr(self, name)) for name in names if getattr(self, name) is not None]

    @property
    def checks(self) -> Iterator[tuple[Kind, float]]:
        """Each kind of comparison that the rule makes, with its limit or margin."""
        kinds: dict[str, Kind] = {
            "floor": "floor",
            "ceiling": "ceiling",
            "margin": "champion",
            "reference_margin": "reference",
        }
        for name, limit in self.limits:
            yield kinds[name], limit

    @property
    def name(self) -> str:
        """`id`, or by default metric, scope, threshold and slice, joined by slashes."""
        scope = self.scope if isinstance(self.scope, str) else ",".join(self.scope)
        parts = (self.metric, scope, self.threshold, self.slice)
        return self.id or "/".join(part for part in parts if part is not None)

    @property
    def level(self) -> float:
        """Two-sided confidence of the interval that ends at the one-sided bound."""
        return 2 * self.confidence - 1


def correct_for_candidates(rules: Sequence[Rule], n_candidates: int) -> list[Rule]:
    """Return the rules with Bonferroni's correction for several candidates.

    Suppose that `n_candidates` are tried on the same rows, and all truly miss the limit. Then the
    probability that all are rejected is at least the rule's original confidence.

    Raises
    ------
    ValueError
        If `n_candidates` is below 1.
    """
    if n_candidates < 1:
        msg = f"`n_candidates` must be at least 1; got {n_candidates}."
        raise ValueError(msg)
    return [
        replace(rule, confidence=correct_confidence(rule.confidence, n_candidates))
        for rule in rules
    ]


def correct_confidence(confidence: float, n_candidates: int) -> float:
    """Return a confidence with Bonferroni's correction for several candidates."""
    return 1 - (1 - confidence) / n_candidates
