"""The rows of a training set in memory, with labels, lengths and mentions of identities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bias_metrics.parts import reaches_cut
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.columns import conform_rows
from biasgate.tasks.data.evaluation_set import IDENTITY, TERMS
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import TermMatcher

# Lower ends of the buckets of length, in characters: Dixon et al. (2018), Figure 1.
EDGES = np.array([20, 60, 180, 540, 1620, 4860])
Masks = dict[str, npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class TrainingRows:
    """Labelled comments."""

    name: str
    """Name of the set, for messages."""
    table: pa.Table
    """The rows, in the columns of frozen sets."""
    label_threshold: float
    identity_threshold: float
    """Least fraction at which a row mentions an identity; `label_threshold` is that of toxicity."""
    identities: tuple[str, ...]
    """The identities to balance."""
    matcher: TermMatcher | None = None
    """Finds the identities in texts; None if annotators labelled them."""

    @classmethod
    def from_table(
        cls,
        source: SourceSettings,
        table: pa.Table,
        identities: Sequence[str] | None = None,
    ) -> TrainingRows:
        """Check the rows of a set, and choose its identities. Default: all of them."""
        names = [
            column.removeprefix(IDENTITY)
            for column in table.column_names
            if column.startswith(IDENTITY)
        ]
        if "text" not in table.column_names or not names:
            missing = "text" if names else "identities: name `terms` or `identities`"
            msg = f"set {source.name!r} must have {missing}, to mitigate bias."
            raise InputError(msg)
        chosen = list(names if identities is None else identities)
        unknown = [name for name in chosen if name not in names]
        if unknown:
            msg = (
                f"`identities` must be identities of training set {source.name!r}; got "
                f"{unknown[0]} (known: {', '.join(names)}).{did_you_mean(unknown[0], names)}"
            )
            raise InputError(msg)
        thresholds = source.label_threshold, source.identity_threshold
        # A method may change texts, which then have other terms.
        table = table.drop_columns([TERMS] if TERMS in table.column_names else [])
        return cls(source.name, table, *thresholds, tuple(chosen), source.matcher())

    def select_rows(self, rows: npt.NDArray[np.bool_]) -> TrainingRows:
        """Return the rows for which `rows`, of shape (n,), is True."""
        return replace(self, table=self.table.filter(pa.array(rows)))

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    @cached_property
    def texts(self) -> list[str]:
        """The comments."""
        texts: list[str] = self.table["text"].to_pylist()
        return texts

    @cached_property
    def labels(self) -> npt.NDArray[np.bool_]:
        """True for toxic comments; of shape (n,)."""
        return reaches_cut(self.table["label"].to_numpy(), self.label_threshold)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each comment in characters."""
        return np.fromiter(map(len, self.texts), np.int64, self.n)

    @cached_property
    def buckets(self) -> npt.NDArray[np.intp]:
        """Index of each comment's bucket of length."""
        return np.searchsorted(EDGES, self.lengths, side="right")

    @cached_property
    def masks(self) -> Masks:
        """Masks of the comments that mention an identity, by chosen identity."""
        return {
            name: reaches_cut(self.table[IDENTITY + name].to_numpy(), self.identity_threshold)
            for name in self.identities
        }

    @cached_property
    def mentions(self) -> npt.NDArray[np.bool_]:
        """The masks as a matrix of shape (n, number of chosen identities)."""
        return np.stack(list(self.masks.values()), axis=1)

    def require_classes(self) -> None:
        """Refuse a set without toxic or without harmless comments."""
        if self.labels.all() or not self.labels.any():
            kind = "positive" if self.labels.any() else "negative"
            msg = (
                f"training set {self.name!r} must have both classes; all {self.n} rows are {kind}."
            )
            raise InputError(msg)

    def require_mentions(self) -> None:
        """Refuse a set that does not mention any of the identities."""
        if not self.mentions.any():
            msg = (
                f"training set {self.name!r} must mention one of the identities; none of "
                f"{', '.join(self.identities)} occurs in its {self.n:,} comments."
            )
            raise InputError(msg)


def read_rows(source: SourceSettings) -> pa.Table:
    """Read all rows of a source into memory."""
    return pa.concat_tables([conform_rows(chunk, source.name) for chunk in source.chunks()])


def build_rows(
    rows: TrainingRows,
    ids: Sequence[str],
    texts: Sequence[str],
    labels: npt.ArrayLike,
    identities: npt.NDArray[np.bool_] | None = None,
) -> pa.Table:
    """Return new rows with the columns of a training set.

    Each is a separate cluster, with a single rater, weight 1 and outside all slices.

    Parameters
    ----------
    labels : array of shape (n,)
    identities : bool array of shape (n, number of identity columns), optional
        The mentions, in the order of the set's columns. Required if the set does not find them by
        terms.
    """
    table = rows.table
    names = [column for column in table.column_names if column.startswith(IDENTITY)]
    if rows.matcher is not None:
        mentions = rows.matcher.mentions(texts)
        positions = {IDENTITY + name: i for i, name in enumerate(rows.matcher.identities)}
        mentions_by_name = {name: mentions[:, positions[name]] for name in names}
    else:
        mentions_by_name = dict(zip(names, np.asarray(identities).T, strict=True))
    values = {"id": list(ids), "text": list(texts), "label": np.asarray(labels, dtype=float)}
    values |= {"cluster": list(ids)} | {
        name: column.astype(float) for name, column in mentions_by_name.items()
    }
    n = len(ids)
    columns = {
        field.name: pa.array(
            values[field.name]
            if field.name in values
            else [False] * n
            if pa.types.is_boolean(field.type)
            else [1.0] * n,
            field.type,
        )
        for field in table.schema
    }
    return pa.table(columns, schema=table.schema)


def make_unique_ids(rows: TrainingRows, ids: Sequence[str], prefix: str) -> list[str]:
    """Return ids that are unique in the set, with a prefix for ids that are taken.

    Other ids do not change, so that an evaluation on the same rows is refused by id and text.
    """
    taken = set(rows.table["id"].to_pylist())
    free_ids = []
    for row_id in ids:
        free_id = row_id
        while free_id in taken:
            free_id = f"{prefix}/{free_id}"
        taken.add(free_id)
        free_ids.append(free_id)
    return free_ids
