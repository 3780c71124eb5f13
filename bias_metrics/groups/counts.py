"""Counts of rows and shares computed from them: the results of `bias_metrics.groups.dataset`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bias_metrics._core.tables import Row, Tabular, labelled, rows_of
from bias_metrics._core.values import MetricValue, undefined


def ratio(part: int, whole: int, lack: str) -> MetricValue:
    """Divide two counts; undefined, with `lack` as the reason, if the second is 0."""
    return MetricValue(part / whole) if whole else undefined(lack)


def as_dicts(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of each result, by name."""
    return {name: value.to_dict() for name, value in named.items()}


@dataclass(frozen=True)
class ToxicRows(Tabular):
    """The number of some rows, and of the toxic ones among them."""

    n: int
    n_positive: int
    """n, n_positive: all rows and the toxic ones."""

    @property
    def percent_toxic(self) -> MetricValue:
        """From 0 to 100; undefined without rows."""
        return ratio(100 * self.n_positive, self.n, "no rows")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        percent = self.percent_toxic.to_dict()
        return {"n": self.n, "n_positive": self.n_positive, "percent_toxic": percent}


@dataclass(frozen=True)
class IdentityCounts(Tabular):
    """Counts of all rows and of each identity, with the toxic ones among them."""

    overall: ToxicRows
    identities: dict[str, ToxicRows]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"overall": self.overall.to_dict(), "identities": as_dicts(self.identities)}

    def rows(self) -> list[Row]:
        """Return one record per identity, and one of all rows, without a name."""
        return labelled("identity", rows_of(self.identities, self.overall))


@dataclass(frozen=True)
class TermFrequency(Tabular):
    """How often one term is used, in toxic comments and in all comments."""

    n: int
    n_positive: int
    """n, n_positive: rows, and toxic rows, with the term."""
    share_of_toxic: MetricValue
    share_of_all: MetricValue
    """share_of_toxic, share_of_all: their shares of all toxic rows and of all rows, from 0 to 1."""
    ratio: MetricValue
    """The first share divided by the second."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        shares = ("share_of_toxic", "share_of_all", "ratio")
        counts = {"n": self.n, "n_positive": self.n_positive}
        return counts | {name: getattr(self, name).to_dict() for name in shares}


@dataclass(frozen=True)
class TermFrequencies(Tabular):
    """How often each term is used, and in how many rows it was looked for."""

    overall: ToxicRows
    terms: dict[str, TermFrequency]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"overall": self.overall.to_dict(), "terms": as_dicts(self.terms)}

    def rows(self) -> list[Row]:
        """Return one record per term."""
        return labelled("term", rows_of(self.terms))


@dataclass(frozen=True)
class LengthBucket(Tabular):
    """Comments of `start` to under `stop` characters; `stop` is None for the longest."""

    start: int
    """The shortest length."""
    stop: int | None
    """The first length that no longer belongs to it."""
    overall: ToxicRows
    """All its rows."""
    terms: dict[str, ToxicRows]
    """Its rows with each term."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        rows = {"overall": self.overall.to_dict(), "terms": as_dicts(self.terms)}
        return {"start": self.start, "stop": self.stop} | rows

    def rows(self) -> list[Row]:
        """Return one record per term, and one of all rows, without a name."""
        of_terms = labelled("term", rows_of(self.terms, self.overall))
        return [{"start": self.start, "stop": self.stop} | row for row in of_terms]


@dataclass(frozen=True)
class ToxicityByLength(Tabular):
    """Buckets from the shortest comments to the longest; every row is in one of them."""

    buckets: tuple[LengthBucket, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"buckets": [bucket.to_dict() for bucket in self.buckets]}

    def rows(self) -> list[Row]:
        """Return the records of every bucket."""
        return [row for bucket in self.buckets for row in bucket.rows()]
