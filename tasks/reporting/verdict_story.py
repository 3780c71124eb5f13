"""A verdict in words, as data that the terminal, pages, comments and messages lay out.

The words are derived from the checks that decided, and so cannot contradict the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bias_metrics.gate import (
    MISSING,
    RIVALS,
    TRUNCATED,
    USEFULNESS_RULE,
    WORST_FIRST,
    Loss,
    RuleResult,
)
from bias_metrics.metrics import METRICS
from bias_metrics.parts import format_count
from biasgate.tasks.check_messages import (
    describe_bounds,
    describe_check,
    describe_least_loss,
    describe_objective,
    name_objective,
)
from biasgate.tasks.outcomes import Word
from biasgate.tasks.records import Verdict
from biasgate.tasks.reporting.tables import format_number, name_metric
from biasgate.tasks.wording import describe_losses, get_verdict_words, list_exception_lines

NO_CHAMPION = "There was no champion to compare with."
IS_CHAMPION = "This is the champion."
_CHECKS = {"pass": "passed", "fail": "failed", "insufficient": "undecided"}
_COUNTED = {
    "error": "with an error",
    "fail": "failed",
    "insufficient": "undecided",
    "pass": "passed",
    "warn": "only warned",
}


@dataclass(frozen=True)
class CheckStory:
    """The outcome of a check of the policy."""

    status: str
    """The outcome; `warn` if the check did not pass and does not count."""
    excuse: str
    """The reason why it does not count; else empty."""
    word: str
    """The outcome in words, with the excuse."""
    sentence: str
    """The number, and the limit or rival that it was compared with."""
    result: RuleResult

    @classmethod
    def from_result(cls, result: RuleResult) -> CheckStory:
        """Describe the result of a check."""
        status, excuse = str(result.outcome), ""
        if status not in {"pass", "skipped"} and result.action == "warn":
            status, excuse = "warn", "only warns"
        word = _CHECKS.get(result.outcome, result.outcome)
        word = f"{word} ({excuse})" if excuse else word
        return cls(status, excuse, word, describe_check(result), result)

    @property
    def has_failed(self) -> bool:
        """True if the check counts against the candidate."""
        return self.status in {"fail", "error"}


@dataclass(frozen=True)
class Change:
    """A number of an identity, compared with the champion's."""

    group: str
    metric: str
    champion: float
    candidate: float
    bound: str = ""
    """The lower bound of the loss; empty for a gain."""

    @property
    def text(self) -> str:
        """The identity, the metric, both values and the bound."""
        metric = METRICS[self.metric]
        values = (
            format_number(value, signed=metric.is_gap) for value in (self.champion, self.candidate)
        )
        text = f"{self.group} {name_metric(self.metric)} {' → '.join(values)}"
        return f"{text}, worse by {self.bound}" if self.bound else text


