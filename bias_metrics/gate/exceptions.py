"""What a pass does not say: checks that were skipped, estimated or judged in a category.

A pass is proven for the identities of which every check passed on their own rows, and not all by
an estimate alone. The others are its exceptions, and whoever reads of a pass reads of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from bias_metrics._core.tables import plain
from bias_metrics.gate.doubts import USEFUL
from bias_metrics.gate.judging import RIVALS
from bias_metrics.gate.losses import Loss
from bias_metrics.gate.rules import WORST, Kind
from bias_metrics.gate.targets import SUBGROUP
from bias_metrics.gate.verdict import RuleResult

AllowedBy = Literal["warning", "no_rule"] | float
"""Why a loss does not block: its rule only warns, there is none, or a tolerance."""
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
    check: RuleResult | None = None
    """The check that leaves most open."""
    n_unbounded: int = 0
    """How many checks have no bound, if another has one."""
    kind: Kind | None = None
    """The rival that does not exist."""
    groups: tuple[str, ...] | None = None
    """The groups that no blocking rule is about; None for all."""
    loss: Loss | None = None
    """The largest significant loss against the champion."""
    allowed_by: AllowedBy | None = None
    """Why that loss does not block."""
    may_be_shared: bool = False
    """Whether it may come from rows of another group that loses."""
    reason: str | None = None
    """Why the group is not measured, if the policy says so and its own rows bound nothing."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without defaults but for `group`."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        return {
            name: plain(value)
            for name, (value, default) in values.items()
            if name in {"group", "groups"} or value != default
        }


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
            yield PassException(
                name, why, len(own), check=worst, n_unbounded=n_unbounded, reason=reason
            )


def _of_all(results: Sequence[RuleResult]) -> Iterator[PassException]:
    estimated = [one for one in results if one.mode == "estimate" and one.counts]
    if estimated:
        yield PassException(None, "estimate", len(estimated))
    for kind in RIVALS:
        lacking = [one for one in results if one.outcome == "skipped" and one.kind == kind]
        lacking = [one for one in lacking if _why(one) is None]
        if lacking:
            yield PassException(None, "no_rival", len(lacking), kind=kind)


def _unruled(names: Sequence[str], groups: Sequence[str]) -> Iterator[PassException]:
    if names:
        every = len(names) == len(groups)
        yield PassException(None, "no_rule", 0, groups=None if every else tuple(names))


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
