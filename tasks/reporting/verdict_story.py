"""What a verdict says, as data: terminal, pages, comments and messages lay it out.

It is made from the checks that decided, so that nothing said can contradict the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from biasgate.tasks.wording import (
    describe_losses,
    get_verdict_words,
    list_exception_lines,
)

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
class Check:
    """What came of one check of the policy."""

    status: str
    """Its outcome; `warn` if it did not pass and does not count."""
    excuse: str
    """Why it does not count; else empty."""
    word: str
    """The outcome in words, with the excuse."""
    sentence: str
    """What was measured, and what it was compared with."""
    result: RuleResult
    """The result behind it."""

    @classmethod
    def of(cls, result: RuleResult) -> Check:
        """Say what came of a check."""
        status, excuse = str(result.outcome), ""
        if status not in {"pass", "skipped"} and result.action == "warn":
            status, excuse = "warn", "only warns"
        word = _CHECKS.get(result.outcome, result.outcome)
        word = f"{word} ({excuse})" if excuse else word
        return cls(status, excuse, word, describe_check(result), result)

    @property
    def has_failed(self) -> bool:
        """Whether it counts against the candidate."""
        return self.status in {"fail", "error"}


@dataclass(frozen=True)
class Change:
    """A number of an identity beside the champion's."""

    group: str
    metric: str
    champion: float
    candidate: float
    bound: str = ""
    """How much worse it is shown to be at least; empty if it is better."""

    @property
    def text(self) -> str:
        """The identity, the metric, both values and the bound."""
        metric = METRICS[self.metric]
        values = (
            format_number(one, signed=metric.is_gap) for one in (self.champion, self.candidate)
        )
        text = f"{self.group} {name_metric(self.metric)} {' → '.join(values)}"
        return f"{text}, worse by {self.bound}" if self.bound else text


@dataclass(frozen=True, kw_only=True)
class VerdictStory:
    """What is said of a verdict."""

    candidate: str
    evaluation_set: str
    word: Word
    """The outcome; a pass says for how many it is proven, a block who is shown to be worse off."""
    exceptions: tuple[str, ...]
    """What a pass does not say, and what limits any outcome; each line is a sentence."""
    policy: str
    counted: str
    """How many checks there are, and what came of them."""
    bounds: str
    """How many bounds were looked at, and how many may be wrong."""
    basis: tuple[str, ...]
    """Which counts decided, if any did; and what other choices of rows and labels change, if that
    is no exception of a pass."""
    checks: tuple[Check, ...]
    """In the order of the policy."""
    unmet: tuple[Check, ...]
    """Those that did not pass, the worst first; skipped ones are left out."""
    worse: str
    """Who is shown to be worse than the champion, and by how much."""
    worsened: tuple[Loss, ...]
    """The numbers behind that, the largest loss first."""
    champion: str | None
    """The champion that it is compared with."""
    objective: str
    """The number that ranks versions which pass, beside the champion's."""
    verdict: Verdict
    """What all this is said of."""

    @classmethod
    def of_verdict(cls, verdict: Verdict) -> VerdictStory:
        """Say what a verdict says."""
        checks = tuple(map(Check.from_result, verdict.results))
        kinds = WORST_FIRST[: WORST_FIRST.index("pass")]
        champion, objective = verdict.champion, verdict.objective
        value = "undefined" if objective.value is None else f"{objective.value:.4f}"
        ranked = f"{name_objective(objective)} is {value}; there was no champion to compare with"
        return VerdictStory(
            candidate=verdict.candidate.name,
            evaluation_set=verdict.evaluation_set.name,
            word=get_verdict_words(verdict),
            exceptions=tuple(list_exception_lines([verdict])),
            policy=verdict.policy.name,
            counted=_summarize_checks(checks),
            bounds=describe_bounds(verdict.bounds),
            basis=tuple(_counts(verdict)),
            checks=checks,
            unmet=tuple(
                check for kind in kinds for check in checks if check.result.outcome == kind
            ),
            worse=NO_CHAMPION if champion is None else describe_losses(verdict.worsened),
            worsened=tuple(verdict.worsened),
            champion=None if champion is None else champion.model or champion.name,
            objective=ranked if champion is None else describe_objective(objective),
            verdict=verdict,
        )

    @property
    def counts(self) -> str:
        """What came of the checks, and how many bounds were looked at."""
        return f"{self.counted}. {self.bounds}"

    @property
    def failing(self) -> tuple[str, ...]:
        """The identities of which a check failed, the worst first."""
        return _list_groups(check for check in self.unmet if check.has_failed)

    @property
    def without_rival(self) -> tuple[Check, ...]:
        """The checks against a champion or reference that does not exist: no comments help."""
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
        """Whether a champion is lacking, and all blocking rules of the policy only compare with it.

        `allow_first` does not help then: nothing passes where every check is skipped.
        """
        own = [
            result.kind
            for result in self.verdict.results
            if result.action == "block" and result.rule not in {USEFULNESS_RULE, MISSING, TRUNCATED}
        ]
        return self.verdict.champion is None and set(own) == {"champion"}

    @property
    def unsettled(self) -> tuple[str, ...]:
        """The others of which a check lacks evidence."""
        lacking = _list_groups(check for check in self.unmet if check.status == "insufficient")
        return tuple(name for name in lacking if name not in self.failing)

    @property
    def losses(self) -> tuple[Change, ...]:
        """What is shown to be worse than the champion's by its own comments, the worst first."""
        return tuple(
            Change(cell.group, cell.metric, cell.second, cell.first, describe_least_loss(cell))
            for cell in self.worsened
            if not cell.without
        )

    @property
    def about(self) -> str:
        """The candidate and the set."""
        return f"{self.candidate} on {self.evaluation_set}"

    @property
    def met(self) -> tuple[Check, ...]:
        """The checks that passed or were skipped."""
        return tuple(check for check in self.checks if check.status in {"pass", "skipped"})


def _summarize_checks(checks: Sequence[Check]) -> str:
    found = Counter(check.status for check in checks)
    n_skipped = found.pop("skipped", 0)
    known = [f"{found[status]:,} {text}" for status, text in _COUNTED.items() if status in found]
    text = f"{format_count(found.total(), 'check')}: {', '.join(known) or 'nothing to check'}"
    return f"{text}; {n_skipped:,} skipped" if n_skipped else text


def _counts(verdict: Verdict) -> Iterator[str]:
    """Say which counts decided; nothing if rows did."""
    counts = verdict.counts
    if counts is None:
        return
    shards = format_count(counts.n_shards, "shard")
    yield (
        f"Decided by counts of {shards}, without rows: every AUC is "
        f"exact to {counts.widest:.1g}. `verdict.json` lists the limits of counts."
    )


def _list_groups(checks: Iterable[Check]) -> tuple[str, ...]:
    names = (check.result.group for check in checks)
    return tuple(dict.fromkeys(name for name in names if name is not None))
