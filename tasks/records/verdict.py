"""`verdict.json`: the outcome of a policy for a candidate on a set."""

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
    """The set of a verdict; `required` if promotion requires a pass on it.

    `sample` is the number of rows if they are a random sample of a larger set.
    """

    name: str
    digest: str
    required: bool
    sample: int | None = None


@dataclass(frozen=True, kw_only=True)
class Compared(Model):
    """A rival of a candidate, with the threshold that it is used with."""

    threshold: float | None = None


@dataclass(frozen=True, kw_only=True)
class Rival(Compared):
    """A rival after the comparison, with the digest of its scores' origin and the bound files."""

    digest: str
    bound: Bound


@dataclass(frozen=True, kw_only=True)
class Code(Record):
    """The code that decided: the version, and a digest of the metric library."""

    version: str
    bias_metrics: str


@dataclass(frozen=True, kw_only=True)
class HoldsFor(Record):
    """The identities that passed every check on their own rows, and the number of identities."""

    identities: list[str]
    of: int


@dataclass(frozen=True, kw_only=True)
class Head(Record):
    """The last entry of a ledger: its number and its digest."""

    number: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class RegisteredPolicy(Record):
    """The registration of a verdict's policy in the ledger.

    `entry` is the number of the ledger's entry. `before_scores` is true if the policy was
    registered before the scores were computed; null if their time is unknown, or in the same
    second.
    """

    entry: int
    at: str
    before_scores: bool | None


@dataclass(frozen=True, kw_only=True)
class Context(Record):
    """The part of a verdict about the evaluation and the model's ledger."""

    required_sets: list[str]
    ledger: Head | None
    registered_policy: RegisteredPolicy | None


@dataclass(frozen=True, kw_only=True)
class CountBasis(Record):
    """The counts that replace rows as the basis of a verdict, with their limitations.

    `widest` is the width of the widest interval that brackets an exact AUC or AEG. `not_told` lists
    the limitations.
    """

    n_shards: int
    bits: int
    widest: float
    not_told: list[str]


@dataclass(frozen=True, kw_only=True)
class VerdictFindings(Record):
    """The results of a policy's rules, and their limitations.

    `holds_for` names the identities that a pass applies to, and `exceptions` the limitations of a
    pass. `reservations` are limitations of any outcome. If candidate and champion have thresholds,
    `changed` has the numbers of newly flagged harmless comments and of newly missed toxic comments,
    by identity. If a pass needs entries of `not_measured`, `holds_until` is the earliest last day
    of these entries.
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
class Verdict(VerdictFindings):
    """`verdict.json`: the outcome of a policy for a candidate on a set.

    `required_sets` are all sets of the evaluation on which promotion requires a pass. `ledger` is
    the head of the model's ledger at the time of the verdict, and `registered_policy` the
    registration of the policy; both are null without a registered model. `counts` is present if the
    evidence has counts of scores instead of rows.
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
    counts: CountBasis | None = None


@dataclass(frozen=True, kw_only=True)
class LoggedVerdict(Verdict):
    """A verdict with the MLflow run that it is logged in."""

    run_id: str

    @classmethod
    def from_verdict(cls, verdict: Verdict, run_id: str) -> LoggedVerdict:
        """Return a verdict with its run."""
        return cls(**vars(verdict) | {"run_id": run_id})


def get_champion_uri(verdict: Verdict) -> str | None:
    """Return the champion's version in a verdict; None without a registered champion."""
    return None if verdict.champion is None else verdict.champion.model


def is_champions_copy(verdict: Verdict) -> bool:
    """Return True if a candidate is a copy of the champion: equal scores, but another version."""
    champion, candidate = verdict.champion, verdict.candidate
    if champion is None or champion.digest != candidate.digest:
        return False
    return candidate.model is None or champion.model != candidate.model
