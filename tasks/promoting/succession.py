"""Succession: the choice of the passing version that replaces the champion, by the policy.

A former champion is never promoted automatically. The same holds for a version that passed when
another version was chosen. So a nightly run without new versions does not move the alias. The
policy's `promote` selects among the remaining versions, and the best by its `objective` is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from bias_metrics.gate import Objective, find_worst_outcome
from biasgate.tasks.check_messages import describe_objective, name_objective
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry, VerdictReference
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import (
    CandidateDecision,
    Decision,
    LoggedVerdict,
    is_champions_copy,
)
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.wording import get_verdict_words, list_exception_lines, list_reservation_lines

SAME_SCORES = "it has the champion's own scores, since its files and options are the same"
"""Reason not to replace the champion with a copy of itself."""


@dataclass(frozen=True)
class JudgedCandidate:
    """A candidate with its verdicts on the required sets."""

    candidate: str
    verdicts: Sequence[LoggedVerdict]
    """The verdicts in `verdict.json`, with their `run_id`."""
    version: ModelVersion | None
    may_promote: bool = True
    """False if the evaluation file has `promote: false` for the candidate."""

    @property
    def number(self) -> int:
        """The version number; later versions are larger; 0 without a version."""
        return 0 if self.version is None else int(self.version.version)

    @property
    def exceptions(self) -> list[str]:
        """Exceptions and reservations of the verdicts, in words."""
        return list_exception_lines(self.verdicts)

    def extend_reason(self, reason: str) -> str:
        """Return the reason of a promotion with the exceptions of the verdicts."""
        return ". ".join([reason, *(line.removesuffix(".") for line in self.exceptions)])

    def complete_decision(self, decision: Decision) -> CandidateDecision:
        """Return a decision with the candidate's name, verdict in words, and exceptions."""
        completed = CandidateDecision(candidate=self.candidate, **vars(decision))
        outcome = find_worst_outcome([verdict.outcome for verdict in self.verdicts])
        if self.verdicts and not decision.report_only and decision.outcome == outcome:
            word = get_verdict_words(*self.verdicts).text
            return replace(completed, word=word, exceptions=self.exceptions)
        return replace(completed, exceptions=list_reservation_lines(self.verdicts) or None)

    @cached_property
    def objectives(self) -> dict[str, Objective]:
        """Objectives by set name."""
        return {verdict.evaluation_set.name: verdict.objective for verdict in self.verdicts}

    @property
    def is_champions_copy(self) -> bool:
        """True if the candidate is the champion's model under another version."""
        return bool(self.verdicts) and all(map(is_champions_copy, self.verdicts))

    @property
    def samples(self) -> dict[str, int | None]:
        """Sample sizes by set; None for a set that was judged completely."""
        sets = [verdict.evaluation_set for verdict in self.verdicts]
        return {judged.name: judged.sample for judged in sets}

    @property
    def rank(self) -> tuple[float, int]:
        """The mean objective over the sets, then the version number; larger is better."""
        values = [objective.value for objective in self.objectives.values()]
        defined = [value for value in values if value is not None]
        return (
            fmean(defined) if defined and len(defined) == len(values) else -math.inf,
            self.number,
        )

    def explain_preference(self, other: JudgedCandidate) -> str:
        """Return why this version is preferred to another version, possibly the champion."""
        name = next(map(name_objective, self.objectives.values()))
        own_value, other_value = (judged.rank[0] for judged in (self, other))
        if own_value == other_value:
            return f"version {self.number} has the same {name} and is newer"
        if math.isinf(other_value):
            return f"{name} of version {other.number} is undefined"
        return (
            f"its {name} is {own_value:.4f}, against {other_value:.4f} for version {other.number}"
        )

    def describe_comparison(self, sets: Sequence[str] = ()) -> str:
        """Describe the comparison of objectives with the champion on `sets`; default: all sets."""
        comparisons = [
            f"{describe_objective(objective)} on {name}"
            for name, objective in self.objectives.items()
            if name in (sets or self.objectives)
        ]
        return ", ".join(comparisons)


@dataclass(frozen=True)
class PromotionHistory:
    """Earlier promotions, from the ledger."""

    champions: frozenset[int]
    """Current and former champions."""
    passed_over: Mapping[int, int]
    """Versions that passed without being chosen, with the chosen version."""
    basis: Sequence[VerdictReference] = ()
    """The verdicts behind the champion's promotion."""
    rejected: frozenset[int] = frozenset()
    """Versions that a person rejected."""

    @classmethod
    def from_entries(cls, entries: Sequence[Entry], champion: str | None) -> PromotionHistory:
        """Collect earlier promotions from the entries of a ledger."""
        moves = [
            entry.content
            for entry in entries
            if entry.state == "done" and entry.content.action in {"promotion", "rollback", "reset"}
        ]
        champions = {
            number for content in moves for number in (content.version, content.replaces)
        } | {champion}
        passed_over = {
            int(version): int(content.version)
            for content in moves
            for version in content.passed_over or ()
        }
        chain = Chain.from_entries(entries)
        basis = () if champion is None else tuple(chain.find_basis(champion))
        blocked = {version for entry in entries for version in entry.content.blocked or ()}
        rejected = frozenset(int(version) for version in blocked if chain.is_rejected(version))
        return cls(
            frozenset(int(version) for version in champions if version),
            passed_over,
            basis,
            rejected,
        )


