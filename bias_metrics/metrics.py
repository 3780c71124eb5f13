"""Registry of metrics, with their properties and their wording.

A metric is a probability over pairs of rows (`Pair`: the AUCs and AEGs), a difference of error
rates at a threshold (`Rate`) or of calibration (`Calibration`), or computed from other metrics
(none of these). All code that lists metrics (measuring, intervals, rules of the gate, wording,
tables, pictures) reads this registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

__all__ = [
    "AEGS",
    "AGGREGATE_METRICS",
    "AUCS",
    "CLASSES",
    "EQUAL_ERRORS",
    "FINAL_SCORE_PARTS",
    "GIVEN",
    "METRICS",
    "OVERALL_METRICS",
    "PAIRS",
    "SUBGROUP_METRICS",
    "THRESHOLDS",
    "Calibration",
    "Class",
    "Event",
    "Metric",
    "Pair",
    "Rate",
    "Scope",
    "find_subgroup_metric",
    "list_metrics",
    "list_threshold_metrics",
]

Class = Literal["positive", "negative"]
Scope = Literal["overall", "subgroup", "aggregate"]
Event = Literal["flagged", "not flagged"]

CLASSES: tuple[Class, ...] = ("positive", "negative")
EQUAL_ERRORS, GIVEN = "equal_errors", "given"
THRESHOLDS = {EQUAL_ERRORS: "the threshold of equal errors", GIVEN: "the given threshold"}
"""Names of a model's own decision thresholds: estimated, or given by the user."""


@dataclass(frozen=True)
class Pair:
    """P(x > y), with a tie counted as 1/2."""

    x: Class  # Class of the rows x, in the subgroup
    y: Class  # Class of the rows y
    inside: bool = False  # Whether the rows y are in the subgroup or in the background
    flip: bool = False  # Whether the metric is P(y > x) instead


@dataclass(frozen=True)
class Rate:
    """The share of rows with an event in the subgroup, minus that in the background."""

    classes: tuple[Class, ...]  # Classes of the counted rows
    event: Event  # The event at the threshold: a score at or above it is flagged

    def __post_init__(self) -> None:
        """Refuse an unknown event, which would be counted as "not flagged"."""
        if self.event not in get_args(Event):
            msg = f"`event` must be one of {', '.join(get_args(Event))}; got {self.event!r}."
            raise ValueError(msg)

    @property
    def counts_flagged(self) -> bool:
        """True if the event is to be flagged, False if it is not to be."""
        return {"flagged": True, "not flagged": False}[self.event]

    @property
    def rows(self) -> str:
        """The counted rows as a noun."""
        return f"{self.classes[0]}s" if len(self.classes) == 1 else "rows"


@dataclass(frozen=True)
class DecisionChange:
    """The share of a class in the subgroup with a decision that differs from the rival's."""

    label: Class  # Class of the counted rows
    event: Event  # The event under the model, but not under its rival


@dataclass(frozen=True)
class Calibration:
    """Mean score, as a probability, minus the share of positives: subgroup minus background."""


@dataclass(frozen=True)
class Metric:
    """Properties of a metric."""

    name: str  # Name in reports, policies and MLflow
    title: str  # Name in tables and pictures
    scopes: tuple[Scope, ...]  # Scopes: all rows, a subgroup, an aggregate over subgroups
    # The compared rows, and the comparison; None if it is computed from other metrics.
    compares: Pair | Rate | DecisionChange | Calibration | None
    question: str  # Description, with `{of}` for the subgroups
    harm: str = ""  # Meaning of a bad value, with `{group}` and, if 0 is best, `{side}`
    # The best value. 1: higher is better. 0: signed, and either sign is harm.
    ideal: Literal[0, 1] = 1
    largest: float = 1.0  # Largest possible size
    centre: float = 0.0  # Subtracted from the probability: 1/2 for an AEG
    sides: tuple[str, str] = ("lower", "higher")  # Words for `{side}`: below 0, and above 0
    hint: str = ""  # Short explanation for the head of a column

    @property
    def is_gap(self) -> bool:
        """True if the metric is signed and 0 is best, so that its size is judged."""
        return self.ideal == 0

    @property
    def has_threshold(self) -> bool:
        """True if the metric is measured at a decision threshold."""
        return isinstance(self.compares, Rate | DecisionChange)

    @property
    def needs_rival(self) -> bool:
        """True if decisions are compared with a rival's, so that only a margin can limit them."""
        return isinstance(self.compares, DecisionChange)

    @property
    def needs_probabilities(self) -> bool:
        """True if the metric interprets scores as probabilities."""
        return isinstance(self.compares, Calibration)

    @property
    def classes(self) -> tuple[tuple[Class, ...], tuple[Class, ...]]:
        """The compared classes, of the subgroup and of the background."""
        compares = self.compares
        if compares is None:
            return CLASSES, ()
        if isinstance(compares, Calibration):
            return CLASSES, CLASSES
        if isinstance(compares, Rate):
            return compares.classes, compares.classes
        if isinstance(compares, DecisionChange):
            return (compares.label,), ()
        if compares.inside:
            return (compares.x, compares.y), ()
        return (compares.x,), (compares.y,)


def _make_aeg(which: Class, kind: str, other: str) -> Metric:
    title = f"{which.capitalize()} AEG"
    return Metric(
        f"{which}_aeg",
        title,
        ("subgroup",),
        Pair(which, which),
        question=f"how much a mention of {{of}} shifts the scores of {other} comments ({title})",
        harm=f'{kind} comments that mention "{{group}}" score {{side}} than other {kind} comments',
        ideal=0,
        largest=0.5,
        centre=0.5,
        hint=f"above 0: {other} mentions score higher",
    )


