"""The rules of policy files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from bias_metrics.gate import Action, HarmLimit, Mode, Rule, ShareLimits
from bias_metrics.parts import MIN_CLUSTERS
from biasgate.tasks.common.settings import Name, Settings, checked_slice

# Ends the name of a column of slices, of which each is meant.
EACH_SLICE = ".*"
Limit = Annotated[float, Field(gt=0, le=1)]
Confidence = Annotated[float, Field(gt=0.5, lt=1)]
Support = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]
ThresholdName = Literal["given", "equal_errors"]


class RuleSettings(Settings):
    """One rule of a policy: a limit, a margin, or both."""

    metric: str
    """The number to judge. Overall: `auc`. Of identities: `subgroup_auc`, `bpsn_auc`, `bnsp_auc`,
    `positive_aeg`, `negative_aeg`; at a `threshold` `fpr_gap`, `fnr_gap`; of probabilities
    `calibration_gap`. With `aggregate`: `final_score`, or the power mean
    of an AUC."""
    scope: str | list[str]
    """`overall`, `each` identity, the `worst`, `aggregate`, or names of identities."""
    floor: Limit | None = None
    """The least value of an AUC that passes; one exactly at the limit does."""
    ceiling: Limit | None = None
    """The largest size of a gap that passes, whatever its sign."""
    margin: Limit | None = None
    """How much worse than the champion's the number may be: it must be shown to be worse by less.
    Of a gap the size counts; a smaller one never blocks."""
    reference_margin: Limit | None = None
    """The same against the reference."""
    threshold: ThresholdName | None = None
    """For `fpr_gap` and `fnr_gap`, each model at its own: `given` in the evaluation file, or the
    one of `equal_errors`, where both error rates are closest."""
    slice: str | None = None
    """The rule is about one slice of the set, as `short` or `language.german`, or about each slice
    of a column, as `language.*`. Default: all rows."""
    mode: Mode = "proven"
    """`proven`: passes if the confidence bound is on the good side of the limit, fails if the other
    bound is on the bad side, else the evidence is insufficient. `estimate`: the value decides."""
    confidence: Confidence | None = None
    """One-sided confidence of the bound. Default: the policy's."""
    min_positives: Support = 2
    """Fewest toxic rows of each compared group, where the metric compares toxic rows; with fewer
    the result is insufficient. Aggregates need them in every identity that they cover. Weighted
    rows count as their effective number."""
    min_negatives: Support = 2
    """The same for harmless rows."""
    min_clusters: Support = MIN_CLUSTERS
    """Fewest clusters that hold rows of a compared class, in the class with fewer."""
    action: Action = "block"
    """Whether the rule affects the verdict."""
    id: Name | None = None
    """Name in verdicts. Default: `metric/scope`, with `/threshold` and `/slice`."""

    @field_validator("scope")
    @classmethod
    def _names_something(cls, value: str | list[str]) -> str | list[str]:
        if not value:
            msg = "must name `overall`, `each`, `worst`, `aggregate` or subgroups"
            raise ValueError(msg)
        return value

    @field_validator("slice")
    @classmethod
    def _names_slices(cls, value: str | None) -> str | None:
        if value is None or not value.endswith(EACH_SLICE):
            return None if value is None else checked_slice(value)
        return checked_slice(value.removesuffix(EACH_SLICE)) + EACH_SLICE

    @model_validator(mode="after")
    def _is_a_rule(self) -> Self:
        self.rule(0.95)
        return self

    def rule(self, confidence: float) -> Rule:
        """Return the rule in the gate's form; `confidence` is the default."""
        options = self.model_dump(exclude={"scope", "confidence"})
        scope = tuple(self.scope) if isinstance(self.scope, list) else self.scope
        return Rule(scope=scope, confidence=self.confidence or confidence, **options)


class HarmSettings(Settings):
    """The rule that no identity may be shown to be worse than with the champion or reference."""

    tolerance: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """The largest shown loss in an AUC that passes; of the size of a gap, twice as much. 0: any
    loss that is shown blocks."""
    action: Action = "block"
    """Whether the results affect the verdict."""

    def limit(self, confidence: float) -> HarmLimit:
        """Return the limit in the gate's form."""
        return HarmLimit(self.tolerance, self.action, confidence)


class BlindSettings(Settings):
    """Which loss may stay open of an identity with too few rows for a rule."""

    margin: Annotated[float, Field(gt=0, lt=0.5)]
    """The largest loss in an AUC against a rival that its own bound may leave open."""
    gap_margin: Annotated[float, Field(gt=0, le=1)] | None = None
    """The same in the size of a gap. Default: twice `margin`."""

    @property
    def margins(self) -> tuple[float, float]:
        """The margin of AUCs, and that of gaps."""
        return self.margin, 2 * self.margin if self.gap_margin is None else self.gap_margin


class NotMeasuredSettings(Settings):
    """An identity that the evaluation sets are known not to measure, until a date."""

    identity: Text
    """The identity."""
    reason: Text
    """Why, as in "no toxic comments yet"; it is written into every verdict."""
    expires: date
    """The last day, as in 2026-12-31."""


Share = Annotated[float, Field(gt=0, lt=1)]


class ShareSettings(Settings):
    """How many comments may have no score, or be truncated; a number is `overall` and `each`."""

    overall: Share | None = None
    """Largest share of all comments. A bare number is `overall` and `each`."""
    each: Share | None = None
    """Largest share of the comments of each identity. An identity without any such comment passes,
    however few it has."""
    gap: Share | None = None
    """By how much the share of an identity may exceed that of other comments."""
    mode: Mode = "proven"
    """`proven` compares the upper bound with a limit, `estimate` the share itself."""
    action: Action = "block"
    """Whether the results affect the verdict."""

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return {"overall": value, "each": value} if is_number else value

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        self.limits(0.95)
        return self

    def limits(self, confidence: float) -> ShareLimits:
        """Return the limits in the gate's form."""
        return ShareLimits(**self.model_dump(), confidence=confidence)


def over_slices(rules: Sequence[Rule], slices: Sequence[str]) -> list[Rule]:
    """Return the rules, with one for each slice where a rule is about each of a column.

    A rule of the same name about one of them stands instead. Where a set has no such slice the
    rule stays, and is refused when it is judged.
    """
    names = {rule.name for rule in rules}
    found: list[Rule] = []
    for rule in rules:
        meant = [_on_slice(rule, name) for name in slices if is_meant(rule.slice, name)]
        found += [one for one in meant if one.name not in names] if meant else [rule]
    return found


def _on_slice(rule: Rule, name: str) -> Rule:
    return replace(rule, slice=name, id=None if rule.id is None else f"{rule.id}/{name}")


def is_meant(pattern: str | None, name: str) -> bool:
    """Return whether a rule about each slice of a column is about this one."""
    return pattern is not None and pattern.endswith(EACH_SLICE) and name.startswith(pattern[:-1])