@dataclass(frozen=True)
class SuccessionRule:
    """A policy's rule for replacing the champion."""

    promote: str
    allow_first: bool
    """True if a version may become champion of a model without a champion."""
    withheld: str | None = None
    """The reason not to promote any version now."""
    is_first_look: bool = False
    """True if the command has `--sample`: only a model without a champion gets a champion."""

    def choose(
        self, passed: Sequence[JudgedCandidate], champion: str | None, past: PromotionHistory
    ) -> JudgedCandidate | None:
        """Return the version to promote automatically, or None."""
        return None if self.promote == "manual" else self.find_best(passed, champion, past)

    def find_best(
        self, passed: Sequence[JudgedCandidate], champion: str | None, past: PromotionHistory
    ) -> JudgedCandidate | None:
        """Return the best version that passed and may replace the champion, or None."""
        if champion is None and not self.allow_first:
            return None
        eligible = [
            judged for judged in passed if self.find_objection(judged, champion, past) is None
        ]
        return max(eligible, key=lambda judged: judged.rank, default=None)

    def find_objection(
        self, judged: JudgedCandidate, champion: str | None, past: PromotionHistory
    ) -> str | None:
        """Return why a passed version may not replace the champion; None if it may."""
        return next(self._list_objections(judged, champion, past), None)

    def _list_objections(
        self, judged: JudgedCandidate, champion: str | None, past: PromotionHistory
    ) -> Iterator[str]:
        version = f"version {judged.number}"
        if self.promote == "never":
            yield "the policy has `promote: never`"
        if not judged.may_promote:
            yield "the evaluation file has `promote: false` for it"
        if self.withheld is not None:
            yield self.withheld
        if judged.number in past.champions:
            yield f"{version} was champion before, and is not promoted automatically again"
        if judged.number in past.passed_over:
            chosen = past.passed_over[judged.number]
            yield f"{version} passed before, and version {chosen} was promoted instead"
        if judged.number in past.rejected:
            yield f"{version} was rejected by a person"
        if champion is not None:
            yield from self._list_shortcomings(judged, past)

    def _list_shortcomings(self, judged: JudgedCandidate, past: PromotionHistory) -> Iterator[str]:
        """Yield the unmet conditions for replacing an existing champion."""
        if judged.is_champions_copy:
            yield SAME_SCORES
        if self.is_first_look:
            yield "`--sample` is for a first look, which never replaces a champion"
        if smaller := find_smaller_sample(judged.samples, past.basis):
            yield smaller
        if self.promote == "manual":
            return
        sets = judged.objectives.items()
        if self.promote == "better":
            lacking = [name for name, objective in sets if not objective.is_higher]
            if lacking:
                comparison = judged.describe_comparison(lacking)
                yield f"`promote: better`: not significantly higher, {comparison}"
            return
        latest = max(past.champions)
        if judged.number < latest:
            yield f"`promote: newer`: version {latest}, a current or former champion, is newer"
        worse = [name for name, objective in sets if objective.is_lower]
        if worse:
            yield f"`promote: newer`: significantly lower, {judged.describe_comparison(worse)}"

    def describe_rule(self, judged: JudgedCandidate, champion: str | None) -> str:
        """Return the rule that lets a version replace the champion, in words."""
        if champion is None:
            return "`allow_first`"
        result = "significantly higher" if self.promote == "better" else "not significantly lower"
        if any(objective.change is None for objective in judged.objectives.values()):
            result = "the objective could not be compared"
        return f"`promote: {self.promote}`: {result}, {judged.describe_comparison()}"


def find_smaller_sample(
    samples: Mapping[str, int | None], basis: Sequence[VerdictReference]
) -> str | None:
    """Return the first set whose sample is smaller than the champion's, in words, or None.

    `samples`: sample sizes by set; None for a complete set. `basis`: the verdicts behind the
    champion's promotion. A set that it lacks counts as judged completely.
    """
    champion_samples = {verdict.set: verdict.sample for verdict in basis}
    for name, sample in samples.items():
        before = champion_samples.get(name)
        if sample is not None and (before is None or sample < before):
            champion_rows = "the whole set" if before is None else f"a sample of {before:,}"
            return (
                f"it was judged on a sample of {sample:,} comments of {name}, and the champion on "
                f"{champion_rows}"
            )
    return None


def collect_judged(
    candidates: Sequence[CandidateSettings],
    verdicts: Sequence[Sequence[LoggedVerdict]],
    gateway: Gateway,
) -> list[JudgedCandidate]:
    """Return candidates with their versions and their verdicts on the required sets."""
    return [
        JudgedCandidate(
            candidate.name,
            [verdict for verdict in candidate_verdicts if verdict.evaluation_set.required],
            gateway.resolve(candidate.uri) if candidate.uri else None,
            candidate.promote,
        )
        for candidate, candidate_verdicts in zip(candidates, verdicts, strict=True)
    ]


def build_succession(
    policy: Policy, withheld: str | None = None, *, is_first_look: bool = False
) -> SuccessionRule:
    """Return a policy's rule for replacing the champion."""
    return SuccessionRule(policy.promote, policy.allow_first, withheld, is_first_look)
