"""The rule `shown_harm`: no group may be significantly worse than under a rival.

The rule uses bounds that hold jointly over all groups and metrics. It applies to groups of any
size: without evidence it neither passes nor blocks a group, which is left to the other rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bias_metrics.gate.exceptions import AllowedBy, PassException
from bias_metrics.gate.losses import Loss, Losses
from bias_metrics.gate.outcome import RIVALS
from bias_metrics.gate.rules import Action, Kind
from bias_metrics.gate.verdict import Evidence, Reason, RuleResult
from bias_metrics.metrics import METRICS

HARM_RULE = "shown_harm"
ANY_METRIC = "any"


@dataclass(frozen=True)
class HarmLimit:
    """The largest significant loss of a group that passes."""

    tolerance: float = 0.0
    """Largest lower bound of a loss in an AUC; twice as much for the size of a gap."""
    action: Action = "block"
    """`block` if the results count for the verdict, `warn` if not."""
    confidence: float = 0.95
    """One-sided joint confidence of all bounds against a rival."""

    def __post_init__(self) -> None:
        """Refuse a tolerance that would allow any loss."""
        if not 0 <= self.tolerance < 0.5:
            msg = (
                f"`tolerance` of `{HARM_RULE}` must be at least 0 and below 0.5; "
                f"got {self.tolerance}."
            )
            raise ValueError(msg)

    def get_tolerance(self, metric: str) -> float:
        """Return the tolerance of a metric, doubled for the size of a gap."""
        return self.tolerance * (2 if METRICS[metric].is_gap else 1)


def judge_harm(
    losses: Mapping[str, Losses],
    limit: HarmLimit | None,
    evidence: Evidence,
) -> tuple[RuleResult, ...]:
    """Judge the significant losses against each rival (`champion`, `reference`).

    Each loss beyond the tolerance of `limit` is a failure, the largest first; a rival without such
    losses is a single pass, and without rivals a single result is `skipped`. A policy without the
    rule (`limit` is None) gives no result. `evidence` is on all rows.
    """
    if limit is None:
        return ()
    results: list[RuleResult] = []
    for kind in RIVALS:
        if kind not in losses:
            continue
        rival = losses[kind]
        beyond = [
            cell
            for cell in rival.cells
            if cell.worse_by_at_least > limit.get_tolerance(cell.metric)
        ]
        if not beyond:
            results.append(_build_overall(kind, limit, evidence, "pass", "no_loss", rival.n_bounds))
        results += [
            RuleResult(
                rule=HARM_RULE,
                kind=kind,
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
                may_be_shared=rival.may_be_shared,
                limit=limit.get_tolerance(cell.metric),
                n_bounds=rival.n_bounds,
                **_build_common_fields(limit, evidence, cell.group),
            )
            for cell in beyond
        ]
    if not results:
        results.append(_build_overall("champion", limit, evidence, "skipped", "no_rival"))
    return tuple(results)


def list_unblocked_harm(
    losses: Mapping[str, Losses], limit: HarmLimit | None
) -> list[PassException]:
    """Return the groups with significant losses against the champion that do not block.

    Each group has its largest loss. Losses that come only from rows of another group are left out.
    """
    by_group: dict[str, list[tuple[Loss, AllowedBy]]] = {}
    why: AllowedBy
    for cell in losses["champion"].cells if "champion" in losses else ():
        if cell.without:
            continue  # the loss comes from rows that also mention a group that is already listed
        if limit is None or limit.action == "warn":
            why = "warning" if limit else "no_rule"
        elif cell.worse_by_at_least <= limit.get_tolerance(cell.metric):
            why = limit.get_tolerance(cell.metric)
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
class BoundCounts:
    """Numbers of separate and joint bounds, and the expected number of wrong bounds."""

    separately: int
    """Bounds with their rule's own confidence."""
    expected_wrong: float
    """Expected number of wrong separate bounds."""
    jointly: int
    """Bounds that hold jointly."""
    alpha: float
    """Probability that any joint bound is wrong; 0 if the rows are not a sample."""
    without_threshold: tuple[str, ...] = ()
    """Rivals without a threshold, so that error rates were not compared."""


def count_bounds(
    results: Sequence[RuleResult],
    losses: Mapping[str, Losses],
    alpha: float,
    thresholds: Mapping[str, float | None],
    *,
    is_sample: bool,
) -> BoundCounts:
    """Count the bounds behind a verdict, and the expected number of wrong bounds.

    `thresholds` has the threshold in use by the model's role, and `alpha` is the probability that
    any joint bound is wrong. If rows are not a sample, values are exact, and bounds are not
    counted.
    """
    if not is_sample:
        return BoundCounts(separately=0, expected_wrong=0.0, jointly=0, alpha=0.0)
    separate = [
        result
        for result in results
        if result.bound is not None and result.mode == "proven" and result.rule != HARM_RULE
    ]
    unknown = [role for role in losses if thresholds.get(role) is None]
    return BoundCounts(
        separately=len(separate),
        expected_wrong=sum(1 - result.confidence for result in separate),
        jointly=sum(rival.n_bounds for rival in losses.values()),
        alpha=alpha,
        without_threshold=() if thresholds["candidate"] is None else tuple(unknown),
    )


def _build_overall(
    kind: Kind,
    limit: HarmLimit,
    evidence: Evidence,
    outcome: Literal["pass", "skipped"],
    reason: Reason,
    n_bounds: int | None = None,
) -> RuleResult:
    """Return the single result of a rival without losses, or of the missing champion."""
    return RuleResult(
        rule=HARM_RULE,
        kind=kind,
        metric=ANY_METRIC,
        scope="overall",
        group=None,
        outcome=outcome,
        reason=reason,
        limit=limit.tolerance,
        n_bounds=n_bounds,
        **_build_common_fields(limit, evidence, None),
    )


def _build_common_fields(limit: HarmLimit, evidence: Evidence, group: str | None) -> dict[str, Any]:
    """Return the fields that every result of the rule has: its settings, and rows of the group."""
    rows = evidence.table.counts[group]
    return {
        "n_positive": rows.n_positive,
        "n_negative": rows.n_negative,
        "slice": None,
        "mode": "proven" if evidence.is_sample else "estimate",
        "confidence": limit.confidence,
        "action": limit.action,
        "on_these_rows": not evidence.is_sample,
    }
