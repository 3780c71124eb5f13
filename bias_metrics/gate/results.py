"""One number of a table against one limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from bias_metrics._core.differences import Difference
from bias_metrics.gate.judging import RIVALS, Measured, Outcome, judge, measured, worst_of
from bias_metrics.gate.power import rows_for_margin, rows_needed, visible_loss
from bias_metrics.gate.rules import AGGREGATE, LEAST_FOR_A_BOUND, OVERALL, WORST, Kind, Rule
from bias_metrics.gate.targets import CATEGORY, SUBGROUP, Target
from bias_metrics.gate.verdict import Lack, Reason, RuleResult
from bias_metrics.metrics import CLASSES, METRICS
from bias_metrics.table import BiasTable, Estimate

_REASONS: dict[Outcome, Reason] = {
    "pass": "met",
    "fail": "not_met",
    "insufficient": "undecided",
    "error": "not_finite",
}


@dataclass(frozen=True)
class Alone:
    """What the rows of a group that has too few of them show."""

    not_excluded: float | None
    """Its one-sided bound: the loss against a rival, the value, or the size of a gap."""
    visible: float | None
    """The loss, or the distance beyond a limit, that is detected with a power of 80 %."""
    rows_needed: Mapping[str, int]
    """How many more rows of each class the rule needs, for a model as good as the rival."""


@dataclass(frozen=True)
class Check:
    """One limit of a rule, and where the numbers are found."""

    rule: Rule
    """The rule."""
    kind: Kind
    """What numbers are compared with."""
    limit: float
    """Floor, ceiling or margin."""
    table: BiasTable
    """The numbers."""
    least_rows: int = 1
    """Rows of each compared class with which a small group may fail alone."""
    n_categories: int = 0
    """How many categories an aggregate covers."""
    on_these_rows: bool = False
    """Whether numbers are about exactly these rows."""

    def lack(self, target: Target) -> Lack | None:
        """Return which rows or clusters are too few; None if there are enough."""
        return target.lack_of_support(self.rule, self.table, self.kind)

    def judge(self, target: Target, instead_of: tuple[str, ...] = ()) -> RuleResult:
        """Compare a number with the limit; `instead_of` names the groups it stands for."""
        group, number, estimate = self._number(target, self.table)
        lack, bound, needed = self.lack(target), None, None
        outcome: Outcome = "insufficient"
        why: str | None = None
        if lack is not None:
            reason: Reason = "few_rows"
        elif number.value is None:
            reason, why = "undefined", number.reason
            outcome = "insufficient" if target.scope == AGGREGATE else "error"
        else:
            outcome, bound = judge(number, self.kind, self.rule, self.limit)
            reason = _REASONS[outcome]
            if bound is None:
                reason, why = "no_interval", number.reason
            elif outcome == "insufficient":
                needed = self._rows_for_margin(target, estimate)
        return self._result(
            target,
            (group, number, estimate),
            outcome=outcome,
            bound=bound,
            reason=reason,
            why=why,
            lack=lack,
            rows_for_margin=None if needed is None else needed[0],
            n_compared=None if needed is None else needed[1],
            instead_of=instead_of,
            n_categories=self.n_categories,
        )

    def _rows_for_margin(self, target: Target, estimate: Estimate) -> tuple[int, int] | None:
        """Return how many rows the margin needs, and how many there are, if fewer."""
        if not isinstance(estimate, Difference) or target.scope not in {
            OVERALL,
            SUBGROUP,
            CATEGORY,
        }:
            return None
        if not METRICS[self.rule.metric].classes[0] or METRICS[self.rule.metric].has_threshold:
            return None
        classes = METRICS[self.rule.metric].classes if target.scope != OVERALL else (CLASSES, ())
        sides = zip((target.own, target.background), classes, strict=True)
        n = min(counts[name] for counts, names in sides for name in names)
        is_gap = self.rule.is_gap
        auc = 0.5 if is_gap or estimate.first is None else estimate.first
        least = rows_for_margin(self.limit, self.rule.confidence, is_gap=is_gap, auc=auc)
        return None if n >= least else (least, n)

    def judge_alone(
        self,
        target: Target,
        lack: Lack,
        joint: BiasTable | None,
        *,
        place: str | None = None,
        blind: tuple[float, float] | None = None,
        not_measured: str | None = None,
        hint: str = "",
    ) -> RuleResult:
        """Judge a group that has too few rows for the rule by what is known of it alone.

        It fails if it is shown to be worse than the rival at all, or on the bad side of a floor or
        ceiling, at the confidence of `joint`. Otherwise it is `skipped` if it is known to be
        `not_measured`, or if a category (`place`) or the wider margin `blind` stands for it. It
        lacks evidence if nothing does, if it has no bound of its own at the rule's confidence, or
        if that leaves a loss of more than `blind` open.
        """
        group, number, estimate = self._number(target, joint or self.table)
        own = self._number(target, self.table)[1]
        rule = replace(self.rule, mode="proven")
        limit = blind[rule.is_gap] if blind and self.kind in RIVALS else None
        outcome: Outcome | Literal["skipped"] = "skipped"
        bound = None
        least = replace(rule, min_positives=self.least_rows, min_negatives=self.least_rows)
        known = self._alone(target, own)
        open_loss = known.not_excluded
        if limit is None:
            stands = place is not None and open_loss is not None
        else:
            stands = open_loss is not None and open_loss <= limit
        if not stands and not_measured is None:
            outcome = "insufficient"
        if number.value is not None and target.lack_of_rows(least) is None:
            shown, bound = judge(number, self.kind, rule, self.limit)
            if self.kind in RIVALS and bound is not None:
                bound = number.low if rule.is_gap else number.high
                worse = bound is not None and (bound > 0 if rule.is_gap else bound < 0)
                shown = "fail" if worse else "insufficient"
            outcome = shown if shown in {"fail", "error"} else outcome
        return self._result(
            target,
            (group, number, estimate),
            outcome=outcome,
            bound=bound,
            reason="not_finite" if outcome == "error" else "small_group",
            lack=lack,
            judged_in=place,
            blind=limit,
            not_measured=not_measured,
            not_excluded=known.not_excluded,
            visible=known.visible,
            rows_needed=known.rows_needed,
            hint=hint if outcome == "insufficient" and hint else None,
        )

    def without_rival(self, target: Target, *, skipped: bool) -> RuleResult:
        """Return that there is nothing to compare with."""
        outcome = "skipped" if skipped else "insufficient"
        return self._result(target, None, outcome=outcome, reason="no_rival")

    def _alone(self, target: Target, own: Measured) -> Alone:
        """Return what a group's own bound leaves open, and how many rows would close it."""
        worse_is_up = self.rule.is_gap
        end, shown = (own.high, own.low) if worse_is_up else (own.low, own.high)
        needed = {"positive": self.rule.min_positives, "negative": self.rule.min_negatives}
        classes = METRICS[self.rule.metric].classes[0]
        more = {name: max(needed[name] - target.own[name], 0) for name in classes}
        few = min(target.own[name] for name in classes) < LEAST_FOR_A_BOUND
        if self.kind in RIVALS and few:
            return Alone(None, None, {name: n for name, n in more.items() if n})
        if own.value is None or end is None or shown is None:
            return Alone(None, None, {name: n for name, n in more.items() if n})
        if not all(map(math.isfinite, (own.value, end, shown))):
            return Alone(None, None, {name: n for name, n in more.items() if n})
        reach = abs(end - own.value)
        against_rival = self.kind in RIVALS
        not_excluded = -end if against_rival and not worse_is_up else end
        slack = own.value - self.limit if self.kind == "floor" else self.limit - own.value
        if against_rival:
            slack = self.limit
        scarcer = min(classes, key=lambda name: target.own[name])
        if slack > 0 and target.own[scarcer] > 0:
            wanted = rows_needed(target.own[scarcer], reach, slack)
            more[scarcer] = max(more[scarcer], wanted)
        # A loss is shown by the other end; near 1 that end is close, and would not be after a loss.
        visible = visible_loss(max(abs(shown - own.value), reach), self.rule.confidence)
        return Alone(not_excluded, visible, {name: n for name, n in more.items() if n})

    def _number(self, target: Target, table: BiasTable) -> tuple[str | None, Measured, Estimate]:
        """Return a number's group, the number as the rule sees it, and as it was measured."""
        is_gap = self.rule.is_gap
        if target.scope != WORST:
            estimate = target.estimate(table, self.kind)
            return target.group, measured(estimate, is_gap=is_gap), estimate
        found = {str(one.group): one.estimate(table, self.kind) for one in target.members}
        numbers = {name: measured(one, is_gap=is_gap) for name, one in found.items()}
        name, number = worst_of(numbers, self.rule.level, worse_is_up=is_gap)
        return name, number, found[name]

    def _result(
        self,
        target: Target,
        number: tuple[str | None, Measured, Estimate] | None,
        **known: Any,
    ) -> RuleResult:
        group = target.group
        if number is not None:
            group, found, estimate = number
            value, rival = _ends(estimate)
            known |= {
                "value": value,
                "rival": rival,
                "low": found.low,
                "high": found.high,
                "n_clusters": estimate.n_clusters,
                "at": self._threshold(None),
                "rival_at": self._threshold(self.kind),
            }
        own = next((member.own for member in target.members if member.group == group), target.own)
        rule = self.rule
        return RuleResult(
            rule=rule.name,
            kind=self.kind,
            metric=rule.metric,
            threshold=rule.threshold,
            scope=target.scope,
            group=group or target.group,
            slice=rule.slice,
            mode=rule.mode,
            confidence=rule.confidence,
            limit=self.limit,
            n_positive=own["positive"],
            n_negative=own["negative"],
            action=rule.action,
            on_these_rows=self.on_these_rows,
            **known,
        )

    def _threshold(self, rival: str | None) -> float | None:
        """Return the threshold of the candidate, or of a rival, at which the number is measured."""
        return self.table.thresholds.get((self.rule.threshold or "", rival))


def _ends(estimate: Estimate) -> tuple[float | None, float | None]:
    """Return the candidate's value and the rival's, if it is a difference."""
    if isinstance(estimate, Difference):
        return estimate.first, estimate.second
    return estimate.value, None
