"""The files that the pipeline writes: `report.json`, `verdict.json` and `summary.json`.

Steps hand these records to each other as they will be written, so that a wrong key is found
when types are checked. A test holds the types against real files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict  # Pydantic reads that of `typing` from Python 3.12 on

from bias_metrics import BiasReport
from bias_metrics.gate.judging import Outcome

# ------------------------------------------------------------------ numbers


class Value(TypedDict):
    """A number; None with the reason why it is undefined."""

    value: float | None
    reason: NotRequired[str]


class Cell(Value):
    """A number with its uncertainty, as `MetricValue.to_dict(interval=True)` gives it."""

    std_error: float | None
    low: float | None
    high: float | None
    row_std_error: NotRequired[float]
    n_clusters: NotRequired[int]


class Subgroup(TypedDict):
    """Counts and the five metrics of one identity."""

    n: int
    n_positive: int
    n_negative: int
    subgroup_auc: Cell
    bpsn_auc: Cell
    bnsp_auc: Cell
    positive_aeg: Cell
    negative_aeg: Cell


class Overall(TypedDict):
    """What is measured over all rows."""

    n: int
    n_positive: int
    auc: Cell


class PowerMean(TypedDict):
    """The power means over the identities in `groups`."""

    power: float
    groups: list[str]
    subgroup_auc: Cell
    bpsn_auc: Cell
    bnsp_auc: Cell


class Worst(Cell):
    """The identity that is treated worst by one metric."""

    metric: str
    subgroup: str | None
    n_positive: int | None
    n_negative: int | None
    tied: list[str]
    undefined: dict[str, str]


class Bias(TypedDict):
    """`BiasReport.to_dict()`."""

    background: str
    overall: Overall
    subgroups: dict[str, Subgroup]
    power_mean: PowerMean
    final_score: Cell
    worst: dict[str, Worst]


def bias_record(bias: BiasReport) -> Bias:
    """Return a report of the library as a record."""
    return cast("Bias", bias.to_dict())


def metric_cells(measured: Subgroup | PowerMean) -> Mapping[str, Cell]:
    """Return the numbers of an identity, or the power means, by the name of their metric.

    Other keys hold counts, and are not to be read here.
    """
    return cast("Mapping[str, Cell]", measured)


# ------------------------------------------------------------------ report.json


class Choices(TypedDict):
    """How the rows of a set were chosen and measured, and how many there are."""

    label_threshold: float
    identity_threshold: float
    identity_rows: Literal["rated", "all"]
    background: Literal["outside_subgroup", "no_identity"]
    n_rows: int
    n_rows_rated: int
    n_rows_measured: int
    confidence: NotRequired[float]
    n_clusters: NotRequired[int | None]
    split: NotRequired[str]
    source: NotRequired[dict[str, Any]]


class EvaluationSetRecord(TypedDict):
    """The set of a report."""

    name: str
    digest: str
    choices: Choices


class Model(TypedDict):
    """What a model is called; `model` is its version in the registry."""

    name: str
    kind: str
    model: NotRequired[str]


class ModelRecord(Model):
    """A model, and the digest of all that decides its scores."""

    digest: str


class DiagnosisRecord(TypedDict):
    """Which pattern of bias an identity shows, and the numbers that decided."""

    pattern: str
    name: str
    sentence: str
    evidence: dict[str, Cell]


class Diagnoses(TypedDict):
    """The patterns of all identities, with the confidence that holds for them together."""

    confidence: float
    rows_taken_as_independent: bool
    subgroups: dict[str, DiagnosisRecord]


class Errors(TypedDict):
    """Counts and rates of decisions at a threshold."""

    threshold: float
    n_true_positive: int
    n_false_positive: int
    n_true_negative: int
    n_false_negative: int
    false_positive_rate: Value
    false_negative_rate: Value
    precision: Value
    recall: Value
    accuracy: Value


class BesideChance(Value):
    """A sum of absolute differences, and what chance alone makes of it."""

    mean: Value
    quantiles: dict[str, Value]
    n_permutations: int


class CellAccuracy(TypedDict):
    """How many rows of an identity and a label are decided rightly."""

    subgroup: str
    label: bool
    n: int
    n_correct: int
    accuracy: Value


class WorstAccuracy(Value):
    """The identity and label with the lowest accuracy."""

    threshold: float
    worst: list[CellAccuracy]
    undefined: list[CellAccuracy]


class AtThreshold(TypedDict):
    """What happens once a threshold turns scores into decisions."""

    threshold: float
    overall: Errors
    subgroups: dict[str, Errors]
    groups: list[str]
    fped: BesideChance
    fned: BesideChance
    worst_group_accuracy: WorstAccuracy
    seed: int
    gaps: dict[str, dict[str, Cell]]
    equal_error_rate: NotRequired[Value]


class LookFirst(TypedDict):
    """The identity to look at first."""

    subgroup: str | None
    metric: str | None
    sentence: str


class Explained(TypedDict):
    """What the numbers of a report mean."""

    diagnosis: Diagnoses
    thresholds: dict[str, AtThreshold]
    look_first: LookFirst


class AnalysisRecord(TypedDict):
    """What a further analysis found; each kind has a result of its own."""

    options: dict[str, Any]
    sentences: list[str]
    result: dict[str, Any]


class Report(Explained):
    """`report.json`: one candidate on one set."""

    schema_version: int
    evaluation_set: EvaluationSetRecord
    candidate: ModelRecord
    bias: Bias
    warnings: list[str]
    analyses: NotRequired[dict[str, AnalysisRecord]]


class Numbers(TypedDict):
    """The numbers of a report."""

    bias: Bias
    thresholds: dict[str, AtThreshold]


def error_rates(errors: Errors) -> dict[str, Value]:
    """Return the two rates of errors by their names."""
    return {
        "false_positive_rate": errors["false_positive_rate"],
        "false_negative_rate": errors["false_negative_rate"],
    }


# ------------------------------------------------------------------ verdict.json


class PolicyRecord(TypedDict):
    """The policy that decided."""

    name: str
    digest: str
    report_only: bool


class JudgedSet(TypedDict):
    """The set of a verdict, and whether a pass on it is needed for promotion."""

    name: str
    digest: str
    required: bool


class Compared(Model):
    """Whom a candidate is compared with; `threshold` is the one it is used with."""

    threshold: NotRequired[float]


class Rival(Compared):
    """Whom a candidate was compared with, and the digest of its scores' origin."""

    digest: str


