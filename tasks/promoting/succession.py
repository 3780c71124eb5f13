"""Which passing version replaces the champion, by the policy, and why.

A nightly run without anything new moves nothing: a former champion is never promoted
automatically, nor is a version that passed when another one was chosen. The others are checked
by the policy's `promote`, and the best one by its `objective` is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from bias_metrics.gate import Objective, find_worst_outcome
from biasgate.tasks.check_messages import objective_message, objective_name
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry, RestsOn
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import (
    CandidateDecision,
    Decision,
    LoggedVerdict,
    is_champions_copy,
)
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.wording import exceptions_in_words, reservations_in_words, word_of_verdict

SAME_SCORES = "it has the champion's own scores, since its files and options are the same"
"""Why a version replaces nothing."""


@dataclass(frozen=True)
class Judged:
    """A candidate with its verdicts on the required sets."""

    candidate: str
    verdicts: Sequence[LoggedVerdict]
    """As in `verdict.json`, each with its `run_id`."""
    version: ModelVersion | None
    may_promote: bool = True
    """Whether it may become champion: `promote` of the candidate."""

    @property
    def number(self) -> int:
        """Its version; later ones are larger."""
        return 0 if self.version is None else int(self.version.version)

    @property
    def exceptions(self) -> list[str]:
        """What its pass does not say, and what limits its outcomes."""
        return exceptions_in_words(self.verdicts)

    def because(self, reason: str) -> str:
        """Return the reason of its promotion, with what its pass does not say."""
        return ". ".join([reason, *(line.removesuffix(".") for line in self.exceptions)])

    def named(self, decision: Decision) -> CandidateDecision:
        """Return the decision on it with its name and, after a pass, for which identities."""
        told = CandidateDecision(candidate=self.candidate, **vars(decision))
        outcome = find_worst_outcome([verdict.outcome for verdict in self.verdicts])
        if self.verdicts and not decision.report_only and decision.outcome == outcome:
            word = word_of_verdict(*self.verdicts).text
            return replace(told, word=word, exceptions=self.exceptions)
        return replace(told, exceptions=reservations_in_words(self.verdicts) or None)

    @cached_property
    def objectives(self) -> dict[str, Objective]:
        """The objective on each set, by name."""
        return {verdict.evaluation_set.name: verdict.objective for verdict in self.verdicts}

    @property
    def is_champions_copy(self) -> bool:
        """Whether it is the model that is champion, under another version."""
        return bool(self.verdicts) and all(map(is_champions_copy, self.verdicts))

    @property
    def samples(self) -> dict[str, int | None]:
        """Rows of the sample by set, if random parts of sets were judged; else None."""
        sets = [verdict.evaluation_set for verdict in self.verdicts]
        return {judged.name: judged.sample for judged in sets}

    @property
    def rank(self) -> tuple[float, int]:
        """Mean objective over the sets, then the version; larger is better."""
        values = [objective.value for objective in self.objectives.values()]
        known = [value for value in values if value is not None]
        return (fmean(known) if known and len(known) == len(values) else -math.inf, self.number)

    def preferred(self, other: Judged) -> str:
        """Return why this version is chosen over the other, which may be the champion."""
        name = next(map(objective_name, self.objectives.values()))
        mine, its = (judged.rank[0] for judged in (self, other))
        if mine == its:
            return f"version {self.number} has the same {name} and is newer"
        if math.isinf(its):
            return f"{name} of version {other.number} is undefined"
        return f"its {name} is {mine:.4f}, against {its:.4f} for version {other.number}"

    def compared(self, sets: Sequence[str] = ()) -> str:
        """Return how its objective compares with the champion's, on some sets or all."""
        found = [
            f"{objective_message(one)} on {name}"
            for name, one in self.objectives.items()
            if name in (sets or self.objectives)
        ]
        return ", ".join(found)


@dataclass(frozen=True)
class Past:
    """Earlier promotions, from the ledger."""

    champions: frozenset[int]
    """Current and former champions."""
    passed_over: Mapping[int, int]
    """Versions that passed but were not chosen, each with the version that was."""
    basis: Sequence[RestsOn] = ()
    """The verdicts with which the champion was promoted."""
    rejected: frozenset[int] = frozenset()
    """Versions that a person rejected."""

    @classmethod
    def of(cls, entries: Sequence[Entry], champion: str | None) -> Past:
        """Read the entries that moved the alias; a reset has no `passed_over`."""
        done = [
            entry.content
            for entry in entries
            if entry.state == "done" and entry.content.action in {"promotion", "rollback", "reset"}
        ]
        named = {number for content in done for number in (content.version, content.replaces)} | {
            champion
        }
        passed_over = {
            int(version): int(content.version)
            for content in done
            for version in content.passed_over or ()
        }
        chain = Chain.of(entries)
        basis = () if champion is None else tuple(chain.basis(champion))
        judged = {version for entry in entries for version in entry.content.blocked or ()}
        rejected = frozenset(int(one) for one in judged if chain.is_rejected(one))
        return cls(frozenset(int(one) for one in named if one), passed_over, basis, rejected)


