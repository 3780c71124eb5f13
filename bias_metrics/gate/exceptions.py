"""What a pass does not say: checks that were skipped, estimated or judged in a category.

A pass is proven for the identities of which every check passed on their own rows, and not all by
an estimate alone. The others are its exceptions, and whoever reads of a pass reads of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bias_metrics.gate.doubts import USEFUL
from bias_metrics.gate.judging import RIVALS
from bias_metrics.gate.rules import WORST
from bias_metrics.gate.targets import SUBGROUP
from bias_metrics.gate.verdict import RuleResult
from bias_metrics.gate.wording import would_be_seen
from bias_metrics.metrics import METRICS

_CLASS = {"positive": "toxic", "negative": "non-toxic"}
Why = Literal["category", "blind", "not_measured", "no_rival", "no_rule", "estimate", "shown_worse"]


@dataclass(frozen=True)
class PassException:
    """What a pass does not say of a group, or of all."""

    group: str | None
    """The group; None if it is about no single one."""
    why: Why
    """What stands for the checks: a category, the margin `blind`, somebody's word, or nothing."""
    n_checks: int
    """How many checks it is about."""
    sentence: str
    """The check that leaves most open, in words."""
    reason: str | None = None
    """Why the group is not measured, if somebody said so and its own rows bound nothing."""


@dataclass(frozen=True)
class Extent:
    """For whom a pass is proven, and its exceptions."""

    groups: tuple[str, ...]
    """The groups of which each check passed on their own rows, at least one by a bound."""
    of: int
    """How many groups there are."""
    exceptions: tuple[PassException, ...]
    """What a pass does not say: about single groups first."""


def extent_of(results: Sequence[RuleResult], groups: Sequence[str]) -> Extent:
    """Return for whom a pass by these results is proven.

    Parameters
    ----------
    results : sequence of RuleResult
        Every result of a verdict.
    groups : sequence of str
        All groups of the evaluation set.

    Returns
    -------
    Extent
        Results that only warn count like the others where they were skipped.
    """
    excepted = tuple(_of_groups(results, groups))
    names = {entry.group for entry in excepted}
    judged = _judged(results, groups)
    ruled = _ruled(results, groups)
    without_rule = [name for name in groups if name not in ruled]
    others = [*_of_all(results), *_unruled(without_rule, groups)]
    names |= _not_met(results, groups)
    proven = tuple(name for name in groups if name in judged and name not in names)
    return Extent(proven, len(groups), (*excepted, *others))


def _judged(results: Sequence[RuleResult], groups: Sequence[str]) -> set[str]:
    """Return the groups that a blocking check has passed for by a bound, on their own rows."""
    passed = [result for result in results if result.outcome == "pass" and result.counts]
    passed = [result for result in passed if result.mode != "estimate"]
    judged = {result.group for result in passed if result.scope == SUBGROUP}
    for result in passed:
        if result.scope == WORST:
            judged |= set(groups) - set(result.instead_of)
    return {name for name in judged if name is not None}


def _ruled(results: Sequence[RuleResult], groups: Sequence[str]) -> set[str | None]:
    """Return the groups that a blocking rule is about."""
    blocking = [result for result in results if result.action == "block"]
    if any(result.scope == WORST for result in blocking):
        return set(groups)
    return {result.group for result in blocking if result.scope == SUBGROUP}


def _not_met(results: Sequence[RuleResult], groups: Sequence[str]) -> set[str | None]:
    """Return the groups of which a check that counts did not pass."""
    against = [result for result in results if result.counts and result.outcome != "pass"]
    if any(result.scope == WORST or result.rule == USEFUL for result in against):
        return set(groups)
    return {result.group for result in against if result.scope == SUBGROUP}


def _of_groups(results: Sequence[RuleResult], groups: Sequence[str]) -> Iterator[PassException]:
    for name in groups:
        own = [result for result in results if result.group == name and _why(result) is not None]
        own = [result for result in own if result.scope == SUBGROUP]
        if own:
            bounded = [result for result in own if result.not_excluded is not None]
            worst = max(bounded or own, key=_open)
            why = _why(worst)
            assert why is not None  # noqa: S101 - chosen above
            reason = worst.not_measured if why == "not_measured" and not bounded else None
            n_unbounded = len(own) - len(bounded) if bounded else 0
            yield PassException(name, why, len(own), _words(worst, len(own), n_unbounded), reason)


