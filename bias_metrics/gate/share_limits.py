"""The rules `max_missing` and `max_truncated`: limits on the shares of marked comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bias_metrics._core.values import MetricValue
from bias_metrics.gate.outcome import Outcome
from bias_metrics.gate.rules import Action, Mode
from bias_metrics.gate.verdict import Reason, RuleResult
from bias_metrics.thresholds.marked_rows import MarkedRows, MarkedShare

MISSING, TRUNCATED = "max_missing", "max_truncated"
_RATES = {MISSING: "missing_rate", TRUNCATED: "truncated_rate"}
_GAPS = {MISSING: "missing_gap", TRUNCATED: "truncated_gap"}


@dataclass(frozen=True)
class ShareLimits:
    """Largest shares of marked comments: without a score, or truncated."""

    overall: float | None = None
    """Largest share of all comments."""
    each: float | None = None
    """Largest share of a subgroup's comments."""
    gap: float | None = None
    """Largest difference between the share of a subgroup and that of other comments."""
    mode: Mode = "proven"
    """`proven`: the upper bound must be within a limit; `estimate`: the share itself."""
    action: Action = "block"
    """`block` if the results count for the verdict, `warn` if not."""
    confidence: float = 0.95
    """One-sided confidence of the bounds."""

    def __post_init__(self) -> None:
        """Refuse missing limits and limits out of range."""
        limits = [limit for limit in (self.overall, self.each, self.gap) if limit is not None]
        if not limits:
            msg = "limits of shares must set `overall`, `each` or `gap`; these set none."
            raise ValueError(msg)
        for limit in limits:
            if not 0 < limit < 1:
                msg = f"limits of shares must be between 0 and 1, as in 0.02; got {limit}."
                raise ValueError(msg)

    @property
    def level(self) -> float:
        """Two-sided confidence of the interval that ends at the one-sided bound."""
        return 2 * self.confidence - 1


def judge_missing(
    missing: MarkedRows | None,
    limits: ShareLimits | None,
    *,
    rivals: Mapping[str, int] | None = None,
    is_sample: bool = True,
) -> tuple[RuleResult, ...]:
    """Judge the shares of comments without a score.

    Without limits, a single comment without a score is `insufficient`: the scored comments may
    differ from the others. If all comments have a score, every limit passes.

    `missing` has intervals at `limits.level`, and is None if missing scores are not judged. If rows
    are not a sample, the share itself decides. `rivals` has the number of comments without a score
    for champion and reference.
    """
    if missing is None:
        return ()
    if limits is None:
        n_missing = {"candidate": missing.overall.n_marked, **(rivals or {})}
        n_rows = missing.overall.n
        return tuple(
            _build_result(
                MISSING,
                mode="estimate",
                confidence=0.95,
                limit=0.0,
                action="block",
                reason="missing_not_ruled",
                n_marked=n,
                n_rows=n_rows,
                role=role,
                value=n / n_rows,
            )
            for role, n in n_missing.items()
            if n
        )
    return tuple(_judge_limits(MISSING, missing, limits, is_sample=is_sample))


def judge_truncated(
    truncated: MarkedRows | None, limits: ShareLimits | None, *, is_sample: bool = True
) -> tuple[RuleResult, ...]:
    """Judge the shares of truncated comments; return nothing without limits.

    Unknown truncation (`truncated` is None) is `insufficient`; see also `judge_missing`.
    """
    if limits is None:
        return ()
    if truncated is None:
        given = (limits.overall, limits.each, limits.gap)
        result = _build_result(
            TRUNCATED,
            mode=limits.mode,
            confidence=limits.confidence,
            limit=next(limit for limit in given if limit is not None),
            action=limits.action,
            reason="truncated_unknown",
        )
        return (result,)
    return tuple(_judge_limits(TRUNCATED, truncated, limits, is_sample=is_sample))


def _judge_limits(
    rule: str, marked: MarkedRows, limits: ShareLimits, *, is_sample: bool
) -> Iterator[RuleResult]:
    proven = limits.mode == "proven" and is_sample
    if limits.overall is not None:
        limit = limits.overall
        yield _judge_share(rule, marked.overall, _RATES[rule], None, limit, limits, proven=proven)
    for metric, group_limit in ((_RATES[rule], limits.each), (_GAPS[rule], limits.gap)):
        if group_limit is not None:
            for name, share in marked.subgroups.items():
                yield _judge_share(rule, share, metric, name, group_limit, limits, proven=proven)


def _judge_share(
    rule: str,
    share: MarkedShare,
    metric: str,
    group: str | None,
    limit: float,
    limits: ShareLimits,
    *,
    proven: bool,
) -> RuleResult:
    number = share.rate if metric == _RATES[rule] else share.gap
    assert number is not None  # noqa: S101 - a subgroup has both
    outcome, bound = _decide_outcome(number, share.n_marked, limit, proven=proven)
    reason: Reason = "share"
    if number.value is None:
        reason = "share_undefined"
    elif not share.n_marked:
        reason = "share_zero"
    return _build_result(
        rule,
        metric=metric,
        scope="subgroup" if group else "overall",
        group=group,
        mode="proven" if proven else "estimate",
        confidence=limits.confidence,
        limit=limit,
        outcome=outcome,
        action=limits.action,
        reason=reason,
        why=number.reason if number.value is None else None,
        n_marked=share.n_marked,
        n_rows=share.n,
        value=number.value,
        low=number.low,
        high=number.high,
        bound=bound,
        n_clusters=number.n_clusters,
    )


def _decide_outcome(
    number: MetricValue, n_marked: int, limit: float, *, proven: bool
) -> tuple[Outcome, float | None]:
    if number.value is None:
        return "insufficient", None
    if not n_marked:
        return "pass", number.value
    if not proven:
        return ("pass" if number.value <= limit else "fail"), number.value
    if number.low is None or number.high is None:
        return "insufficient", None
    if number.high <= limit:
        return "pass", number.high
    return ("fail", number.low) if number.low > limit else ("insufficient", number.high)


def _build_result(rule: str, **content: Any) -> RuleResult:
    """Return a result, by default about all comments and `insufficient`."""
    default: dict[str, Any] = {
        "kind": "ceiling",
        "metric": _RATES[rule],
        "scope": "overall",
        "group": None,
        "slice": None,
        "n_positive": 0,
        "n_negative": 0,
        "outcome": "insufficient",
    }
    return RuleResult(rule=rule, **default | content)
