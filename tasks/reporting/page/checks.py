"""The verdict on a candidate on a set, and its checks, in words."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics import RuleResult
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS
from biasgate.tasks.outcomes import exceptions_in_words, word_of_verdict
from biasgate.tasks.records import Report, Verdict, metric_cells
from biasgate.tasks.records.numbers import final_score_name
from biasgate.tasks.reporting.headline import checks_not_passed, counted
from biasgate.tasks.reporting.page.numbers import with_interval

# Most checks in a table: if there are more, the first.
_CHECKS = 300
# Checks that did not pass and are quoted at the top of a page: the worst.
_QUOTED = 5


@dataclass(frozen=True)
class Check:
    """One check of the policy, in words; `rule` has the rule and what it compares with."""

    outcome: str
    word: str
    rule: str
    sentence: str


@dataclass(frozen=True)
class Judged:
    """The verdict on a candidate on a set."""

    status: str
    word: str
    """The outcome, for colours and in words."""
    counted: str
    """How many checks there are, and what came of them."""
    bounds: str
    """How many bounds were looked at, and how many may be wrong."""
    exceptions: tuple[str, ...]
    """What a pass does not say."""
    quoted: tuple[str, ...]
    """The worst of those, in words."""
    more: str
    """How many others did not pass; empty if all are quoted."""
    unmet: tuple[Check, ...]
    met: tuple[Check, ...]
    """Those that did not pass, the worst first, and all others."""
    left_out: str
    """A note if there are more."""
    keys: tuple[tuple[str, str], ...]
    """The numbers of all comments together, with intervals."""
    lacks: tuple[tuple[str, str], ...]
    """Why some of them are undefined."""


def judge(report: Report, verdict: Verdict) -> Judged:
    """Return what the checks came to."""
    unmet = checks_not_passed(verdict)
    policy = verdict.policy
    met = [one for one in verdict.results if one.outcome in {"pass", "skipped"}]
    is_long = max(len(unmet), len(met)) > _CHECKS
    bias = report.bias
    means = metric_cells(bias.power_mean)
    final = final_score_name(bias).capitalize()
    keys = {"Overall AUC": bias.overall.auc, final: bias.final_score}
    keys |= {f"Power mean of {METRICS[one].title}": means[one] for one in FINAL_SCORE_PARTS}
    return Judged(
        status="reported" if policy.report_only else verdict.outcome,
        word=word_of_verdict(verdict).text,
        counted=counted(verdict),
        bounds=verdict.bounds.sentence,
        exceptions=tuple(exceptions_in_words([verdict])),
        quoted=tuple(one.sentence for one in unmet[:_QUOTED]),
        more=f"And {len(unmet) - _QUOTED:,} more, listed below." if len(unmet) > _QUOTED else "",
        unmet=tuple(map(_check, unmet[:_CHECKS])),
        left_out=f"Tables list the first {_CHECKS}; all are in verdict.json." if is_long else "",
        met=tuple(map(_check, met[:_CHECKS])),
        keys=tuple((name, with_interval(cell)) for name, cell in keys.items()),
        lacks=tuple(
            (name, (cell.reason or "no reason given"))
            for name, cell in keys.items()
            if cell.value is None
        ),
    )


def _check(one: RuleResult) -> Check:
    words = {"pass": "passed", "fail": "failed", "insufficient": "not enough evidence"}
    word = words.get(one.outcome, one.outcome)
    if one.outcome not in {"pass", "skipped"}:
        word += " (only warns)" if one.action == "warn" else ""
        word += f" (waived by {one.waived_by})" if one.waived_by else ""
    return Check(one.outcome, word, f"{one.rule} {one.kind}", one.sentence)
