"""`trend.json`: tonight beside the nights before; and what is remembered of each night."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bias_metrics import Change
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
    95 % interval by key, as in `bpsn_auc/muslim`, and `rows` names the frozen set in the store.
    `scored_by` is the digest under which the store keeps its scores: a model that is trained in one
    night and taken from the registry in the next is the same model, and has scores under two.
    """

    candidate: str
    model: str
    evaluation_set: str
    run_id: str
    outcome: Outcome
    digests: Digests
    rows: str
    scored_by: str
    numbers: dict[str, list[float | None]]


@dataclass(frozen=True, kw_only=True)
class Night(Record):
    """One night: its number, when it was, its run, all models on all sets, and what was news."""

    schema_version: int
    evaluation: str
    number: int
    at: str
    run_id: str
    models: list[Remembered]
    news: list[str]


@dataclass(frozen=True, kw_only=True)
class Drifted(Record):
    """What a test of drift found: of one model on one set, or of a set's data (`model` is null).

    `alarms` are the numbers that changed by more than chance. `why_not` says why there was no test;
    then there are none.
    """

    candidate: str | None
    evaluation_set: str
    n_before: int
    n_now: int
    n_shared: int
    alarms: list[Change]
    why_not: str | None


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
    """`trend.json`: the nights that were compared, the last one tonight."""

    schema_version: int
    evaluation: str
    nights: list[Night]
    changed: list[Changed]
    drift: list[Drifted]
    alpha: float
