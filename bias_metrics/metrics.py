"""The table of metrics: every metric once, with its properties and the words for it.

A metric is a probability over pairs of rows (`Pair`: the AUCs and AEGs), a difference of error
rates at a threshold (`Rate`) or of calibration (`Calibration`), or computed from other metrics
(none of these). Everything that lists
metrics (measuring, intervals, rules of the gate, words, tables, pictures) reads this table.
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
    "metrics_of",
    "subgroup_metric",
    "threshold_metrics",
]

Class = Literal["positive", "negative"]
Scope = Literal["overall", "subgroup", "aggregate"]
Event = Literal["flagged", "not flagged"]

CLASSES: tuple[Class, ...] = ("positive", "negative")
EQUAL_ERRORS, GIVEN = "equal_errors", "given"
THRESHOLDS = {EQUAL_ERRORS: "the threshold of equal errors", GIVEN: "the given threshold"}
"""Decision thresholds by name, each model's own: estimated, or the one it is used with."""


@dataclass(frozen=True)
class Pair:
    """P(x > y), with a tie counted as one half."""

    x: Class  # Class of the rows x, which are the subgroup's
    y: Class  # Class of the rows y
    inside: bool = False  # Whether y are rows of the subgroup too; otherwise of the background
    flip: bool = False  # Whether the metric is P(y > x) instead


@dataclass(frozen=True)
class Rate:
    """The share of rows with an event in the subgroup, minus that in the background."""

    of: tuple[Class, ...]  # Classes of the counted rows
    event: Event  # What happens to a row at the threshold: a score at or above it is flagged

    def __post_init__(self) -> None:
        """Refuse another event, which would be counted as one of these."""
        if self.event not in get_args(Event):
            msg = f"`event` must be one of {', '.join(get_args(Event))}; got {self.event!r}."
            raise ValueError(msg)

    @property
    def rows(self) -> str:
        """The counted rows in a word."""
        return f"{self.of[0]}s" if len(self.of) == 1 else "rows"


@dataclass(frozen=True)
class Changed:
    """The share of a class in the subgroup that one model decides otherwise than its rival."""

    of: Class  # Class of the counted rows
    event: Event  # What the model does with a row, and its rival does not


@dataclass(frozen=True)
class Calibration:
    """Mean score, as a probability, minus the share of positives: subgroup minus background."""


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str  # Name in reports, policies and MLflow
    title: str  # Name in tables and pictures
    scopes: tuple[Scope, ...]  # What it describes: all rows, one subgroup, all subgroups together
    # Which rows it compares, and how; None if it is computed from other metrics.
    compares: Pair | Rate | Changed | Calibration | None
    question: str  # What it asks, with `{of}` for the subgroups
    harm: str = ""  # What a bad value means for users, with `{group}` and, if 0 is best, `{side}`
    # The best value. 1: higher is better. 0: signed, and either sign is harm.
    ideal: Literal[0, 1] = 1
    largest: float = 1.0  # Largest possible size
    centre: float = 0.0  # What is subtracted from the probability: 1/2 for an AEG
    sides: tuple[str, str] = ("lower", "higher")  # The words for `{side}`: below 0, and above 0
    hint: str = ""  # In a few words, what to look for; for the head of a column

    @property
    def is_gap(self) -> bool:
        """Whether it is signed and 0 is best, so that its size is judged."""
        return self.ideal == 0

    @property
    def has_threshold(self) -> bool:
        """Whether it is measured at a decision threshold."""
        return isinstance(self.compares, Rate | Changed)

    @property
    def needs_rival(self) -> bool:
        """Whether it compares decisions with those of a rival, so that only a margin limits it."""
        return isinstance(self.compares, Changed)

    @property
    def needs_probabilities(self) -> bool:
        """Whether it takes scores as probabilities."""
        return isinstance(self.compares, Calibration)

    @property
    def classes(self) -> tuple[tuple[Class, ...], tuple[Class, ...]]:
        """The classes it compares: of the subgroup, and of the background."""
        compares = self.compares
        if compares is None:
            return CLASSES, ()
        if isinstance(compares, Calibration):
            return CLASSES, CLASSES
        if isinstance(compares, Rate):
            return compares.of, compares.of
        if isinstance(compares, Changed):
            return (compares.of,), ()
        if compares.inside:
            return (compares.x, compares.y), ()
        return (compares.x,), (compares.y,)


def _aeg(which: Class, kind: str, other: str) -> Metric:
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
    _aeg("positive", "toxic", "toxic"),
    _aeg("negative", "harmless", "harmless"),
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
        Changed("negative", "flagged"),
        question="the share of harmless comments that mention {of} and are newly flagged",
        harm='harmless comments that mention "{group}" are {side} flagged',
        ideal=0,
        sides=("less often", "newly"),
    ),
    Metric(
        "newly_missed",
        "Newly missed",
        ("subgroup",),
        Changed("positive", "not flagged"),
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

METRICS = {one.name: one for one in _TABLE}
"""Every metric by its name."""


def metrics_of(scope: Scope) -> tuple[str, ...]:
    """Return the names of a scope's metrics."""
    return tuple(metric.name for metric in METRICS.values() if scope in metric.scopes)


def changed_metrics() -> dict[str, Changed]:
    """Return which changed decisions each metric of them counts, by name."""
    found = {name: one.compares for name, one in METRICS.items()}
    return {name: one for name, one in found.items() if isinstance(one, Changed)}


def threshold_metrics() -> dict[str, Rate]:
    """Return what each metric at a threshold compares, by name."""
    found = {name: one.compares for name, one in METRICS.items()}
    return {name: one for name, one in found.items() if isinstance(one, Rate)}


PAIRS = {one.name: one.compares for one in _TABLE if isinstance(one.compares, Pair)}
"""What each AUC and AEG compares."""
SUBGROUP_METRICS = tuple(name for name in metrics_of("subgroup") if name in PAIRS)
"""The five metrics of a subgroup that need no threshold: the cells of a report."""
AUCS = tuple(name for name in SUBGROUP_METRICS if not METRICS[name].is_gap)
AEGS = tuple(name for name in SUBGROUP_METRICS if METRICS[name].is_gap)
AGGREGATE_METRICS = metrics_of("aggregate")
OVERALL_METRICS = metrics_of("overall")
FINAL_SCORE_PARTS = tuple(name for name in AGGREGATE_METRICS if name in SUBGROUP_METRICS)
"""The metrics whose power means make up the final score."""


def subgroup_metric(x: Class, y: Class, *, inside: bool = False) -> str:
    """Return the name of the subgroup's metric that compares these rows."""
    wanted = (x, y, inside)
    pairs = ((name, PAIRS[name]) for name in SUBGROUP_METRICS)
    return next(name for name, one in pairs if (one.x, one.y, one.inside) == wanted)
