"""`trend.json`: tonight beside the nights before; and what is remembered of each night."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bias_metrics.gate import Outcome
from biasgate.tasks.records.record import Record

Cause = Literal["model", "data", "options", "policy", "code"]


@dataclass(frozen=True, kw_only=True)
class Digests(Record):
    """What a night's numbers rest on; another digest is a cause of another number."""

    model: str
    data: str
    options: str
    policy: str
    code: str


@dataclass(frozen=True, kw_only=True)
class Remembered(Record):
    """One model on one set in one night.

    `model` is its version in the registry, or its name; `numbers` has the value and the ends of the
    95 % interval by key, as in `bpsn_auc/muslim`. `joint` has the ends of the interval at the
    night's `joint_confidence` for each number of an identity, and `reasons` why one has none.
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
    """One night: its number, when it was, its run, all models on all sets, and what was news.

    `joint_confidence` is that at which the intervals of all its numbers hold together.
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
    """What is other than in the last night with this model on this set; `since` is its number."""

    candidate: str
    evaluation_set: str
    since: int | None
    causes: list[Cause]
    outcome: Outcome
    outcome_before: Outcome | None


@dataclass(frozen=True, kw_only=True)
class Trend(Record):
    """`trend.json`: the nights that were compared, the last one tonight.

    `moved` says in words which identities moved by more than chance.
    """

    schema_version: int
    evaluation: str
    nights: list[Night]
    changed: list[Changed]
    moved: list[str]
    not_compared: list[NotCompared]
