"""Exceptions of a pass: checks that were skipped, estimated or judged in a category.

A pass is proven for an identity if every check passed on its own rows, with a confidence bound for
at least one check. All other identities are exceptions, which are reported wherever a pass is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bias_metrics._core.tables import drop_defaults
from bias_metrics.gate.doubts import USEFULNESS_RULE
from bias_metrics.gate.losses import Loss
from bias_metrics.gate.outcome import RIVALS
from bias_metrics.gate.rules import WORST, Kind
from bias_metrics.gate.targets import SUBGROUP
from bias_metrics.gate.verdict import RuleResult

AllowedBy = Literal["warning", "no_rule"] | float
"""Why a loss does not block: its rule only warns, no rule exists, or the rule's tolerance."""
ExceptionKind = Literal[
    "category", "blind", "not_measured", "no_rival", "no_rule", "estimate", "shown_worse"
]


@dataclass(frozen=True)
class PassException:
    """A limitation of a pass, for a group or for all groups."""

    group: str | None
    """The group; None if the exception is not about a single group."""
    why: ExceptionKind
    """The replacement of the checks (a category, the margin `blind`, an entry of `not_measured`) or
    the kind of missing evidence."""
    n_checks: int
    """Number of affected checks."""
    check: RuleResult | None = None
    """The affected check with the largest loss not excluded."""
    n_unbounded: int = 0
    """Number of affected checks without a bound, if another has a bound."""
    kind: Kind | None = None
    """The missing rival."""
    groups: tuple[str, ...] | None = None
    """The groups without a blocking rule; None for all."""
    loss: Loss | None = None
    """The largest significant loss against the champion."""
    allowed_by: AllowedBy | None = None
    """Why that loss does not block."""
    may_be_shared: bool = False
    """True if the loss may come from rows of another group that loses."""
    reason: str | None = None
    """The policy's reason for not measuring the group, if no check of its own rows has a bound."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; defaults are left out, except `group` and `groups`."""
        return drop_defaults(self, {"group", "groups"})


@dataclass(frozen=True)
class PassExtent:
    """The groups for which a pass is proven, and the exceptions."""

    groups: tuple[str, ...]
    """The groups that passed all checks on their own rows, at least one check by a bound."""
    n_groups: int
    exceptions: tuple[PassException, ...]
    """The exceptions, those of single groups first."""


def find_pass_extent(results: Sequence[RuleResult], groups: Sequence[str]) -> PassExtent:
    """Find the groups for which a pass by these results is proven, and its exceptions.

    `results` has every result of a verdict, and `groups` all groups of the evaluation set. A
    skipped check is an exception even if its rule only warns.
    """
    own_exceptions = tuple(_find_group_exceptions(results, groups))
    excepted: set[str | None] = {exception.group for exception in own_exceptions}
    everyone: set[str | None] = set(groups)
    ruled: set[str | None] = set()
    bounded: set[str | None] = set()
    for result in results:
        own = {result.group} if result.scope == SUBGROUP else set()
        own = everyone if result.scope == WORST else own
        if result.action == "block":
            ruled |= own
        if result.is_counted and result.outcome != "pass":
            excepted |= everyone if result.rule == USEFULNESS_RULE else own
        elif result.is_counted and result.mode != "estimate":
            bounded |= own - set(result.instead_of)
    unruled = tuple(name for name in groups if name not in ruled)
    exceptions = list(own_exceptions)
    estimated = [result for result in results if result.mode == "estimate" and result.is_counted]
    if estimated:
        exceptions.append(PassException(None, "estimate", len(estimated)))
    skipped = [
        result.kind
        for result in results
        if result.outcome == "skipped" and _classify_replacement(result) is None
    ]
    exceptions += [
        PassException(None, "no_rival", skipped.count(kind), kind=kind)
        for kind in RIVALS
        if kind in skipped
    ]
    if unruled:
        listed = None if len(unruled) == len(groups) else unruled
        exceptions.append(PassException(None, "no_rule", 0, groups=listed))
    proven = tuple(name for name in groups if name in bounded and name not in excepted)
    return PassExtent(proven, len(groups), tuple(exceptions))


def _find_group_exceptions(
    results: Sequence[RuleResult], groups: Sequence[str]
) -> Iterator[PassException]:
    """Yield an exception per group with replaced checks."""
    for name in groups:
        replaced = [
            result
            for result in results
            if result.group == name
            and result.scope == SUBGROUP
            and _classify_replacement(result) is not None
        ]
        if not replaced:
            continue
        bounded = [result for result in replaced if result.not_excluded is not None]
        worst = max(bounded or replaced, key=_compute_open_loss)
        why = _classify_replacement(worst)
        assert why is not None  # noqa: S101 - only replaced checks are compared
        yield PassException(
            name,
            why,
            len(replaced),
            check=worst,
            n_unbounded=len(replaced) - len(bounded) if bounded else 0,
            reason=worst.not_measured if why == "not_measured" and not bounded else None,
        )


def _classify_replacement(result: RuleResult) -> ExceptionKind | None:
    """Return what replaces the check of a group with too few rows; None for any other result."""
    if result.outcome != "skipped":
        return None
    if result.not_measured is not None:
        return "not_measured"
    if result.judged_in is not None:
        return "category"
    return None if result.blind is None else "blind"


def _compute_open_loss(result: RuleResult) -> float:
    """Return the loss that a check does not exclude, in units of its limit; inf without a bound."""
    if result.not_excluded is None:
        return math.inf
    if result.kind in RIVALS:
        return result.not_excluded / result.limit
    distance = result.limit - result.not_excluded
    return distance if result.kind == "floor" else -distance