@dataclass(frozen=True, kw_only=True)
class VerdictStory:
    """A verdict in words."""

    candidate: str
    evaluation_set: str
    word: Word
    """The outcome, with the number of proven identities, or the identities that got worse."""
    exceptions: tuple[str, ...]
    """The exceptions of a pass and the reservations of any outcome, as sentences."""
    policy: str
    check_counts: str
    """The number of checks by outcome."""
    bounds: str
    """The number of bounds, and how many may be wrong by chance."""
    basis: tuple[str, ...]
    """The counts that decided, if rows did not."""
    checks: tuple[CheckStory, ...]
    """In the order of the policy."""
    unmet: tuple[CheckStory, ...]
    """The checks that did not pass, the worst first, without skipped checks."""
    losses_text: str
    """The identities that are significantly worse than under the champion, with bounds."""
    worsened: tuple[Loss, ...]
    """The significant losses, the largest first."""
    champion: str | None
    objective: str
    """The number that ranks versions which pass, compared with the champion's."""
    verdict: Verdict

    @classmethod
    def from_verdict(cls, verdict: Verdict) -> VerdictStory:
        """Describe a verdict."""
        checks = tuple(map(CheckStory.from_result, verdict.results))
        kinds = WORST_FIRST[: WORST_FIRST.index("pass")]
        champion, objective = verdict.champion, verdict.objective
        counts = verdict.counts
        basis: list[str] = []
        if counts is not None:
            basis.append(
                f"Decided by counts of {format_count(counts.n_shards, 'shard')}, without rows: "
                f"every AUC is exact to {counts.widest:.1g}. `verdict.json` lists the limits of "
                "counts."
            )
        value = "undefined" if objective.value is None else f"{objective.value:.4f}"
        ranked = f"{name_objective(objective)} is {value}; there was no champion to compare with"
        return VerdictStory(
            candidate=verdict.candidate.name,
            evaluation_set=verdict.evaluation_set.name,
            word=get_verdict_words(verdict),
            exceptions=tuple(list_exception_lines([verdict])),
            policy=verdict.policy.name,
            check_counts=_count_checks(checks),
            bounds=describe_bounds(verdict.bounds),
            basis=tuple(basis),
            checks=checks,
            unmet=tuple(
                check for kind in kinds for check in checks if check.result.outcome == kind
            ),
            losses_text=NO_CHAMPION if champion is None else describe_losses(verdict.worsened),
            worsened=tuple(verdict.worsened),
            champion=None if champion is None else champion.model or champion.name,
            objective=ranked if champion is None else describe_objective(objective),
            verdict=verdict,
        )

    @property
    def summary(self) -> str:
        """The number of checks by outcome, and of bounds."""
        return f"{self.check_counts}. {self.bounds}"

    @property
    def failed_groups(self) -> tuple[str, ...]:
        """The identities with a failed check, the worst first."""
        return _list_groups(check for check in self.unmet if check.has_failed)

    @property
    def without_rival(self) -> tuple[CheckStory, ...]:
        """The checks against a champion or reference that does not exist."""
        rivals = {"champion": self.verdict.champion, "reference": self.verdict.reference}
        absent = {kind for kind in RIVALS if rivals[kind] is None}
        statuses = {"insufficient", "skipped"} if self.needs_champion else {"insufficient"}
        return tuple(
            check
            for check in self.checks
            if check.status in statuses
            and check.result.kind in absent
            and check.result.bound is None
        )

    @property
    def needs_champion(self) -> bool:
        """True if all blocking rules compare with a champion that does not exist.

        `allow_first` has no effect then, since a candidate cannot pass if all checks are skipped.
        """
        kinds = {
            result.kind
            for result in self.verdict.results
            if result.action == "block" and result.rule not in {USEFULNESS_RULE, MISSING, TRUNCATED}
        }
        return self.verdict.champion is None and kinds == {"champion"}

    @property
    def undecided_groups(self) -> tuple[str, ...]:
        """The identities without a failed check, but with a check that lacks evidence."""
        undecided = _list_groups(check for check in self.unmet if check.status == "insufficient")
        return tuple(name for name in undecided if name not in self.failed_groups)

    @property
    def losses(self) -> tuple[Change, ...]:
        """The losses that an identity's own comments cause, the largest first."""
        return tuple(
            Change(cell.group, cell.metric, cell.second, cell.first, describe_least_loss(cell))
            for cell in self.worsened
            if not cell.without
        )

    @property
    def title(self) -> str:
        """The candidate and the set."""
        return f"{self.candidate} on {self.evaluation_set}"

    @property
    def met(self) -> tuple[CheckStory, ...]:
        """The checks that passed or were skipped."""
        return tuple(check for check in self.checks if check.status in {"pass", "skipped"})


def _count_checks(checks: Sequence[CheckStory]) -> str:
    counts = Counter(check.status for check in checks)
    n_skipped = counts.pop("skipped", 0)
    texts = [f"{counts[status]:,} {text}" for status, text in _COUNTED.items() if status in counts]
    text = f"{format_count(counts.total(), 'check')}: {', '.join(texts) or 'nothing to check'}"
    return f"{text}; {n_skipped:,} skipped" if n_skipped else text


def _list_groups(checks: Iterable[CheckStory]) -> tuple[str, ...]:
    names = (check.result.group for check in checks)
    return tuple(dict.fromkeys(name for name in names if name is not None))
