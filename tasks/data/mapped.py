"""Sources of labelled comments in a table: options that map its columns, and the conversion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import (
    Field,
    JsonValue,
    PrivateAttr,
    TypeAdapter,
    ValidationInfo,
    field_validator,
    model_validator,
)

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.common.settings import SliceName, make_slice_name
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import Chunk
from biasgate.tasks.data.evaluation_set import CLUSTER, IDENTITY, SLICE, TERMS, UNLABELLED
from biasgate.tasks.data.identity_names import NamedIdentities, Terms, check_identity_names
from biasgate.tasks.data.mapped_columns import (
    LabelValues,
    NameMatcher,
    convert_labels,
    convert_weights,
)
from biasgate.tasks.data.plain_columns import read_plain_column, refuse_lists, suggest_names_option
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import Matching, TermMatcher

LabelColumns = Annotated[tuple[str, ...], Field(min_length=2)]
_IDENTITY_COLUMNS = TypeAdapter(dict[str, str])
_MAX_SLICES, _MAX_VALUE_LENGTH = 200, 60
_FRACTION_HINT = (
    " Divide percentages by 100. Set counts above 0 to 1, in pandas `(t['{0}'] > "
    "0).astype(int)`. Leave unrated cells empty."
)
_WORDS_HINT = (
    " Replace its words: 1 for a mention, 0 for none, in pandas `t['{0}'].map(WORDS)`. Empty cells "
    "count as unrated."
)


class MappedSource(SourceSettings):
    """Labelled comments in the columns of a table."""

    id: str = "id"
    """Column of the ids, or `row_number` to number the rows from 0. Ids are stored with scores, so
    values that look like comments are refused: four words or more, or long text in a script without
    spaces."""
    label: str | LabelColumns = "label"
    """Column of the label: a fraction of raters, 0 or 1, or true or false. If several columns are
    named, as for kinds of toxicity, the label is their maximum."""
    label_values: LabelValues | None = None
    """Meaning of the values of a label column, as in `{toxic: 1, nontoxic: 0}`. Rows with a value
    mapped to null are excluded and counted; a mapping with nulls only, as in `{"-1": null}`, leaves
    other values unchanged."""
    text: str | None = None
    """Column of the comment; required to run a model, and by `terms`."""
    cluster: str | None = None
    """Column of the article, thread or template. Rows of a cluster are not independent, which the
    intervals account for; an interval requires 20 clusters with rows of each compared class."""
    weight: str | None = None
    """Column of the row weights, at least 0; a row of weight 0 does not count. `weight_kind` is the
    meaning of the weights."""
    identities: dict[str, str] | NamedIdentities = Field(default_factory=dict)
    """Columns of identity fractions, or of *yes* and *no*; a dict names them, as in
    `{muslim: target_muslim}`. Or a column of names, as in
    `{column: groups, names: [muslim, gay]}`."""
    terms: Terms = Field(default_factory=dict)
    """Identities found in the text, as in `{muslim: [muslim, muslims]}`."""
    matching: Matching = "longest"
    """With `longest`, *african american* counts for the longer term only; with `overlap`, also for
    *african*."""
    slices: dict[SliceName, str] = Field(default_factory=dict)
    """Boolean columns that mark slices of the set."""
    slices_in: tuple[str, ...] = ()
    """Columns with a slice for each value, such as `language.german`: at most 200 values."""
    _matcher: TermMatcher | None = PrivateAttr(default=None)
    _name_matcher: NameMatcher | None = PrivateAttr(default=None)
    _unsliced_rows: Counter[str] = PrivateAttr(default_factory=Counter)
    _n_unlabelled: int = PrivateAttr(default=0)

    @field_validator(
        "identities",
        mode="before",
        json_schema_input_type=dict[str, str] | list[str] | NamedIdentities,
    )
    @classmethod
    def _parse_identities(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, NamedIdentities):
            return value
        # The value of an identity called "names" is a column, not a list or dict.
        if isinstance(value, dict) and isinstance(value.get("names"), list | dict):
            return NamedIdentities.model_validate(value, context=info.context)
        return _IDENTITY_COLUMNS.validate_python(cls._name_columns(value))

    @field_validator("slices", mode="before", json_schema_input_type=dict[str, str] | list[str])
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

    @field_validator("label_values", mode="before")
    @classmethod
    def _stringify_keys(cls, value: Any) -> Any:
        return {str(k): v for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        names = self.list_identity_names()
        if not names:
            msg = (
                "name the identities: `identities` (columns, or one column of names) or `terms` "
                "(found in `text`)"
            )
            raise ValueError(msg)
        if self.text is not None and self.text == self.id:
            msg = f"`id` and `text` must be different columns; both are {self.id!r}"
            raise ValueError(msg)
        if self.terms and self.text is None:
            msg = "`terms` are found in the text: name its column with `text`"
            raise ValueError(msg)
        if repeated := sorted(name for name in set(names) if names.count(name) > 1):
            msg = f"{', '.join(repeated)} must be in `identities` or `terms`, not in both"
            raise ValueError(msg)
        check_identity_names(names)
        if not isinstance(self.label, str) and len(set(self.label)) < len(self.label):
            msg = f"`label` must name each column once; got {', '.join(self.label)}"
            raise ValueError(msg)
        return self

    def list_identity_names(self) -> list[str]:
        """Return the names of the identities, in the order of the options."""
        identities = self.identities
        names = identities.names if isinstance(identities, NamedIdentities) else identities
        return [*names, *self.terms]

    @property
    def is_weighted(self) -> bool:
        """True if an option names a column of weights."""
        return self.weight is not None

    @property
    def has_text(self) -> bool:
        """True if the rows have text."""
        return self.text is not None

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the checked rows."""
        identities = self.identities
        self._matcher = self.matcher()
        self._name_matcher = (
            NameMatcher(identities) if isinstance(identities, NamedIdentities) else None
        )
        self._unsliced_rows, self._n_unlabelled = Counter(), 0
        slices = {column: self._name_slices(column) for column in self.slices_in}
        has_weight, location = not self.is_weighted, ""
        for chunk in self._read_raw_chunks(self._list_columns()):
            rows = self._convert_chunk(chunk)
            for column, names in slices.items():
                texts = read_plain_column(chunk, column).cast(pa.string())
                for value, name in names.items():
                    in_slice = pc.fill_null(pc.equal(texts, value), fill_value=False)
                    rows = rows.append_column(name, in_slice)
            if n_unlabelled := rows["label"].null_count:
                self._n_unlabelled += n_unlabelled
                rows = rows.filter(rows["label"].is_valid())
            part = self._select_part(rows)
            for column, names in slices.items():
                n_in_slices = sum(pc.sum(part[name]).as_py() or 0 for name in names.values())
                self._unsliced_rows[column] += part.num_rows - n_in_slices
            has_weight = has_weight or bool(pc.any(pc.greater(part["weight"], 0.0)).as_py())
            location = chunk.locate_column(self.weight)
            yield part
        if not has_weight:
            msg = f"at least one weight must be above 0; all are 0 {location}."
            raise InputError(msg)
        if self._name_matcher is not None:
            self._name_matcher.require_matches()

    def matcher(self) -> TermMatcher | None:
        """Return the matcher of `terms`; None without terms."""
        return TermMatcher(self.terms, self.matching) if self.terms else None

    def notes(self) -> dict[str, JsonValue]:
        """Return the cautions on the rows, for the set's record.

        They are the terms in order of their numbers, the terms and names without matches, and words
        similar to terms. They also include the number of rows without a value in each column of
        `slices_in`, and the number of rows without a label.
        """
        notes: dict[str, Any] = {}
        if matchers := [
            matcher for matcher in (self._matcher, self._name_matcher) if matcher is not None
        ]:
            unmatched = (matcher.list_unmatched().items() for matcher in matchers)
            notes = {"unmatched_terms": dict(chain(*unmatched)), "near_terms": {}}
        if self._matcher is not None:
            notes["near_terms"] = convert_to_plain(self._matcher.summarize_near_words())
            notes[TERMS] = self._matcher.list_coded_terms()
        if counts := {column: n for column, n in self._unsliced_rows.items() if n}:
            notes["in_no_slice"] = counts
        if self._n_unlabelled:
            notes[UNLABELLED] = self._n_unlabelled
        return notes

    @property
    def n_unlabelled(self) -> int:
        """Number of rows without a label among those read."""
        return self._n_unlabelled

    def _name_slices(self, column: str) -> dict[str, str]:
        """Return the name of the slice column for each value; refuse a column of comments."""
        distinct: set[str] = set()
        for chunk in self._read_raw_chunks([column]):
            texts = read_plain_column(chunk, column).cast(pa.string())
            distinct.update(filter(None, pc.unique(texts).to_pylist()))
            is_long = any(len(value) > _MAX_VALUE_LENGTH for value in distinct)
            if is_long or len(distinct) > _MAX_SLICES:
                msg = (
                    f"a column of names must have at most {_MAX_SLICES} different values, each "
                    f"of at most {_MAX_VALUE_LENGTH} characters {chunk.locate_column(column)}."
                )
                raise InputError(msg)
        values = sorted(distinct)
        names = [make_slice_name(f"{column}.{value}") for value in values]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            msg = (
                f"values in `slices_in` must differ in letters, digits or `_. -`; two in column "
                f"{column!r} give the slice {repeated!r}."
            )
            raise InputError(msg)
        return {value: SLICE + name for value, name in zip(values, names, strict=True)}

    def _read_raw_chunks(self, columns: list[str]) -> Iterator[Chunk]:
        """Yield chunks of unconverted columns."""
        raise NotImplementedError

    def _select_part(self, table: pa.Table) -> pa.Table:
        """Return the rows of a chunk that belong to the set."""
        raise NotImplementedError

    def _get_identity_columns(self) -> dict[str, str]:
        return {} if isinstance(self.identities, NamedIdentities) else self.identities

    def _list_label_columns(self) -> list[str]:
        """Return the names of the columns that give the label."""
        return [self.label] if isinstance(self.label, str) else list(self.label)

    def _list_columns(self) -> list[str]:
        wanted = [self.id, *self._list_label_columns(), self.text, self.cluster]
        wanted += [self.weight, *self._get_identity_columns().values()]
        if isinstance(self.identities, NamedIdentities):
            wanted.append(self.identities.column)
        wanted += [*self.slices.values(), *self.slices_in]
        return [name for name in wanted if name is not None and name != reading.ROW_NUMBER]

    def _convert_chunk(self, chunk: Chunk) -> pa.Table:
        ids = reading.convert_ids(chunk, self.id)
        columns = {"id": ids}
        if self.text is not None:
            columns["text"] = reading.convert_texts(chunk, self.text, ids)
        columns["label"] = convert_labels(chunk, self._list_label_columns(), ids, self.label_values)
        if self.cluster is not None:
            columns[CLUSTER] = reading.convert_names(chunk, self.cluster, ids)
        if self.weight is not None:
            are_whole = self.weight_kind == "frequency"
            columns["weight"] = convert_weights(chunk, self.weight, ids, are_whole=are_whole)
        for name, column in self._get_identity_columns().items():
            refuse_lists(chunk, column)
            columns[IDENTITY + name] = reading.convert_fractions(
                chunk,
                column,
                ids,
                nullable=True,
                meanings=reading.YES_OR_NO,
                hint=_FRACTION_HINT.format(column),
                words_hint=_WORDS_HINT.format(column),
                text_hint=suggest_names_option(column),
            )
        if self._name_matcher is not None:
            for name, mentions in self._name_matcher.find_mentions(chunk, ids).items():
                columns[IDENTITY + name] = mentions
        if self._matcher is not None:
            columns |= self._matcher.build_columns(columns["text"].to_pylist())
        for name, column in self.slices.items():
            remedy = f" To make each of its values a slice, write `slices_in: [{column}]`."
            fractions = reading.convert_fractions(
                chunk, column, ids, nullable=False, words_hint=remedy
            )
            columns[SLICE + name] = pc.greater_equal(fractions, 0.5)
        return pa.table(columns)
