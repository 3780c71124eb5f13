"""The check of a number in a table against a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from bias_metrics._core.differences import Difference
from bias_metrics.gate.outcome import (
    RIVALS,
    JudgedNumber,
    Outcome,
    find_worst_group,
    judge_number,
    read_number,
)
from bias_metrics.gate.power import rows_for_margin, rows_needed, visible_loss
from bias_metrics.gate.rules import AGGREGATE, LEAST_FOR_A_BOUND, OVERALL, WORST, Kind, Rule
from bias_metrics.gate.targets import CATEGORY, SUBGROUP, Target
from bias_metrics.gate.verdict import Lack, Reason, RuleResult, SmallGroups
from bias_metrics.metrics import CLASSES, METRICS
from bias_metrics.table import BiasTable, Estimate

_REASONS: dict[Outcome, Reason] = {
    "pass": "met",
    "fail": "not_met",
    "insufficient": "undecided",
    "error": "not_finite",
}


@dataclass(frozen=True)
class Check:
    """One limit of a rule, and the table that it applies to."""

    rule: Rule
    kind: Kind
    """A floor, a ceiling, or the rival that a margin refers to."""
    limit: float
    """Floor, ceiling or margin."""
    table: BiasTable
    least_rows: int = 1
    """Fewest rows per compared class with which a small group may fail by its own rows."""
    n_categories: int = 0
    """Number of categories that an aggregate covers."""
    on_these_rows: bool = False
    """True if the rows are a complete list instead of a sample."""

    def find_lack(self, target: Target) -> Lack | None:
        """Return the class, or clusters, with too little support, or None."""
        return target.find_lack(self.rule, self.table, self.kind)

    def judge_target(self, target: Target, instead_of: tuple[str, ...] = ()) -> RuleResult:
        """Compare a number with the limit; `instead_of` names the groups that it represents."""
        group, number, estimate = self._read_number(target, self.table)
        lack, bound, needed = self.find_lack(target), None, None
        outcome: Outcome = "insufficient"
        why: str | None = None
        if lack is not None:
            reason: Reason = "few_rows"
        elif number.value is None:
            reason, why = "undefined", number.reason
            outcome = "insufficient" if target.scope == AGGREGATE else "error"
        else:
            outcome, bound = judge_number(number, self.kind, self.rule, self.limit)
            reason = _REASONS[outcome]
            if bound is None:
                reason, why = "no_interval", number.reason
            elif outcome == "insufficient":
                needed = self._find_margin_rows(target, estimate)
        return self.build_result(
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

    def _find_margin_rows(self, target: Target, estimate: Estimate) -> tuple[int, int] | None:
        """Return the number of rows that the margin needs and the present number, if smaller."""
        is_single = target.scope in {OVERALL, SUBGROUP, CATEGORY}
        if not isinstance(estimate, Difference) or not is_single:
            return None
        metric = METRICS[self.rule.metric]
        if not metric.classes[0] or metric.has_threshold:
            return None
        classes = metric.classes if target.scope != OVERALL else (CLASSES, ())
        sides = zip((target.own, target.background), classes, strict=True)
        n = min(counts[name] for counts, names in sides for name in names)
        is_gap = self.rule.is_gap
        auc = 0.5 if is_gap or estimate.first is None else estimate.first
        least = rows_for_margin(self.limit, self.rule.confidence, is_gap=is_gap, auc=auc)
        return None if n >= least else (least, n)

    def judge_small_group(
        self,
        target: Target,
        lack: Lack,
        joint: BiasTable | None,
        category: str | None,
        settings: SmallGroups,
    ) -> RuleResult:
        """Judge a group with too few rows for the rule by its own rows.

        The group fails if it is significantly worse than the rival by any amount, or beyond a floor
        or ceiling, at the confidence of `joint`. Otherwise it is `skipped` if it is listed as
        `not_measured`, or if its category or the wider margin `blind` replaces the check. In all
        other cases it lacks evidence: also without a bound at the rule's confidence, or if a loss
        larger than `blind` is not excluded.
        """
        group, number, estimate = self._read_number(target, joint or self.table)
        own = self._read_number(target, self.table)[1]
        rule, name = replace(self.rule, mode="proven"), str(target.group)
        not_measured, hint = settings.not_measured.get(name), settings.hints.get(name)
        open_loss, visible, more = self._measure_own_evidence(target, own)
        limit = settings.blind[rule.is_gap] if settings.blind and self.kind in RIVALS else None
        is_replaced = open_loss is not None and (
            category is not None if limit is None else open_loss <= limit
        )
        outcome: Outcome | Literal["skipped"] = (
            "skipped" if is_replaced or not_measured is not None else "insufficient"
        )
        bound = None
        least = replace(rule, min_positives=self.least_rows, min_negatives=self.least_rows)
        if number.value is not None and target.find_row_lack(least) is None:
            own_outcome, bound = judge_number(number, self.kind, rule, self.limit)
            if self.kind in RIVALS and bound is not None:
                bound = number.low if rule.is_gap else number.high
                is_worse = bound is not None and (bound > 0 if rule.is_gap else bound < 0)
                own_outcome = "fail" if is_worse else "insufficient"
            outcome = own_outcome if own_outcome in {"fail", "error"} else outcome
        return self.build_result(
            target,
            (group, number, estimate),
            outcome=outcome,
            bound=bound,
            reason="not_finite" if outcome == "error" else "small_group",
            lack=lack,
            judged_in=category,
            blind=limit,
            not_measured=not_measured,
            not_excluded=open_loss,
            visible=visible,
            rows_needed=more,
            hint=hint or None if outcome == "insufficient" else None,
        )

    def _measure_own_evidence(
        self, target: Target, own: JudgedNumber
    ) -> tuple[float | None, float | None, dict[str, int]]:
        """Return the loss that a group's own bound does not exclude, and the detectable loss.

        The third result has the further rows by class that the rule needs, for a model as good as
        the rival.
        """
        worse_is_up, has_rival = self.rule.is_gap, self.kind in RIVALS
        worse, better = (own.high, own.low) if worse_is_up else (own.low, own.high)
        required = {"positive": self.rule.min_positives, "negative": self.rule.min_negatives}
        classes = METRICS[self.rule.metric].classes[0]
        more = {name: max(required[name] - target.own[name], 0) for name in classes}
        scarcer = min(classes, key=lambda name: target.own[name])
        is_bounded = not has_rival or target.own[scarcer] >= LEAST_FOR_A_BOUND
        not_excluded = visible = None
        if (
            is_bounded
            and own.value is not None
            and worse is not None
            and better is not None
            and all(map(math.isfinite, (own.value, worse, better)))
        ):
            reach = abs(worse - own.value)
            not_excluded = -worse if has_rival and not worse_is_up else worse
            slack = own.value - self.limit if self.kind == "floor" else self.limit - own.value
            if has_rival:
                slack = self.limit
            if slack > 0 and target.own[scarcer] > 0:
                more[scarcer] = max(more[scarcer], rows_needed(target.own[scarcer], reach, slack))
            # A loss is detected by the better end. Near 1 that end is close to the value, which it
            # would not be after a loss.
            visible = visible_loss(max(abs(better - own.value), reach), self.rule.confidence)
        return not_excluded, visible, {name: n for name, n in more.items() if n}

    def _read_number(
        self, target: Target, table: BiasTable
    ) -> tuple[str | None, JudgedNumber, Estimate]:
        """Return a number's group, the number that the rule limits, and its estimate."""
        is_gap = self.rule.is_gap
        if target.scope != WORST:
            estimate = target.find_estimate(table, self.kind)
            return target.group, read_number(estimate, is_gap=is_gap), estimate
        estimates = {
            str(member.group): member.find_estimate(table, self.kind) for member in target.members
        }
        numbers = {
            name: read_number(estimate, is_gap=is_gap) for name, estimate in estimates.items()
        }
        name, number = find_worst_group(numbers, self.rule.level, worse_is_up=is_gap)
        return name, number, estimates[name]

    def build_result(
        self,
        target: Target,
        measurement: tuple[str | None, JudgedNumber, Estimate] | None,
        **content: Any,
    ) -> RuleResult:
        """Return a result with the fields that all results share; `content` holds the others."""
        group = target.group
        if measurement is not None:
            group, number, estimate = measurement
            value, rival = estimate.value, None
            if isinstance(estimate, Difference):
                value, rival = estimate.first, estimate.second
            content |= {
                "value": value,
                "rival": rival,
                "low": number.low,
                "high": number.high,
                "n_clusters": estimate.n_clusters,
                "at": self._find_threshold(None),
                "rival_at": self._find_threshold(self.kind),
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
            **content,
        )

    def _find_threshold(self, rival: str | None) -> float | None:
        """Return the value of the rule's threshold, for the candidate or a rival."""
        return self.table.thresholds.get((self.rule.threshold or "", rival))
