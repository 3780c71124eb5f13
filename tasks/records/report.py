"""`report.json`, the results of a candidate on a set, and `details.json`, the data of its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pydantic import JsonValue

from bias_metrics.extremes import SubgroupSpread
from bias_metrics.metrics import Rate, list_threshold_metrics
from bias_metrics.rows import WeightKind
from bias_metrics.thresholds import ErrorsByTerm
from biasgate.tasks.records.bound import Bound
from biasgate.tasks.records.calibration import CalibrationRecord
from biasgate.tasks.records.marked import MarkedComments
from biasgate.tasks.records.numbers import ReadTable, Value
from biasgate.tasks.records.record import Record


def _label(words: str, **values: str) -> dict[str, str]:
    """Return field metadata with the words of a choice and of its values, for pages."""
    return {"words": words, **values}


@dataclass(frozen=True, kw_only=True)
class Choices(Record):
    """Options for the selection and measurement of a set's rows, and the numbers of rows.

    Optional fields are present only if they apply to the set.
    """

    label_threshold: float = field(metadata=_label("a comment is toxic if its label is at least"))
    identity_threshold: float = field(
        metadata=_label("it mentions an identity if the fraction is at least")
    )
    identity_rows: Literal["rated", "all"] = field(
        metadata=_label(
            "comments that were not rated for every identity",
            rated="are left out",
            all="are measured; no rating counts as no mention",
        )
    )
    background: Literal["outside_subgroup", "no_identity"] = field(
        metadata=_label(
            "an identity is compared with",
            outside_subgroup="all comments that do not mention it",
            no_identity="comments that mention no identity",
        )
    )
    population: Literal["these_rows"] | None = field(
        default=None,
        metadata=_label("the verdict is about", these_rows="exactly these phrases"),
    )
    n_rows: int = field(metadata=_label("comments of the set"))
    sampled_from: int | None = field(
        default=None,
        metadata=_label("comments of the whole set, of which these are a random part"),
    )
    n_rows_unlabelled: int | None = field(
        default=None, metadata=_label("rows without a label, which were left out")
    )
    n_rows_rated: int = field(metadata=_label("comments that were rated for every identity"))
    n_rows_measured: int = field(metadata=_label("comments that were measured"))
    n_rows_missing: int | None = None
    n_rows_truncated: int | None = None
    """Rows whose text the model truncated; None if it is unknown."""
    n_rows_labelled: int | None = None
    """Number of labelled rows, including unrated rows; None if all are rated."""
    confidence: float = field(metadata=_label("confidence of each interval"))
    weights: WeightKind | None = field(
        default=None,
        metadata=_label(
            "meaning of the weights",
            probability="sampling weights",
            frequency="how many comments a row stands for",
        ),
    )
    n_clusters: int | None = field(metadata=_label("clusters of comments that are not independent"))
    n_copies: int | None = field(
        default=None, metadata=_label("comments whose text is that of another, too")
    )

    @property
    def sample(self) -> int | None:
        """Number of rows, if they are a random part of a larger set."""
        return None if self.sampled_from is None else self.n_rows

    def describe_choices(self) -> Iterator[tuple[str, str]]:
        """Yield a description and the value of each choice, in words."""
        for choice in fields(self):
            value = getattr(self, choice.name)
            if value is not None and "words" in choice.metadata:
                value = len(value) if isinstance(value, list) else value
                text = f"{value:,}" if isinstance(value, int) else str(value)
                yield choice.metadata["words"], choice.metadata.get(text, text)


@dataclass(frozen=True, kw_only=True)
class ReportedChoices(Choices):
    """Choices in a report, with the origin of the rows."""

    split: str = field(metadata=_label("part of the comments"))
    source: dict[str, Any]
    in_no_slice: dict[str, int] | None = None
    """Number of comments without a value, by column of slices."""

    @property
    def left_out(self) -> str | None:
        """Number of measured rows, and reasons for the others; None if all are measured."""
        n_left_out = self.n_rows - self.n_rows_measured - (self.n_rows_missing or 0)
        if n_left_out == 0:
            return None
        reasons = []
        if self.n_rows_rated < self.n_rows and self.identity_rows == "rated":
            is_civil_comments = self.source.get("source") == "civil_comments"
            reasons.append(
                "were not shown to identity raters"
                if is_civil_comments
                else "lack a value of some identity"
            )
        if self.weights is not None:
            reasons.append("have weight 0")
        share = n_left_out / self.n_rows
        percent = "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"
        n_measured = self.n_rows - n_left_out
        return f"{n_measured:,} of {self.n_rows:,} rows: {percent} {' or '.join(reasons)}"


@dataclass(frozen=True, kw_only=True)
class EvaluationSetRecord(Record):
    """The set of a report."""

    name: str
    digest: str
    choices: ReportedChoices


@dataclass(frozen=True, kw_only=True)
class Model(Record):
    """Name and kind of a model; `model` is its version in the registry."""

    name: str
    kind: str
    model: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelRecord(Model):
    """A model with the digest of everything that affects its scores, and the bound files.

    `opened_as` has the options to load a registered version again.
    """

    digest: str
    bound: Bound
    opened_as: dict[str, JsonValue] | None = None


@dataclass(frozen=True, kw_only=True)
class TrainedOn(Record):
    """Numbers of training comments in the set, matched by id and text (rows), or by text."""

    n_rows: int
    n_texts: int


@dataclass(frozen=True, kw_only=True)
class Errors(Record):
    """Confusion counts and error rates at a threshold."""

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


@dataclass(frozen=True, kw_only=True)
class AtThreshold(Record):
    """The errors of decisions at a threshold."""

    threshold: float
    overall: Errors
    subgroups: dict[str, Errors]
    groups: list[str]
    fped: Value
    fned: Value
    equal_error_rate: Value | None = None


@dataclass(frozen=True, kw_only=True)
class LookFirst(Record):
    """The identity with the most serious result, to examine first."""

    subgroup: str | None
    metric: str | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Explained(Record):
    """A table of numbers, and their meaning."""

    bias: ReadTable
    harms: dict[str, str]
    """The metric of the lowest AUC, for each identity with a significantly low AUC."""
    thresholds: dict[str, AtThreshold]
    look_first: LookFirst
    calibration: CalibrationRecord | None = None
    spread: dict[str, SubgroupSpread] | None = None
    terms: ErrorsByTerm | None = None


@dataclass(frozen=True, kw_only=True)
class AnalysisRecord(Record):
    """The findings of an optional analysis; each kind has its own form of `result`."""

    options: dict[str, Any]
    sentences: list[str]
    result: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Report(Explained):
    """`report.json`: the results of a candidate on a set."""

    schema_version: int
    evaluation_set: EvaluationSetRecord
    candidate: ModelRecord
    warnings: list[str]
    analyses: dict[str, AnalysisRecord] | None = None
    missing: MarkedComments | None = None
    """None if every comment has a score."""
    truncated: MarkedComments | None = None
    """None if the model truncated no comment, or if `n_rows_truncated` is unknown."""
    trained_on: TrainedOn | None = None

    @property
    def marked(self) -> dict[str, MarkedComments]:
        """Comments without a score, and truncated comments, if they exist."""
        marked = {"missing": self.missing, "truncated": self.truncated}
        return {kind: comments for kind, comments in marked.items() if comments is not None}


def list_error_rates(errors: Errors) -> dict[str, Value]:
    """Return the two error rates by name."""
    return {
        "false_positive_rate": errors.false_positive_rate,
        "false_negative_rate": errors.false_negative_rate,
    }


_RATES = {
    Rate(("negative",), "flagged"): "false_positive_rate",
    Rate(("positive",), "not flagged"): "false_negative_rate",
}
RATE_OF_GAP = {
    name: _RATES[rate] for name, rate in list_threshold_metrics().items() if rate in _RATES
}
"""The error rate of each gap; both are keys of `details.json`."""


@dataclass(frozen=True, kw_only=True)
class ClassScores(Record):
    """The distribution of scores of a class, for an identity and its background.

    `counts` and `background` are numbers of rows by bin, or sums of weights. `quartiles` is null
    without rows.
    """

    n: int
    counts: list[float]
    background: list[float]
    quartiles: list[float] | None


@dataclass(frozen=True, kw_only=True)
class GroupScores(Record):
    """The scores of harmless and of toxic comments."""

    negative: ClassScores
    positive: ClassScores


@dataclass(frozen=True, kw_only=True)
class Scores(Record):
    """The distributions of scores, in common bins of equal width on the scale."""

    scale: Literal["logit", "linear"]
    edges: list[float]
    overall: GroupScores
    subgroups: dict[str, GroupScores]


@dataclass(frozen=True, kw_only=True)
class Rates(Record):
    """The two error rates at each threshold; null without rows of the class."""

    false_positive_rate: list[float | None]
    false_negative_rate: list[float | None]


@dataclass(frozen=True, kw_only=True)
class GroupRates(Rates):
    """The error rates of an identity, with their intervals and the gaps to the background.

    Each gap has its value and the ends of its interval. The intervals of rates take the threshold
    as given.
    """

    false_positive_rate_ends: list[list[float | None]]
    false_negative_rate_ends: list[list[float | None]]
    fpr_gap: list[list[float | None]]
    fnr_gap: list[list[float | None]]


@dataclass(frozen=True, kw_only=True)
class Curves(Record):
    """The error rates at many thresholds; `named` has the positions of the report's thresholds."""

    thresholds: list[float]
    named: dict[str, int]
    overall: Rates
    subgroups: dict[str, GroupRates]


@dataclass(frozen=True, kw_only=True)
class Details(Record):
    """`details.json`: distributions, errors at many thresholds, differences from the champion.

    `report_digest` is the digest of the report. With very many identities, `scores` and `curves`
    have only the worst identities. `champion` has the differences from the champion, and
    `champion_rates` the champion's error rates by identity at its own threshold; both are null
    without a champion. `curves` is null for rows with sampling weights.
    """

    schema_version: int
    report_digest: str
    versions: dict[str, str]
    scores: Scores
    curves: Curves | None = None
    champion: ReadTable | None = None
    champion_rates: dict[str, dict[str, float | None]] | None = None
