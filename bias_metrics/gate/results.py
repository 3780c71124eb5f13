"""One number of a report or comparison against one limit, as a result in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from bias_metrics.gate.judging import RIVALS, Measured, Outcome, judge, measured, worst_of
from bias_metrics.gate.power import rows_for_margin, rows_needed, visible_loss
from bias_metrics.gate.rules import AGGREGATE, LEAST_FOR_A_BOUND, OVERALL, WORST, Kind, Rule
from bias_metrics.gate.targets import CATEGORY, SUBGROUP, Target
from bias_metrics.gate.verdict import RuleResult
from bias_metrics.gate.wording import LACKS, Alone, alone_sentence, label, sentence
from bias_metrics.metrics import CLASSES, METRICS

Content = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """One limit of a rule, and where the numbers are found."""

    rule: Rule
    """The rule."""
    kind: Kind
    """What numbers are compared with."""
    limit: float
    """Floor, ceiling or margin."""
    content: Content
    """A report; against a rival a comparison."""
    of: str = ""
    """Of which rows sentences say that they are; default of comments like these."""
    least_rows: int = 1
    """Rows of each compared class with which a small group may fail alone."""

    def lack(self, target: Target) -> str | None:
        """Say which rows or clusters are too few; None if there are enough."""
        return target.lack_of_support(self.rule, self.content)

    def judge(self, target: Target, instead_of: tuple[str, ...] = ()) -> RuleResult:
        """Compare a number with the limit; `instead_of` names the groups it stands for."""
        group, number, cell = self._number(target, self.content)
        name = label(self.rule, target.scope, group) + self.of
        lack, bound = self.lack(target), None
        outcome: Outcome
        if lack is not None:
            outcome, text = "insufficient", f"{name}: {LACKS}: {lack}."
        elif number.value is None:
            outcome = "insufficient" if target.scope == AGGREGATE else "error"
            text = f"{name} is undefined: {number.reason or 'no reason given'}."
        else:
            outcome, bound = judge(number, self.kind, self.rule, self.limit)
            if bound is None:
                why = number.reason or "it is not a finite number"
                text = f"{name} has no usable interval: {why}."
            else:
                ends = cell["first" if self.kind in RIVALS else "value"], cell.get("second")
                text = sentence(
                    self.rule, self.kind, name, group, *ends, number, self.limit, outcome
                )
                text += self._rows_for_margin(target, cell) if outcome == "insufficient" else ""
        return self._result(
            target,
            self.content,
            (group, number, cell),
            outcome=outcome,
            bound=bound,
            sentence=text,
            instead_of=instead_of,
        )

    def _rows_for_margin(self, target: Target, cell: Mapping[str, Any]) -> str:
        """Say how many rows the margin needs, if there are fewer; else nothing."""
        if self.kind not in RIVALS or target.scope not in {OVERALL, SUBGROUP, CATEGORY}:
            return ""
        if not METRICS[self.rule.metric].classes[0] or METRICS[self.rule.metric].has_threshold:
            return ""
        classes = METRICS[self.rule.metric].classes if target.scope != OVERALL else (CLASSES, ())
        sides = zip((target.own, target.background), classes, strict=True)
        n = min(counts[name] for counts, names in sides for name in names)
        is_gap = self.rule.is_gap
        auc = 0.5 if is_gap else cell["first"]
        least = rows_for_margin(self.limit, self.rule.confidence, is_gap=is_gap, auc=auc)
        if n >= least:
            return ""
        return f" The margin needs {least:,} comments of each compared class; there are {n:,}."

    def judge_alone(
        self,
        target: Target,
        lack: str,
        content: Content | None,
        *,
        place: str | None = None,
        blind: tuple[float, float] | None = None,
        not_measured: str | None = None,
        hint: str = "",
    ) -> RuleResult:
        """Judge a group that has too few rows for the rule by what is known of it alone.

        It fails if it is shown to be worse than the rival at all, or on the bad side of a floor or
        ceiling, at the confidence of `content`. Otherwise it is `skipped` if it is known to be
        `not_measured`, or if a category (`place`) or the wider margin `blind` stands for it. It
        lacks evidence if nothing does, if it has no bound of its own at the rule's confidence, or
        if that leaves a loss of more than `blind` open.
        """
        joint = content or self.content
        group, number, cell = self._number(target, joint)
        own = self._number(target, self.content)[1]
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
        name = label(self.rule, target.scope, group) + self.of
        change = None if cell["value"] is None else (own.value, cell.get("second"))
        text = alone_sentence(
            rule,
            self.kind,
            name,
            lack,
            self.limit,
            outcome,
            change,
            place=place,
            blind=limit,
            not_measured=not_measured,
            known=known,
        )
        told = hint if outcome == "insufficient" and hint else None
        if told is not None:
            text = f"{text} {told}"
        return self._result(
            target,
            joint,
            (group, number, cell),
            outcome=outcome,
            bound=bound,
            sentence=text,
            judged_in=place,
            blind=limit,
            not_measured=not_measured,
            not_excluded=known.not_excluded,
            visible=known.visible,
            rows_needed=known.rows_needed,
            hint=told,
        )

    def without_rival(self, target: Target, *, skipped: bool) -> RuleResult:
        """Say that there is nothing to compare with."""
        return self._result(
            target,
            {},
            None,
            outcome="skipped" if skipped else "insufficient",
            sentence=(
                f"{label(self.rule, target.scope, target.group)}: no {self.kind} to compare with."
            ),
        )

    def _alone(self, target: Target, own: Measured) -> Alone:
        """Return what a group's own bound leaves open, and how many rows would close it."""
        worse_is_up = self.rule.is_gap
        end, shown = (own.high, own.low) if worse_is_up else (own.low, own.high)
        needed = {"positive": self.rule.min_positives, "negative": self.rule.min_negatives}
        classes = METRICS[self.rule.metric].classes[0]
        more = {name: max(needed[name] - target.own[name], 0) for name in classes}
        ends = (own.value, end, shown)
        few = min(target.own[name] for name in classes) < LEAST_FOR_A_BOUND
        if self.kind in RIVALS and few:
            return Alone(None, None, {name: n for name, n in more.items() if n})
        if own.value is None or end is None or shown is None or not all(map(_is_finite, ends)):
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

    def _number(
        self, target: Target, content: Content
    ) -> tuple[str | None, Measured, Mapping[str, Any]]:
        """Return a number's group, the number as the rule sees it, and its cell."""
        is_gap = self.rule.is_gap
        if target.scope != WORST:
            cell = target.cell(content)
            return target.group, measured(cell, self.kind, is_gap=is_gap), cell
        cells = {str(member.group): member.cell(content) for member in target.members}
        numbers = {name: measured(cell, self.kind, is_gap=is_gap) for name, cell in cells.items()}
        name, number = worst_of(numbers, self.rule.level, worse_is_up=is_gap)
        return name, number, cells[name]

    def _result(
        self,
        target: Target,
        content: Content,
        number: tuple[str | None, Measured, Mapping[str, Any]] | None,
        **known: Any,
    ) -> RuleResult:
        group = target.group
        if number is not None:
            group, found, cell = number
            against = self.kind in RIVALS
            known |= {
                "value": cell["first"] if against else cell["value"],
                "rival": cell["second"] if against else None,
                "low": found.low,
                "high": found.high,
                "n_clusters": cell.get("n_clusters"),
                **self._thresholds(content),
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
            **known,
        )

    def _thresholds(self, content: Content) -> dict[str, float]:
        """Return the numbers behind the name of the rule's threshold."""
        if self.rule.threshold is None:
            return {}
        found = content["thresholds"][self.rule.threshold]
        if self.kind not in RIVALS:
            return {"at": found["threshold"]}
        return dict(zip(("at", "rival_at"), found["thresholds"], strict=True))


def _is_finite(number: float | None) -> bool:
    return number is not None and math.isfinite(number)