CALIBRATION_GAP = "calibration_gap"
_TABLE = (
    Metric(
        "subgroup_auc",
        "Subgroup AUC",
        ("subgroup", "aggregate"),
        Pair("positive", "negative", inside=True),
        question="how well toxic and harmless comments that mention {of} are separated "
        "(Subgroup AUC)",
        harm='harmless comments that mention "{group}" often score higher than toxic comments that '
        "mention it",
        hint="low: toxic and harmless mentions are mixed up",
    ),
    Metric(
        "bpsn_auc",
        "BPSN AUC",
        ("subgroup", "aggregate"),
        Pair("negative", "positive", flip=True),
        question="how well harmless comments that mention {of} are separated from toxic comments "
        "that do not (BPSN AUC)",
        harm='harmless comments that mention "{group}" often score higher than toxic comments that '
        "do not mention it",
        hint="low: harmless mentions score like toxic comments",
    ),
    Metric(
        "bnsp_auc",
        "BNSP AUC",
        ("subgroup", "aggregate"),
        Pair("positive", "negative"),
        question="how well toxic comments that mention {of} are separated from harmless comments "
        "that do not (BNSP AUC)",
        harm='toxic comments that mention "{group}" often score lower than harmless comments that '
        "do not mention it",
        hint="low: toxic mentions are missed",
    ),
    _make_aeg("positive", "toxic", "toxic"),
    _make_aeg("negative", "harmless", "harmless"),
    Metric(
        "auc",
        "AUC",
        ("overall",),
        Pair("positive", "negative", inside=True),
        question="the AUC over all comments",
    ),
    Metric(
        "final_score",
        "Final score",
        ("aggregate",),
        None,
        question="the final score (overall AUC and the three power means)",
    ),
    Metric(
        "fpr_gap",
        "FPR gap",
        ("subgroup",),
        Rate(("negative",), "flagged"),
        question="how much more or less often harmless comments that mention {of} are flagged "
        "than other harmless comments (FPR gap)",
        harm='harmless comments that mention "{group}" are flagged {side} than other harmless '
        "comments",
        ideal=0,
        sides=("less often", "more often"),
    ),
    Metric(
        "fnr_gap",
        "FNR gap",
        ("subgroup",),
        Rate(("positive",), "not flagged"),
        question="how much more or less often toxic comments that mention {of} are missed than "
        "other toxic comments (FNR gap)",
        harm='toxic comments that mention "{group}" are missed {side} than other toxic comments',
        ideal=0,
        sides=("less often", "more often"),
    ),
    Metric(
        "newly_flagged",
        "Newly flagged",
        ("subgroup",),
        DecisionChange("negative", "flagged"),
        question="the share of harmless comments that mention {of} and are newly flagged",
        harm='harmless comments that mention "{group}" are {side} flagged',
        ideal=0,
        sides=("less often", "newly"),
    ),
    Metric(
        "newly_missed",
        "Newly missed",
        ("subgroup",),
        DecisionChange("positive", "not flagged"),
        question="the share of toxic comments that mention {of} and are newly missed",
        harm='toxic comments that mention "{group}" are {side} missed',
        ideal=0,
        sides=("less often", "newly"),
    ),
    Metric(
        CALIBRATION_GAP,
        "Calibration gap",
        ("subgroup",),
        Calibration(),
        question="how much more the scores of comments that mention {of} exceed their share of "
        "toxic comments than other scores do (calibration gap)",
        harm='as probabilities, the scores of comments that mention "{group}" are {side} compared '
        "with others",
        ideal=0,
        largest=2.0,
        sides=("too low", "too high"),
    ),
)

METRICS = {metric.name: metric for metric in _TABLE}
"""All metrics by name."""


def list_metrics(scope: Scope) -> tuple[str, ...]:
    """Return the names of the metrics in a scope."""
    return tuple(metric.name for metric in METRICS.values() if scope in metric.scopes)


def list_changed_metrics() -> dict[str, DecisionChange]:
    """Return the changed decisions that a metric counts, by the name of the metric."""
    every = {name: metric.compares for name, metric in METRICS.items()}
    return {name: each for name, each in every.items() if isinstance(each, DecisionChange)}


def list_threshold_metrics() -> dict[str, Rate]:
    """Return the compared rates of metrics at a threshold, by the name of the metric."""
    comparisons = {name: metric.compares for name, metric in METRICS.items()}
    return {name: compares for name, compares in comparisons.items() if isinstance(compares, Rate)}


PAIRS = {metric.name: metric.compares for metric in _TABLE if isinstance(metric.compares, Pair)}
"""The pairs compared by each AUC and AEG."""
SUBGROUP_METRICS = tuple(name for name in list_metrics("subgroup") if name in PAIRS)
"""The five metrics of a subgroup without a threshold: the cells of a report."""
AUCS = tuple(name for name in SUBGROUP_METRICS if not METRICS[name].is_gap)
AEGS = tuple(name for name in SUBGROUP_METRICS if METRICS[name].is_gap)
AGGREGATE_METRICS = list_metrics("aggregate")
OVERALL_METRICS = list_metrics("overall")
FINAL_SCORE_PARTS = tuple(name for name in AGGREGATE_METRICS if name in SUBGROUP_METRICS)
"""The metrics of the final score, which averages their power means."""


def find_subgroup_metric(x: Class, y: Class, *, inside: bool = False) -> str:
    """Return the name of the metric of a subgroup that compares these rows."""
    classes = (x, y, inside)
    pairs = ((name, PAIRS[name]) for name in SUBGROUP_METRICS)
    return next(name for name, pair in pairs if (pair.x, pair.y, pair.inside) == classes)
