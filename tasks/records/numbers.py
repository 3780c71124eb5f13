"""Numbers in files: single values, and the table of a report."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated

from pydantic import Field, ValidateAs

from bias_metrics import BiasTable, Difference, Key, MetricValue, RowCounts
from bias_metrics.families import widen_selected
from bias_metrics.gate import LEAST_ROWS
from bias_metrics.metrics import GIVEN, METRICS, SUBGROUP_METRICS
from bias_metrics.rows import Background
from bias_metrics.table import Estimate
from biasgate.tasks.records.record import Record

CONFIDENCE = 0.95
"""Confidence of the intervals in a report."""


@dataclass(frozen=True, kw_only=True)
class Value(Record):
    """A number; null with a reason if it is undefined."""

    value: float | None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Counts(Record):
    """Row counts of an identity, or of all rows if `group` is null."""

    group: str | None
    n_positive: int
    n_negative: int
    effective: dict[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class NamedThreshold(Record):
    """A decision threshold of the candidate, or of the rival named in `against`."""

    name: str
    against: str | None
    value: float


@dataclass(frozen=True, kw_only=True)
class _Keyed:
    """The key of a number."""

    metric: str
    group: str | None = None
    threshold: str | None = None
    against: str | None = None


@dataclass(frozen=True)
class NumberOf(MetricValue, _Keyed):
    """A number and its key."""


@dataclass(frozen=True)
class DifferenceOf(Difference, _Keyed):
    """A difference and its key."""


@dataclass(frozen=True, kw_only=True)
class TableRecord(Record):
    """A table of numbers in the form of `BiasTable.to_dict()`."""

    confidence: float
    background: Background
    power: float
    covered: list[str]
    counts: list[Counts]
    numbers: list[Annotated[DifferenceOf | NumberOf, Field(union_mode="left_to_right")]]
    categories: list[str] = field(default_factory=list)
    thresholds: list[NamedThreshold] = field(default_factory=list)
    joint_confidence: float | None = None

    def table(self) -> BiasTable:
        """Build the table that the record was written from."""
        return BiasTable(
            numbers={
                Key(row.metric, row.group, row.threshold, row.against): _drop_key(row)
                for row in self.numbers
            },
            counts={
                row.group: RowCounts(row.n_positive, row.n_negative, row.effective)
                for row in self.counts
            },
            confidence=self.confidence,
            background=self.background,
            power=self.power,
            covered=tuple(self.covered),
            categories=tuple(self.categories),
            thresholds={(row.name, row.against): row.value for row in self.thresholds},
            joint_confidence=self.joint_confidence,
        )


def _drop_key(row: NumberOf | DifferenceOf) -> Estimate:
    kind = Difference if isinstance(row, Difference) else MetricValue
    return kind(**{field.name: getattr(row, field.name) for field in fields(kind)})


ReadTable = Annotated[BiasTable, ValidateAs(TableRecord, TableRecord.table)]
"""A table, read from its JSON."""


def name_final_score(table: BiasTable) -> str:
    """Name the final score with its number of identities, since rules may use categories."""
    n = len(table.covered)
    return f"final score over {n:,} {'identity' if n == 1 else 'identities'}"


def widen_number(bias: BiasTable, group: str, metric: str) -> MetricValue:
    """Return a selected number with an interval that is corrected for the selection.

    The family is the same for every text: all AUCs, AEGs, and error gaps at the threshold in use,
    of all identities.
    """
    at_given = bias.select_threshold(GIVEN)
    n = len(SUBGROUP_METRICS) * len(bias.subgroups) + sum(map(len, at_given.values()))
    number: MetricValue = {**bias.subgroups[group], **at_given.get(group, {})}[metric]
    return widen_selected(number, n, bounds=(-1.0 if METRICS[metric].is_gap else 0.0, 1.0))


def has_enough_rows(metric: str, counts: RowCounts) -> bool:
    """Return True if an identity has enough rows of each class that a metric compares.

    With fewer rows, a single comment may make its AUC the lowest.
    """
    labels, _ = METRICS[metric].classes
    n_rows = {"positive": counts.n_positive, "negative": counts.n_negative}
    return all(n_rows[label] >= LEAST_ROWS for label in labels)
