"""`verdict.json`: the outcome of a policy for one candidate on one set."""

from __future__ import annotations

from dataclasses import dataclass

from bias_metrics.gate import BoundCounts, Loss, Objective, Outcome, PassException, RuleResult
from bias_metrics.thresholds import CountedShare
from biasgate.tasks.records.bound import Bound
from biasgate.tasks.records.record import Record
from biasgate.tasks.records.report import Model, ModelRecord


@dataclass(frozen=True, kw_only=True)
class PolicyRecord(Record):
    """The policy that decided."""

    name: str
    digest: str
    report_only: bool


@dataclass(frozen=True, kw_only=True)
class JudgedSet(Record):
    """The set of a verdict, and whether promotion requires a pass on it.

    `sample` is the number of its rows if they are a random part of a larger set.
    """

    name: str
    digest: str
    required: bool
    sample: int | None = None


@dataclass(frozen=True, kw_only=True)
class Compared(Model):
    """A rival of a candidate; `threshold` is the one that it is used with."""

    threshold: float | None = None


@dataclass(frozen=True, kw_only=True)
class Rival(Compared):
    """A rival after the comparison, with the digest of its scores' origin and the files behind."""

    digest: str
    bound: Bound


@dataclass(frozen=True, kw_only=True)
class Code(Record):
    """The code that decided: the version, and a digest of the metric library."""

    version: str
    bias_metrics: str


@dataclass(frozen=True, kw_only=True)
class HoldsFor(Record):
    """The identities of which each check passed on their own rows, and how many there are."""

    identities: list[str]
    of: int


@dataclass(frozen=True, kw_only=True)
class Head(Record):
    """The last entry of a ledger: its number and its digest."""

    number: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class RegisteredPolicy(Record):
    """When the policy of a verdict was registered.

    `entry` is that of the ledger; `before_scores` says whether the scores were made later, null if
    it is unknown when they were made, or it was in the same second.
    """

    entry: int
    at: str
    before_scores: bool | None


@dataclass(frozen=True, kw_only=True)
class Context(Record):
    """What a verdict says of the evaluation and of the model's ledger."""

    required_sets: list[str]
    ledger: Head | None
    registered_policy: RegisteredPolicy | None


@dataclass(frozen=True, kw_only=True)
class RestsOnCounts(Record):
    """What a verdict without rows rests on, and what its counts do not tell.

    `widest` is how far apart two numbers are at most between which an exact AUC or AEG lies.
    """

    n_shards: int
    bits: int
    widest: float
    not_told: list[str]


@dataclass(frozen=True, kw_only=True)
class Findings(Record):
    """The results of a policy's rules, and what limits them.

    `holds_for` names the identities for whom a pass is proven, `exceptions` what it does not cover,
    and `reservations` what limits any outcome. `changed` exists if candidate and champion have
    thresholds: by identity, how many harmless comments are newly flagged and how many toxic ones
    newly missed. `holds_until` exists if a pass needs an entry of `not_measured`: the last day of
    the first such entry.
    """

    outcome: Outcome
    holds_for: HoldsFor
    exceptions: list[PassException]
    reservations: list[str]
    bounds: BoundCounts
    results: list[RuleResult]
    objective: Objective
    worsened: list[Loss]
    changed: dict[str, dict[str, CountedShare]] | None = None
    holds_until: str | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict(Findings):
    """`verdict.json`: the outcome of a policy for one candidate on one set.

    `required_sets` are all sets of the evaluation on which promotion requires a pass; `ledger` is
    the head of the model's ledger when it was judged, and `registered_policy` what the ledger says
    of the policy; both null without a registered model. `counts` exists if there are counts of
    scores in place of rows.
    """

    schema_version: int
    policy: PolicyRecord
    evaluation_set: JudgedSet
    candidate: ModelRecord
    champion: Rival | None
    reference: Rival | None
    n_candidates: int
    report_digest: str
    evidence_digest: str
    code: Code
    decided_on: str
    required_sets: list[str]
    ledger: Head | None
    registered_policy: RegisteredPolicy | None
    counts: RestsOnCounts | None = None


@dataclass(frozen=True, kw_only=True)
class LoggedVerdict(Verdict):
    """A verdict, and the MLflow run that it is logged in."""

    run_id: str

    @classmethod
    def logged(cls, verdict: Verdict, run_id: str) -> LoggedVerdict:
        """Return a verdict with its run."""
        return cls(**vars(verdict) | {"run_id": run_id})


def champion_of(verdict: Verdict) -> str | None:
    """Return the champion's version in a verdict; None without a registered champion."""
    return None if verdict.champion is None else verdict.champion.model


def is_champions_copy(verdict: Verdict) -> bool:
    """Return whether a candidate has the scores of the champion's files, but is not its version."""
    champion, candidate = verdict.champion, verdict.candidate
    if champion is None or champion.digest != candidate.digest:
        return False
    return candidate.model is None or champion.model != candidate.model
