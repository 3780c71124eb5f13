"""`trend.json`, the comparison of nights, and the stored record of each night."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bias_metrics.gate import Outcome
from biasgate.tasks.records.record import Record

Cause = Literal["model", "data", "options", "policy", "code"]


@dataclass(frozen=True, kw_only=True)
class Digests(Record):
    """The digests of everything that affects a night's numbers, to find causes of changes."""

    model: str
    data: str
    options: str
    policy: str
    code: str


@dataclass(frozen=True, kw_only=True)
class Remembered(Record):
    """A model on a set in a night.

    `model` is its version in the registry, or its name. `numbers` has the value and the ends of the
    95 % interval by key, such as `bpsn_auc/muslim`. `joint` has the ends of the interval at the
    night's `joint_confidence` for numbers of identities, and `reasons` the reasons for missing
    intervals.
    """

    candidate: str
    model: str
    evaluation_set: str
    run_id: str
    outcome: Outcome
    digests: Digests
    numbers: dict[str, list[float | None]]
    joint: dict[str, list[float]]
    reasons: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Night(Record):
    """A night: its number, time and run, all models on all sets, and its news.

    `joint_confidence` is the confidence at which the intervals of all its numbers hold jointly.
    """

    schema_version: int
    evaluation: str
    number: int
    at: str
    run_id: str
    joint_confidence: float
    models: list[Remembered]
    news: list[str]


@dataclass(frozen=True, kw_only=True)
class NotCompared(Record):
    """Identities whose numbers are not compared with the first night, and the reason."""

    candidate: str
    evaluation_set: str
    identities: list[str]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Changed(Record):
    """The changes of a model on a set since an earlier night, whose number is `since`."""

    candidate: str
    evaluation_set: str
    since: int | None
    causes: list[Cause]
    outcome: Outcome
    outcome_before: Outcome | None


@dataclass(frozen=True, kw_only=True)
class Trend(Record):
    """`trend.json`: the compared nights, the oldest first.

    `moved` has sentences about the identities with significant changes.
    """

    schema_version: int
    evaluation: str
    nights: list[Night]
    changed: list[Changed]
    moved: list[str]
    not_compared: list[NotCompared]
