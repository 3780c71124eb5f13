"""Evaluation sets from any CSV or JSON lines (gz too) or Parquet file, by its columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PrivateAttr, StringConstraints, field_validator, model_validator

from biasgate.tasks.common.errors import InputError, place
from biasgate.tasks.common.settings import ConfigPath
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import Separator
from biasgate.tasks.data.evaluation_set import IDENTITY, MATCHED, RATERS, SLICE
from biasgate.tasks.data.identity_names import check_identity_names, named_by_themselves
from biasgate.tasks.data.list_columns import refuse_lists
from biasgate.tasks.data.rater_columns import to_label_of_votes, to_raters
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import Matching, TermMatcher
from biasgate.tasks.data.weight_column import to_weights

_LABEL_HINT = (
    " Divide percentages by 100. If the numbers are codes, say what each means, as in "
    '`label_values: {"-1": 0, "1": 1}`.'
)
Term = Annotated[str, StringConstraints(pattern=r"\S")]
Terms = dict[str, Annotated[list[Term], Field(min_length=1)]]


class TableSource(SourceSettings):
    """A table of labelled comments.

    Attributes
    ----------
    path : Path
        CSV or JSON lines (gz too), or Parquet, by its name.
    separator : str, optional
        Of a CSV file. Default: a tab for `.tsv`, else a comma.
    id : str
        Column of the ids, or `row_number` to number the rows from 0.
    label : str
        Column of the label: a fraction of raters, 0 or 1, or true or false.
    label_values : dict of str to float, optional
        What the values of a label column mean, as in `{toxic: 1, nontoxic: 0}`.
    text, cluster : str, optional
        Columns of the comment and of the cluster (article, thread, template).
    weight : str, optional
        Column of the weight of each row; `weight_kind` says what it means.
    raters : str, optional
        Column of how many raters each label rests on.
    votes : str, optional
        Column of how many of them said toxic; then there is no `label`.
    identities : list or dict, optional
        Columns of identity fractions; a dict names them, as in `{muslim: target_muslim}`.
    terms : list or dict, optional
        Identities found in the text, as in `{muslim: [muslim, muslims]}`; with
        `prediction_powered` beside the columns of the same names in `identities`.
    matching : {"longest", "overlap"}
        See `TermMatcher`.
    slices : list or dict, optional
        Boolean columns that mark slices of the set.
    split : {"all", "train", "test"}
        A part of the rows, chosen by a hash of the text (or of the id, without text), so that
        a repeated comment is never in both parts.
    test_fraction : float
        Fraction of the rows in `test`.
    """

    source: Literal["table"]
    path: ConfigPath
    separator: Separator | None = None
    id: str = "id"
    label: str = "label"
    label_values: dict[str, Annotated[float, Field(ge=0, le=1)]] | None = None
    text: str | None = None
    cluster: str | None = None
    weight: str | None = None
    raters: str | None = None
    votes: str | None = None
    identities: dict[str, str] = Field(default_factory=dict)
    terms: Terms = Field(default_factory=dict)
    matching: Matching = "longest"
    slices: dict[str, str] = Field(default_factory=dict)
    split: Literal["all", "train", "test"] = "all"
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.3
    _matcher: TermMatcher | None = PrivateAttr(default=None)

    @field_validator("identities", "slices", mode="before")
    @classmethod
    def _name_columns(cls, value: Any) -> Any:
        if isinstance(value, str):
            msg = f"must be a list of columns, as in [{value}]"
            raise ValueError(msg)  # noqa: TRY004 - Pydantic reports these
        if not isinstance(value, list):
            return value
        if not all(isinstance(name, str) for name in value):
            msg = "must be a list of names of columns; put quotes around numbers and other values"
            raise ValueError(msg)
        return {name: name for name in value}

    @field_validator("terms", mode="before")
    @classmethod
    def _name_terms(cls, value: Any) -> Any:
        return named_by_themselves(value)

    @field_validator("label_values", mode="before")
    @classmethod
    def _yaml_keys_as_written(cls, value: Any) -> Any:
        return {str(k): v for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if not self.identities and not self.terms:
            msg = "name the identities: `identities` (columns) or `terms` (found in `text`)"
            raise ValueError(msg)
        if self.text is not None and self.text == self.id:
            msg = f"`id` and `text` must be different columns; both are {self.id!r}"
            raise ValueError(msg)
        if self.votes is not None and self.raters is None:
            msg = "`votes` are counted out of all raters: name the column of these with `raters`"
            raise ValueError(msg)
        if self.votes is not None and {"label", "label_values"} & self.model_fields_set:
            msg = "give `label`, or `votes` with `raters`, not both"
            raise ValueError(msg)
        if self.terms and self.text is None:
            msg = "`terms` are found in the text: name its column with `text`"
            raise ValueError(msg)
        if self.prediction_powered:
            self._refuse_unpowered()
        elif both := sorted(set(self.identities) & set(self.terms)):
            msg = (
                f"{', '.join(both)} must be in `identities` or in `terms`, not in both, unless "
                "`prediction_powered: true` uses both"
            )
            raise ValueError(msg)
        check_identity_names(dict.fromkeys([*self.identities, *self.terms]))
        return self

    def _refuse_unpowered(self) -> None:
        alone = sorted(set(self.identities) ^ set(self.terms))
        if alone:
            msg = (
                "`prediction_powered` needs a column of human labels in `identities` and words in "
                f"`terms` for every identity; {alone[0]} has only one of the two"
            )
            raise ValueError(msg)
        if self.weight is not None:
            msg = (
                "`prediction_powered` and `weight` must not be set together: labelled rows must be "
                "a plain random sample of all rows. Remove one of them"
            )
            raise ValueError(msg)

    @property
    def has_text(self) -> bool:
        """Whether the rows have text."""
        return self.text is not None

    def files(self) -> list[Path]:
        """Return the table's file."""
        return [self.path]

    def check(self) -> None:
        """Refuse a file that is missing or lacks a column."""
        reading.require_columns(self.path, self._columns(), self.separator)

    def provenance(self) -> dict[str, Any]:
        """Return what the frozen rows depend on; some options only if they are set."""
        names = ("separator", "weight", "raters", "votes")
        unset = {name for name in names if getattr(self, name) is None}
        return {key: value for key, value in super().provenance().items() if key not in unset}

    def split_name(self) -> str:
        """Return the part of the rows."""
        return self.split if self.split == "all" else f"{self.split} of {self.test_fraction}"

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the checked rows."""
        matcher = self._matcher = self.matcher()
        counted = self.weight is None
        for chunk in reading.read_chunks(self.path, self._columns(), separator=self.separator):
            part = self._part(self._converted(chunk, matcher))
            counted = counted or bool(pc.any(pc.greater(part["weight"], 0.0)).as_py())
            yield part
        if not counted:
            where = place(file=self.path, column=self.weight)
            msg = f"at least one weight must be above 0; all are 0 {where}."
            raise InputError(msg)

    def matcher(self) -> TermMatcher | None:
        """Return the matcher of `terms`."""
        return TermMatcher(self.terms, self.matching) if self.terms else None

    def notes(self) -> dict[str, Any]:
        """Return the terms that no text matches."""
        return {} if self._matcher is None else {"unmatched_terms": self._matcher.unmatched()}

    def _columns(self) -> list[str]:
        label = self.label if self.votes is None else self.votes
        wanted = [self.id, label, self.text, self.cluster, self.weight, self.raters]
        wanted += [*self.identities.values(), *self.slices.values()]
        return [name for name in wanted if name is not None and name != reading.ROW_NUMBER]

    def _converted(self, chunk: reading.Chunk, matcher: TermMatcher | None) -> pa.Table:
        ids = reading.to_ids(chunk, self.id)
        columns = {"id": ids}
        if self.text is not None:
            columns["text"] = reading.to_text(chunk, self.text, ids)
        raters = None if self.raters is None else to_raters(chunk, self.raters, ids)
        columns["label"] = self._labels(chunk, ids, raters)
        if self.cluster is not None:
            columns["cluster"] = reading.to_strings(chunk, self.cluster, ids)
        if self.weight is not None:
            whole = self.weight_kind == "frequency"
            columns["weight"] = to_weights(chunk, self.weight, ids, whole=whole)
        if raters is not None:
            columns[RATERS] = raters
        for name, column in self.identities.items():
            refuse_lists(chunk, column)
            columns[IDENTITY + name] = reading.to_fractions(chunk, column, ids, nullable=True)
        if matcher is not None:
            found = matcher.mentions(columns["text"].to_pylist())
            kind, dtype = (MATCHED, np.bool_) if self.prediction_powered else (IDENTITY, np.float64)
            for position, name in enumerate(matcher.identities):
                columns[kind + name] = pa.array(found[:, position].astype(dtype))
        for name, column in self.slices.items():
            fractions = reading.to_fractions(chunk, column, ids, nullable=False)
            columns[SLICE + name] = pc.greater_equal(fractions, 0.5)
        return pa.table(columns)

    def _labels(self, chunk: reading.Chunk, ids: pa.Array, raters: pa.Array | None) -> pa.Array:
        if self.votes is not None and self.raters is not None:
            return to_label_of_votes(chunk, self.votes, raters, self.raters, ids)
        if self.label_values is not None:
            return reading.to_mapped(chunk, self.label, ids, self.label_values)
        reading.refuse_words(chunk, self.label)
        return reading.to_fractions(chunk, self.label, ids, nullable=False, hint=_LABEL_HINT)

    def _part(self, table: pa.Table) -> pa.Table:
        if self.split == "all":
            return table
        keys = table["id" if self.text is None else "text"]
        in_test = np.array(
            [uniform_hash(value) < self.test_fraction for value in keys.to_pylist()], dtype=bool
        )
        return table.filter(pa.array(in_test if self.split == "test" else ~in_test))


def uniform_hash(key: str) -> float:
    """Map a key to [0, 1): the same on every machine, and independent of other rows."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) / 2.0**64