@dataclass(frozen=True)
class Succession:
    """A policy's rule for replacing the champion."""

    promote: str
    allow_first: bool
    """Whether a version may become champion if there is none yet."""
    withheld: str | None = None
    """Why nothing is promoted now, whatever the rule allows."""
    is_first_look: bool = False
    """Whether the command has `--sample`: a champion is not replaced, a first one is promoted."""

    def choose(self, passed: Sequence[Judged], champion: str | None, past: Past) -> Judged | None:
        """Return the best version that passed and may replace the champion, or None."""
        return None if self.promote == "manual" else self.best(passed, champion, past)

    def best(self, passed: Sequence[Judged], champion: str | None, past: Past) -> Judged | None:
        """Return the best version that passed and may replace the champion."""
        if champion is None and not self.allow_first:
            return None
        eligible = [judged for judged in passed if self.objection(judged, champion, past) is None]
        return max(eligible, key=lambda judged: judged.rank, default=None)

    def objection(self, judged: Judged, champion: str | None, past: Past) -> str | None:
        """Return why a version that passed does not replace the champion automatically, or None."""
        return next(self._objections(judged, champion, past), None)

    def _objections(self, judged: Judged, champion: str | None, past: Past) -> Iterator[str]:
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
            yield from self._shortcomings(judged, past)

    def _shortcomings(self, judged: Judged, past: Past) -> Iterator[str]:
        """Yield the conditions of the rule that are not met."""
        if judged.is_champions_copy:
            yield SAME_SCORES
        if self.is_first_look:
            yield "`--sample` is for a first look, which never replaces a champion"
        if smaller := smaller_sample(judged.samples, past.basis):
            yield smaller
        if self.promote == "manual":
            return
        sets = judged.objectives.items()
        if self.promote == "better":
            lacking = [name for name, one in sets if not one.is_higher]
            if lacking:
                yield f"`promote: better`: not significantly higher, {judged.compared(lacking)}"
            return
        latest = max(past.champions)
        if judged.number < latest:
            yield f"`promote: newer`: version {latest}, a current or former champion, is newer"
        worse = [name for name, one in sets if one.is_lower]
        if worse:
            yield f"`promote: newer`: significantly lower, {judged.compared(worse)}"

    def reason(self, judged: Judged, champion: str | None) -> str:
        """Return the rule by which a version replaces the champion."""
        if champion is None:
            return "`allow_first`"
        shown = "significantly higher" if self.promote == "better" else "not significantly lower"
        if any(objective.change is None for objective in judged.objectives.values()):
            shown = "the objective could not be compared"
        return f"`promote: {self.promote}`: {shown}, {judged.compared()}"


def smaller_sample(samples: Mapping[str, int | None], basis: Sequence[RestsOn]) -> str | None:
    """Return why a version that was judged on samples may not replace a champion, or None.

    `samples`: rows of the sample by set; None for a whole set. `basis`: the verdicts with which the
    champion was promoted; a set that it lacks counts as judged whole.
    """
    of_champion = {verdict.set: verdict.sample for verdict in basis}
    for name, sample in samples.items():
        before = of_champion.get(name)
        if sample is not None and (before is None or sample < before):
            whole = "the whole set" if before is None else f"a sample of {before:,}"
            return (
                f"it was judged on a sample of {sample:,} comments of {name}, and the champion on "
                f"{whole}"
            )
    return None


def judged_versions(
    candidates: Sequence[CandidateSettings],
    verdicts: Sequence[Sequence[LoggedVerdict]],
    gateway: Gateway,
) -> list[Judged]:
    """Return the candidates with their versions and their verdicts on the required sets."""
    return [
        Judged(
            one.name,
            [verdict for verdict in of_candidate if verdict.evaluation_set.required],
            gateway.resolve(one.uri) if one.uri else None,
            one.promote,
        )
        for one, of_candidate in zip(candidates, verdicts, strict=True)
    ]


def succession_of(
    policy: Policy, withheld: str | None = None, *, is_first_look: bool = False
) -> Succession:
    """Return a policy's rule for replacing the champion."""
    return Succession(policy.promote, policy.allow_first, withheld, is_first_look)
