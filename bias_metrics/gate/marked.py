"""The rules about marked comments, without a score or truncated: how many, and how unevenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bias_metrics._core.values import MetricValue
from bias_metrics.gate.judging import Outcome
from bias_metrics.gate.rules import Action, Mode
from bias_metrics.gate.verdict import Reason, RuleResult
from bias_metrics.thresholds.marked import MarkedRows, MarkedShare

MISSING, TRUNCATED = "max_missing", "max_truncated"
_RATES = {MISSING: "missing_rate", TRUNCATED: "truncated_rate"}
_GAPS = {MISSING: "missing_gap", TRUNCATED: "truncated_gap"}


@dataclass(frozen=True)
class ShareLimits:
    """How many comments may be marked: without a score, or truncated."""

    overall: float | None = None
    """Largest share of all comments."""
    each: float | None = None
    """Largest share of the comments of each subgroup."""
    gap: float | None = None
    """By how much the share of a subgroup may exceed that of other comments."""
    mode: Mode = "proven"
    """`proven`: the upper bound must be within a limit; `estimate`: the share itself."""
    action: Action = "block"
    """Whether the results count for the verdict."""
    confidence: float = 0.95
    """One-sided confidence of the bounds."""

    def __post_init__(self) -> None:
        """Refuse limits that decide nothing."""
        limits = [one for one in (self.overall, self.each, self.gap) if one is not None]
        if not limits:
            msg = "limits of shares must set `overall`, `each` or `gap`; these set none."
            raise ValueError(msg)
        for limit in limits:
            if not 0 < limit < 1:
                msg = f"limits of shares must be between 0 and 1, as in 0.02; got {limit}."
                raise ValueError(msg)

    @property
    def level(self) -> float:
        """The two-sided confidence of the interval whose end is the one-sided bound."""
        return 2 * self.confidence - 1


def judge_missing(
    found: MarkedRows | None,
    limits: ShareLimits | None,
    *,
    rivals: Mapping[str, int] | None = None,
    is_sample: bool = True,
) -> tuple[RuleResult, ...]:
    """Judge how many comments have no score.

    Without limits, a single comment without a score is `insufficient`: nothing says that the
    others may stand for all. Where no comment is missing, limits pass: nothing was left out.

    Parameters
    ----------
    found : MarkedRows or None
        With intervals at `limits.level`; None if there is nothing to judge.
    limits : ShareLimits or None
        What is allowed.
    rivals : mapping of str to int, optional
        How many comments champion and reference have no score for.
    is_sample : bool, default=True
        Whether rows are a sample; if not, the share itself decides.

    Returns
    -------
    tuple of RuleResult
        One for each limit and group.
    """
    if found is None:
        return ()
    if limits is None:
        lacking = {"candidate": found.overall.n_marked, **(rivals or {})}
        return tuple(_unruled(role, n, found.overall.n) for role, n in lacking.items() if n)
    return tuple(_each(MISSING, found, limits, is_sample=is_sample))


def judge_truncated(
    found: MarkedRows | None, limits: ShareLimits | None, *, is_sample: bool = True
) -> tuple[RuleResult, ...]:
    """Judge how many comments were truncated; nothing without limits.

    Parameters
    ----------
    found : MarkedRows or None
        With intervals at `limits.level`; None if truncation is unknown, which is `insufficient`.
    limits : ShareLimits or None
        What is allowed.
    is_sample : bool, default=True
        Whether rows are a sample; if not, the share itself decides.

    Returns
    -------
    tuple of RuleResult
        One for each limit and group.
    """
    if limits is None:
        return ()
    if found is None:
        return (_unknown(limits),)
    return tuple(_each(TRUNCATED, found, limits, is_sample=is_sample))


def _each(
    rule: str, found: MarkedRows, limits: ShareLimits, *, is_sample: bool
) -> Iterator[RuleResult]:
    proven = limits.mode == "proven" and is_sample
    if limits.overall is not None:
        share, limit = found.overall, limits.overall
        yield _judged(rule, share, _RATES[rule], None, limit, limits, proven=proven)
    for metric, limit_of_each in ((_RATES[rule], limits.each), (_GAPS[rule], limits.gap)):
        if limit_of_each is not None:
            for name, one in found.subgroups.items():
                yield _judged(rule, one, metric, name, limit_of_each, limits, proven=proven)


def _judged(
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
    outcome, bound = _outcome(number, share.n_marked, limit, proven=proven)
    reason: Reason = "share"
    if number.value is None:
        reason = "share_undefined"
    elif not share.n_marked:
        reason = "share_zero"
    return RuleResult(
        rule=rule,
        kind="ceiling",
        metric=metric,
        scope="subgroup" if group else "overall",
        group=group,
        slice=None,
        mode="proven" if proven else "estimate",
        confidence=limits.confidence,
        limit=limit,
        n_positive=0,
        n_negative=0,
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


def _outcome(
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


def _unruled(role: str, n_missing: int, n: int) -> RuleResult:
    return RuleResult(
        rule=MISSING,
        kind="ceiling",
        metric=_RATES[MISSING],
        scope="overall",
        group=None,
        slice=None,
        mode="estimate",
        confidence=0.95,
        limit=0.0,
        n_positive=0,
        n_negative=0,
        outcome="insufficient",
        action="block",
        reason="missing_not_ruled",
        n_marked=n_missing,
        n_rows=n,
        role=role,
        value=n_missing / n,
    )


def _unknown(limits: ShareLimits) -> RuleResult:
    return RuleResult(
        rule=TRUNCATED,
        kind="ceiling",
        metric=_RATES[TRUNCATED],
        scope="overall",
        group=None,
        slice=None,
        mode=limits.mode,
        confidence=limits.confidence,
        limit=next(one for one in (limits.overall, limits.each, limits.gap) if one is not None),
        n_positive=0,
        n_negative=0,
        outcome="insufficient",
        action=limits.action,
        reason="truncated_unknown",
    )