def _of_all(results: Sequence[RuleResult]) -> Iterator[PassException]:
    estimated = [one for one in results if one.mode == "estimate" and one.counts]
    if estimated:
        n = len(estimated)
        checks = "1 check was" if n == 1 else f"{n:,} checks were"
        text = f"{checks} decided by the estimate alone, however unsure it is (`mode: estimate`)."
        yield PassException(None, "estimate", n, text)
    for kind in RIVALS:
        lacking = [one for one in results if one.outcome == "skipped" and one.kind == kind]
        lacking = [one for one in lacking if _why(one) is None]
        if lacking:
            n = len(lacking)
            checks = "1 check was" if n == 1 else f"{n:,} checks were"
            text = f"no {kind} to compare with: {checks} skipped."
            yield PassException(None, "no_rival", n, text)


def _unruled(names: Sequence[str], groups: Sequence[str]) -> Iterator[PassException]:
    if not names:
        return
    listed = "any identity" if len(names) == len(groups) else ", ".join(names)
    yield PassException(None, "no_rule", 0, f"no blocking rule is about {listed}.")


def _why(result: RuleResult) -> Why | None:
    """Return what stands for a check of a group with too few rows; None if nothing needs to."""
    if result.outcome != "skipped":
        return None
    if result.not_measured is not None:
        return "not_measured"
    if result.judged_in is not None:
        return "category"
    return None if result.blind is None else "blind"


def _open(result: RuleResult) -> float:
    """Return how much a check leaves open, in units of its limit; most if it has no bound."""
    if result.not_excluded is None:
        return math.inf
    if result.kind in RIVALS:
        return result.not_excluded / result.limit
    distance = result.limit - result.not_excluded
    return distance if result.kind == "floor" else -distance


def _words(result: RuleResult, n_checks: int, n_unbounded: int = 0) -> str:
    """Say what stands for the checks of a group, what the worst leaves open, what is missing."""
    checks = "1 check" if n_checks == 1 else f"{n_checks:,} checks"
    stands = f"judged in the category {result.judged_in}"
    if result.not_measured is not None:
        stands = f"not measured ({result.not_measured})"
    elif result.judged_in is None:
        stands = f"judged by few rows, with the wider margin {result.blind:g}"
    parts = [f"{result.group}: {stands} ({checks})", *_left_open(result)]
    if n_unbounded:
        parts.append(f"{n_unbounded:,} of the checks without a bound")
    more = [f"{n:,} more {_CLASS[name]}" for name, n in result.rows_needed.items()]
    if more:
        parts.append(f"{' and '.join(more)} comments needed")
    return f"{'; '.join(parts)}."


def _left_open(result: RuleResult) -> Iterator[str]:
    """Say what a group's own rows say, and what they do not exclude."""
    among = "" if result.slice is None else f" in slice {result.slice}"
    if result.value is None or result.not_excluded is None or result.visible is None:
        yield f"no bound of {result.metric}{among}"
        return
    if result.kind not in RIVALS:
        own_size = abs(result.value) if result.kind == "ceiling" else result.value
        would = would_be_seen(result.metric, result.kind, result.limit, result.visible)
        own = f"own {result.metric}{among} {own_size:.3f}"
        yield f"{own}; {result.not_excluded:.2f} is not excluded, {would}"
        return
    signed = "+" if METRICS[result.metric].is_gap else ""
    rival = result.value if result.rival is None else result.rival
    values = f"{result.value:{signed}.3f}, the {result.kind}'s {rival:{signed}.3f}"
    own = f"own {result.metric}{among} {values}"
    left = f"a loss of {result.not_excluded:.2g} is not excluded"
    if result.not_excluded <= 0:
        left = "no loss is left open"
    seen = f", one of {result.visible:.2g} would be seen" if result.visible else ""
    yield f"{own}; {left}{seen}"
