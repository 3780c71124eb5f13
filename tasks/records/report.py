"""`report.json`: one candidate on one set."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from bias_metrics.rows import WeightKind
from biasgate.tasks.records.bound import Bound
from biasgate.tasks.records.calibration import Calibration
from biasgate.tasks.records.missing import Missing
from biasgate.tasks.records.numbers import Bias, Cell, Value


class Choices(TypedDict):
    """How the rows of a set were selected and measured, and their number.

    What is not required is there only where the set has it.
    """

    label_threshold: float
    identity_threshold: float
    identity_rows: Literal["rated", "all"]
    background: Literal["outside_subgroup", "no_identity"]
    population: NotRequired[Literal["these_rows"]]
    planned_rows: NotRequired[int]
    prediction_powered: NotRequired[bool]
    n_rows: int
    n_rows_rated: int
    n_rows_measured: int
    n_rows_missing: NotRequired[int]
    confidence: float
    weights: NotRequired[WeightKind]
    n_clusters: int | None


class ReportedChoices(Choices):
    """The same in a report, with the origin of the rows."""

    split: str
    source: dict[str, Any]


class EvaluationSetRecord(TypedDict):
    """The set of a report."""

    name: str
    digest: str
    choices: ReportedChoices


class Model(TypedDict):
    """Name and kind of a model; `model` is its version in the registry."""

    name: str
    kind: str
    model: NotRequired[str]


class ModelRecord(Model):
    """A model, the digest of everything that affects its scores, and the files that do.

    `opened_as` has the options to open a registered version again.
    """

    digest: str
    bound: Bound
    opened_as: NotRequired[dict[str, Any]]


class DiagnosisRecord(TypedDict):
    """The pattern of bias of an identity, and the numbers behind it."""

    pattern: str
    name: str
    sentence: str
    evidence: dict[str, Cell]


class Diagnoses(TypedDict):
    """The patterns of all identities, with the confidence for all of them together."""

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
    """A sum of absolute differences, and its values by chance alone."""

    mean: Value
    quantiles: dict[str, Value]
    n_permutations: int


class CellAccuracy(TypedDict):
    """How many rows of an identity and a label are classified correctly."""

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
    """The errors once a threshold turns scores into decisions."""

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
    """The meaning of a report's numbers."""

    diagnosis: Diagnoses
    thresholds: dict[str, AtThreshold]
    look_first: LookFirst
    calibration: NotRequired[Calibration]


class AnalysisRecord(TypedDict):
    """The findings of a further analysis; each kind has its own result."""

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
    label_agreement: NotRequired[dict[str, Any]]
    missing: NotRequired[Missing]


class Numbers(TypedDict):
    """The numbers of a report."""

    bias: Bias
    thresholds: dict[str, AtThreshold]
    calibration: NotRequired[Calibration]
    missing: NotRequired[Missing]


def error_rates(errors: Errors) -> dict[str, Value]:
    """Return the two error rates by name."""
    return {
        "false_positive_rate": errors["false_positive_rate"],
        "false_negative_rate": errors["false_negative_rate"],
    }
