"""The rule that shown harm blocks: no group may be shown to be worse than with a rival.

Bounds that hold together over all groups and metrics are looked at. A group needs no minimum of
rows: missing evidence neither passes nor blocks here, since the other rules see to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bias_metrics.gate.exceptions import AllowedBy, PassException
from bias_metrics.gate.judging import RIVALS
from bias_metrics.gate.losses import Loss, Losses
from bias_metrics.gate.rules import Action, Kind
from bias_metrics.gate.verdict import Evidence, RuleResult
from bias_metrics.metrics import METRICS
from bias_metrics.table import RowCounts

RULE = "shown_harm"
ANY_METRIC = "any"


@dataclass(frozen=True)
class HarmLimit:
    """By how much a group may be shown to be worse."""

    tolerance: float = 0.0
    """The largest shown loss that passes, in an AUC; in the size of a gap twice as much."""
    action: Action = "block"
    confidence: float = 0.95
    """With which all bounds against one rival hold together, on one side."""

    def __post_init__(self) -> None:
        """Refuse a tolerance that allows anything."""
        if not 0 <= self.tolerance < 0.5:
            msg = f"`tolerance` of `{RULE}` must be at least 0 and below 0.5; got {self.tolerance}."
            raise ValueError(msg)

    def of(self, metric: str) -> float:
        """Return the tolerance of a metric: twice as much for the size of a gap."""
        return self.tolerance * (2 if METRICS[metric].is_gap else 1)


def judge_harm(
    losses: Mapping[str, Losses],
    limit: HarmLimit | None,
    found: Evidence,
) -> tuple[RuleResult, ...]:
    """Judge what is shown to be worse than with each rival.

    Parameters
    ----------
    losses : mapping of str to Losses
        By rival (`champion`, `reference`): what is shown, and how many bounds were looked at.
    limit : HarmLimit or None
        The tolerance; None if there is no rule, and so no result.
    found : Evidence
        Of all rows: which they are, and how many each group has.

    Returns
    -------
    tuple of RuleResult
        For each rival the shown losses beyond the tolerance, the largest first, as failures; one
        pass if there are none. Without any rival a single result that is `skipped`.
    """
    if limit is None:
        return ()
    results = [
        result
        for kind in RIVALS
        if kind in losses
        for result in _of_rival(kind, losses[kind], limit, found)
    ]
    return tuple(results) or (_nobody(limit, found),)


def unruled_harm(losses: Mapping[str, Losses], limit: HarmLimit | None) -> list[PassException]:
    """Return who is shown to be worse than with the champion, and does not block.

    Parameters
    ----------
    losses, limit
        As in `judge_harm`.
    """
    by_group: dict[str, list[tuple[Loss, AllowedBy]]] = {}
    why: AllowedBy
    for cell in losses["champion"].cells if "champion" in losses else ():
        if cell.without:
            continue  # only by comments that also mention somebody else who is named
        if limit is None or limit.action == "warn":
            why = "warning" if limit else "no_rule"
        elif cell.worse_by_at_least <= limit.of(cell.metric):
            why = limit.of(cell.metric)
        else:
            continue
        by_group.setdefault(cell.group, []).append((cell, why))
    return [
        PassException(
            group,
            "shown_worse",
            len(cells),
            loss=cells[0][0],
            allowed_by=cells[0][1],
            may_be_shared=losses["champion"].may_be_shared,
        )
        for group, cells in by_group.items()
    ]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How many bounds were computed, separately and jointly, and how many are wrong on average."""

    separately: int
    expected_wrong: float
    jointly: int
    alpha: float
    """The chance that any of the joint bounds is wrong; 0 if values are of these rows only."""
    without_threshold: tuple[str, ...] = ()
    """Rivals without a threshold, so that losses in error rates were not tested."""


def bounds_looked_at(
    results: Sequence[RuleResult],
    losses: Mapping[str, Losses],
    alpha: float,
    thresholds: Mapping[str, float | None],
    *,
    is_sample: bool,
) -> Bounds:
    """Count the bounds that a verdict looked at, and how many of them may be wrong.

    Parameters
    ----------
    results : sequence of RuleResult
        Every result of the verdict.
    losses : mapping of str to Losses
        As in `judge_harm`.
    alpha : float
        The chance that any of the joint bounds is wrong.
    thresholds : mapping of str to float or None
        By role, the threshold that each model is used with.
    is_sample : bool
        Whether the verdict is about more rows than these.
    """
    if not is_sample:
        return Bounds(separately=0, expected_wrong=0.0, jointly=0, alpha=0.0)
    apart = [
        result
        for result in results
        if result.bound is not None and result.mode == "proven" and result.rule != RULE
    ]
    unknown = [role for role in losses if thresholds.get(role) is None]
    return Bounds(
        separately=len(apart),
        expected_wrong=sum(1 - result.confidence for result in apart),
        jointly=sum(of_rival.n_bounds for of_rival in losses.values()),
        alpha=alpha,
        without_threshold=() if thresholds["candidate"] is None else tuple(unknown),
    )


def _of_rival(
    kind: Kind,
    losses: Losses,
    limit: HarmLimit,
    found: Evidence,
) -> Iterator[RuleResult]:
    beyond = [cell for cell in losses.cells if cell.worse_by_at_least > limit.of(cell.metric)]
    known: dict[str, Any] = {"rule": RULE, "kind": kind, "n_bounds": losses.n_bounds}
    if not beyond:
        yield RuleResult(
            metric=ANY_METRIC,
            scope="overall",
            group=None,
            outcome="pass",
            reason="no_loss",
            **known,
            **_fixed(limit, limit.tolerance, found.table.counts[None], is_sample=found.is_sample),
        )
    for cell in beyond:
        rows, of_metric = found.table.counts[cell.group], limit.of(cell.metric)
        yield RuleResult(
            metric=cell.metric,
            scope="subgroup",
            group=cell.group,
            outcome="fail",
            reason="loss",
            value=cell.first,
            rival=cell.second,
            low=cell.low,
            high=cell.high,
            bound=cell.low if METRICS[cell.metric].is_gap else cell.high,
            threshold=cell.threshold,
            without=cell.without,
            may_be_shared=losses.may_be_shared,
            **known,
            **_fixed(limit, of_metric, rows, is_sample=found.is_sample),
        )


def _nobody(limit: HarmLimit, found: Evidence) -> RuleResult:
    return RuleResult(
        rule=RULE,
        kind="champion",
        metric=ANY_METRIC,
        scope="overall",
        group=None,
        outcome="skipped",
        reason="no_rival",
        **_fixed(limit, limit.tolerance, found.table.counts[None], is_sample=found.is_sample),
    )


def _fixed(
    limit: HarmLimit, of_metric: float, rows: RowCounts, *, is_sample: bool
) -> dict[str, Any]:
    return {
        "n_positive": rows.n_positive,
        "n_negative": rows.n_negative,
        "slice": None,
        "mode": "proven" if is_sample else "estimate",
        "confidence": limit.confidence,
        "limit": of_metric,
        "action": limit.action,
        "on_these_rows": not is_sample,
    }
