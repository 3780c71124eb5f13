"""`details.json`: what the page of a candidate shows beyond its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bias_metrics.metrics import Rate, threshold_metrics
from biasgate.tasks.records.numbers import Differences
from biasgate.tasks.records.record import Record

_RATES = {
    Rate(("negative",), "flagged"): "false_positive_rate",
    Rate(("positive",), "not flagged"): "false_negative_rate",
}
RATE_OF_GAP = {name: _RATES[one] for name, one in threshold_metrics().items() if one in _RATES}
"""The rate of each gap: both have their keys in `details.json`."""


@dataclass(frozen=True, kw_only=True)
class ClassScores(Record):
    """The scores of one class: those of an identity, beside those of its background.

    `counts` and `background` are rows by bin, or their weight; `quartiles` are null without rows.
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
    """The distribution of scores, in the same bins for all, equally wide on their scale."""

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
    """The error rates of an identity, each with the ends of its interval.

    Each gap has its value and the ends of its interval. Those of rates take the threshold as given.
    """

    false_positive_rate_ends: list[list[float | None]]
    false_negative_rate_ends: list[list[float | None]]
    fpr_gap: list[list[float | None]]
    fnr_gap: list[list[float | None]]


@dataclass(frozen=True, kw_only=True)
class Curves(Record):
    """The errors at many thresholds; `named` has the positions of those in the report."""

    thresholds: list[float]
    named: dict[str, int]
    overall: Rates
    subgroups: dict[str, GroupRates]


@dataclass(frozen=True, kw_only=True)
class Details(Record):
    """`details.json`: distributions, errors at many thresholds, differences from the champion.

    `report_digest` is that of the report. With very many identities, `scores` and `curves` have
    only the worst ones. `champion` is `BiasComparison.to_dict()`, if there was a champion. Rows
    with sampling weights have no `curves`.
    """

    schema_version: int
    report_digest: str
    versions: dict[str, str]
    scores: Scores
    curves: Curves | None = None
    champion: dict[str, Any] | None = None

    @property
    def differences(self) -> Differences | None:
        """The differences from the champion."""
        return None if self.champion is None else Differences.from_dict(self.champion)
