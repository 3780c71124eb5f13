"""Sections of policy files that define rules and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from bias_metrics.gate import Action, HarmLimit, Mode, Rule, ShareLimits
from bias_metrics.parts import MIN_CLUSTERS
from biasgate.tasks.common.settings import Name, Settings, check_slice_name

# Suffix that makes a rule apply to each slice of a column.
EACH_SLICE = ".*"
Limit = Annotated[float, Field(gt=0, le=1)]
Confidence = Annotated[float, Field(gt=0.5, lt=1)]
Support = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]
ThresholdName = Literal["given", "equal_errors"]


class RuleSettings(Settings):
    """A rule of a policy: a limit, a margin, or both."""

    metric: str
    """The metric to judge. Overall: `auc`. Per identity: `subgroup_auc`, `bpsn_auc`, `bnsp_auc`,
    `positive_aeg`, `negative_aeg`; at a `threshold` `fpr_gap`, `fnr_gap`; for probabilities
    `calibration_gap`. With `aggregate`: `final_score`, or the power mean of an AUC."""
    scope: str | list[str]
    """`overall`, `each` identity, the `worst`, `aggregate`, or names of identities."""
    floor: Limit | None = None
    """The smallest value of an AUC that passes; a value equal to the limit passes."""
    ceiling: Limit | None = None
    """The largest absolute value of a gap that passes."""
    margin: Limit | None = None
    """Non-inferiority margin against the champion: the metric must be worse by less than this. For
    a gap its absolute value counts, and a smaller gap never blocks."""
    reference_margin: Limit | None = None
    """Non-inferiority margin against the reference."""
    threshold: ThresholdName | None = None
    """The threshold of each model for `fpr_gap` and `fnr_gap`: `given` in the evaluation file, or
    `equal_errors`, at which both error rates are closest."""
    slice: str | None = None
    """Restrict the rule to a slice of the set, such as `short` or `language.german`. `language.*`
    applies it to each slice of a column. Default: all rows."""
    mode: Mode = "proven"
    """`proven`: passes if the confidence bound is on the good side of the limit, fails if the other
    bound is on the bad side. Otherwise the evidence is insufficient. `estimate`: the point estimate
    decides."""
    confidence: Confidence | None = None
    """One-sided confidence of the bound. Default: the policy's."""
    min_positives: Support = 2
    """Smallest number of toxic rows in each compared group, if the metric compares toxic rows. With
    fewer the result is insufficient. Aggregates need them in every included identity. Weighted rows
    count as their effective sample size."""
    min_negatives: Support = 2
    """Smallest number of harmless rows in each compared group."""
    min_clusters: Support = MIN_CLUSTERS
    """Smallest number of clusters with rows of a compared class, in the class with fewer."""
    action: Action = "block"
    """`block`: the verdict depends on the rule. `warn`: a failure is only reported."""
    id: Name | None = None
    """Name in verdicts. Default: `metric/scope`, with `/threshold` and `/slice`."""

    @field_validator("scope")
    @classmethod
    def _require_scope(cls, value: str | list[str]) -> str | list[str]:
        if not value:
            msg = "must name `overall`, `each`, `worst`, `aggregate` or subgroups"
            raise ValueError(msg)
        return value

    @field_validator("slice")
    @classmethod
    def _check_slice(cls, value: str | None) -> str | None:
        if value is None or not value.endswith(EACH_SLICE):
            return None if value is None else check_slice_name(value)
        return check_slice_name(value.removesuffix(EACH_SLICE)) + EACH_SLICE

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        self.make_rule(0.95)
        return self

    def make_rule(self, confidence: float) -> Rule:
        """Return the rule for the gate; `confidence` applies if the rule has none of its own."""
        options = self.model_dump(exclude={"scope", "confidence"})
        scope = tuple(self.scope) if isinstance(self.scope, list) else self.scope
        return Rule(scope=scope, confidence=self.confidence or confidence, **options)


class HarmSettings(Settings):
    """Limit of significant losses of an identity against the champion or the reference."""

    tolerance: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """The largest significant loss of an AUC that passes; for the absolute value of a gap, twice
    as much. 0: any significant loss blocks."""
    action: Action = "block"
    """`block`: the verdict depends on the limit. `warn`: a failure is only reported."""

    def make_limit(self, confidence: float) -> HarmLimit:
        """Return the limit for the gate."""
        return HarmLimit(self.tolerance, self.action, confidence)


class BlindSettings(Settings):
    """Largest loss that may remain possible for an identity with too few rows for a rule."""

    margin: Annotated[float, Field(gt=0, lt=0.5)]
    """The largest loss of an AUC against a rival that its confidence bound may include."""
    gap_margin: Annotated[float, Field(gt=0, le=1)] | None = None
    """The largest growth of the absolute value of a gap. Default: twice `margin`."""

    @property
    def margins(self) -> tuple[float, float]:
        """The margins of AUCs and of gaps."""
        return self.margin, 2 * self.margin if self.gap_margin is None else self.gap_margin


class NotMeasuredSettings(Settings):
    """Exemption of an identity that the evaluation sets cannot measure, until a date."""

    identity: Text
    """Name of the identity."""
    reason: Text
    """Reason, such as "no toxic comments yet", which is written into every verdict."""
    expires: date
    """Last day of the exemption, as in 2026-12-31."""


Share = Annotated[float, Field(gt=0, lt=1)]


class ShareSettings(Settings):
    """Limits of missing or truncated comments; a bare number is `overall` and `each`."""

    overall: Share | None = None
    """Largest share of all comments. A bare number is `overall` and `each`."""
    each: Share | None = None
    """Largest share of the comments of each identity. An identity without any such comment passes,
    regardless of its size."""
    gap: Share | None = None
    """Largest difference between the share of an identity and that of other comments."""
    mode: Mode = "proven"
    """`proven` compares the upper bound with a limit, `estimate` the share itself."""
    action: Action = "block"
    """`block`: the verdict depends on the limits. `warn`: a failure is only reported."""

    @model_validator(mode="before")
    @classmethod
    def _expand_number(cls, value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return {"overall": value, "each": value} if is_number else value

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        self.make_limits(0.95)
        return self

    def make_limits(self, confidence: float) -> ShareLimits:
        """Return the limits for the gate."""
        return ShareLimits(**self.model_dump(), confidence=confidence)


def expand_slices(rules: Sequence[Rule], slices: Sequence[str]) -> list[Rule]:
    """Expand each rule on all slices of a column into a rule per slice.

    An explicit rule with the same name takes precedence. If the set has no slice of the column, the
    rule is kept unchanged, and is refused later.
    """
    names = {rule.name for rule in rules}
    expanded: list[Rule] = []
    for rule in rules:
        variants = [
            _copy_to_slice(rule, name) for name in slices if is_matching_slice(rule.slice, name)
        ]
        expanded += (
            [variant for variant in variants if variant.name not in names] if variants else [rule]
        )
    return expanded


def _copy_to_slice(rule: Rule, name: str) -> Rule:
    return replace(rule, slice=name, id=None if rule.id is None else f"{rule.id}/{name}")


def is_matching_slice(pattern: str | None, name: str) -> bool:
    """Return True if a pattern for each slice of a column includes this slice."""
    return pattern is not None and pattern.endswith(EACH_SLICE) and name.startswith(pattern[:-1])
