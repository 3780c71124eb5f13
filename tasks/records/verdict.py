"""`verdict.json`: the outcome of a policy for one candidate on one set."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from bias_metrics.gate.judging import Outcome
from biasgate.tasks.records.bound import Bound
from biasgate.tasks.records.nights import JudgedNights
from biasgate.tasks.records.report import Model, ModelRecord


class PolicyRecord(TypedDict):
    """The policy that decided."""

    name: str
    digest: str
    report_only: bool


class JudgedSet(TypedDict):
    """The set of a verdict, and whether promotion requires a pass on it."""

    name: str
    digest: str
    required: bool


class Compared(Model):
    """A rival of a candidate; `threshold` is the one that it is used with."""

    threshold: NotRequired[float]


class Rival(Compared):
    """A rival after the comparison, with the digest of its scores' origin and the files behind."""

    digest: str
    bound: Bound


class Code(TypedDict):
    """The code that decided: the version, and a digest of the metric library."""

    version: str
    bias_metrics: str


class Result(TypedDict):
    """The result of one rule for one number and one limit: `RuleResult.to_dict()`."""

    rule: str
    kind: str
    metric: str
    scope: str
    group: str | None
    slice: str | None
    mode: str
    confidence: float
    limit: float
    n_positive: int
    n_negative: int
    outcome: Outcome | Literal["skipped"]
    action: str
    sentence: str
    value: float | None
    rival: float | None
    low: float | None
    high: float | None
    bound: float | None
    n_clusters: int | None
    waived_by: str | None
    threshold: NotRequired[str]
    at: NotRequired[float | None]
    rival_at: NotRequired[float | None]
    judged_in: NotRequired[str]
    blind: NotRequired[float]
    not_measured: NotRequired[str]
    not_excluded: NotRequired[float]
    visible: NotRequired[float]
    rows_needed: NotRequired[dict[str, int]]
    instead_of: NotRequired[list[str]]


class ExceptionRecord(TypedDict):
    """What a pass does not say: `PassException`; `group` is null if it is about no single one."""

    group: str | None
    why: str
    n_checks: int
    sentence: str
    reason: str | None


class HoldsFor(TypedDict):
    """The identities of which each check passed on their own rows, and how many there are."""

    identities: list[str]
    of: int


class BoundsRecord(TypedDict):
    """How many bounds were looked at, apart and jointly, and how many are wrong on average."""

    separately: int
    expected_wrong: float
    jointly: int
    sentence: str


class ObjectiveRecord(TypedDict):
    """The candidate's objective beside the champion's: `Objective.to_dict()`."""

    metric: str
    confidence: float
    value: float | None
    rival: float | None
    change: float | None
    low: float | None
    high: float | None
    reason: str | None


class Worsened(TypedDict):
    """A number that is shown to be worse than the champion's: `bias_metrics.report.Loss`."""

    metric: str
    group: str
    first: float
    second: float
    worse_by: float
    worse_by_at_least: float
    low: float
    high: float
    threshold: NotRequired[str]
    without: list[str]


class Head(TypedDict):
    """The last entry of a ledger: its number and its digest."""

    number: int
    digest: str


class RegisteredPolicy(TypedDict):
    """When the policy of a verdict was registered.

    `entry` is that of the ledger; `before_scores` says whether the scores were made later, null if
    it is unknown when they were made.
    """

    entry: int
    at: str
    before_scores: bool | None


class AlphaShare(TypedDict):
    """Which share of a year's alpha a decision has, and what the ledger counted it for.

    `number` is that of the decision in its calendar year, `planned` the decisions that the policy
    plans (null where it bounds the share of wrong promotions). `entry` is that of the ledger which
    spent it on `subject`, a digest of version, policy and `compared`: for each required set its
    rows, and the scores of candidate, champion and reference.
    """

    bounds: str
    year: int
    number: int
    planned: int | None
    share: float
    entry: int
    subject: str
    compared: dict[str, list[str | None]]


class OnlineRecord(AlphaShare):
    """The share with which a verdict was decided, and its level: the share of the policy's alpha.

    `level` is that of rules with the policy's confidence; others have the same share of their own.
    """

    level: float


class Context(TypedDict):
    """What a verdict says of the evaluation and of the model's ledger."""

    required_sets: list[str]
    ledger: Head | None
    registered_policy: RegisteredPolicy | None
    online: NotRequired[AlphaShare]


class Verdict(TypedDict):
    """`verdict.json`: the outcome of a policy for one candidate on one set .

    `holds_for` says for whom a pass is proven, `exceptions` what it does not say.
    `required_sets` are all sets of the evaluation on which promotion requires a pass; `ledger` is
    the head of the model's ledger when it was judged, and `registered_policy` what the ledger says
    of the policy; both null without a registered model. `nights` is there if the set pools nights,
    `online` if the decision spent a share of a year's alpha.
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
    outcome: Outcome
    holds_for: HoldsFor
    exceptions: list[ExceptionRecord]
    bounds: BoundsRecord
    results: list[Result]
    objective: ObjectiveRecord
    worsened: list[Worsened]
    required_sets: list[str]
    ledger: Head | None
    registered_policy: RegisteredPolicy | None
    nights: NotRequired[JudgedNights]
    online: NotRequired[OnlineRecord]


class LoggedVerdict(Verdict):
    """A verdict, and the MLflow run that it is logged in."""

    run_id: str


def champion_of(verdict: Verdict) -> str | None:
    """Return the champion's version in a verdict; None without a registered champion."""
    champion = verdict["champion"]
    return None if champion is None else champion.get("model")