class Code(TypedDict):
    """What code decided: the version, and a digest of the metric library."""

    version: str
    bias_metrics: str


class Result(TypedDict):
    """What one rule says about one number and one limit: `RuleResult.to_dict()`."""

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
    """A number that is shown to be worse than the champion's."""

    metric: str
    group: str
    first: float
    second: float
    worse_by: float
    worse_by_at_least: float


class Verdict(TypedDict):
    """`verdict.json`: what a policy says of one candidate on one set (schema 3)."""

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
    results: list[Result]
    objective: ObjectiveRecord
    worsened: list[Worsened]
    signature: NotRequired[str]


class LoggedVerdict(Verdict):
    """A verdict, and the MLflow run that it is logged in."""

    run_id: str


def champion_of(verdict: Verdict) -> str | None:
    """Return the version that a verdict compares with; None without a registered champion."""
    champion = verdict["champion"]
    return None if champion is None else champion.get("model")


# ------------------------------------------------------------------ summary.json


class Decision(TypedDict):
    """What became of a version.

    `rule` says which rule decided about one that passed; `champion_moved` that it was compared
    with what is no longer champion, and must be judged again.
    """

    outcome: Outcome
    promoted: bool
    champion_moved: bool
    rule: str | None
    report_only: bool
    sentence: str


class CandidateDecision(Decision):
    """What became of a candidate of an evaluation."""

    candidate: str


class Summary(TypedDict):
    """`summary.json`: how an evaluation ended."""

    evaluation: str
    outcome: Outcome
    outcome_of: list[str]
    report_only: bool
    run_id: str
    verdicts: list[LoggedVerdict]
    decisions: list[CandidateDecision]
    sentences: list[str]


class NightSummary(Summary):
    """The summary of a scheduled run, and the folder of its results."""

    output: str


@dataclass(frozen=True)
class Decided:
    """How an evaluation ended for its candidates.

    Attributes
    ----------
    verdicts : list of LoggedVerdict
        One for each candidate and set.
    decisions : list of CandidateDecision
        What became of each candidate.
    """

    verdicts: list[LoggedVerdict]
    decisions: list[CandidateDecision]
