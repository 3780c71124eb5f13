"""Sources of labelled comments in a table: which column means what, and how it is converted."""

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

from biasgate.tasks.common.errors import InputError, place
from biasgate.tasks.common.plain import plain
from biasgate.tasks.common.settings import SliceName, slice_name
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import Chunk
from biasgate.tasks.data.evaluation_set import (
    CLUSTER,
    IDENTITY,
    SLICE,
    TERMS,
    UNLABELLED,
)
from biasgate.tasks.data.identity_names import (
    NamedIdentities,
    Terms,
    check_identity_names,
)
from biasgate.tasks.data.mapped_columns import (
    LabelValues,
    NameMatcher,
    to_labels,
    to_weights,
)
from biasgate.tasks.data.plain_columns import option_of_names, plain_column, refuse_lists
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import Matching, TermMatcher

Columns = Annotated[tuple[str, ...], Field(min_length=2)]
_IDENTITY_COLUMNS = TypeAdapter(dict[str, str])
_MOST_SLICES, _LONGEST_VALUE = 200, 60
_HINT = (
    " Divide percentages by 100. Set counts above 0 to 1, in pandas `(t['{0}'] > "
    "0).astype(int)`. Leave unrated cells empty."
)
_IF_WORDS = " Replace its words with 1 and 0, in pandas `t['{0}'].map(WORDS)`."


class MappedSource(SourceSettings):
    """Labelled comments in the columns of a table."""

    id: str = "id"
    """Column of the ids, or `row_number` to number the rows from 0. Ids are kept with scores, so a
    column whose values look like comments is refused: four words or more, or long text of a script
    without spaces."""
    label: str | Columns = "label"
    """Column of the label: a fraction of raters, 0 or 1, or true or false. Several columns are
    kinds of toxicity, of which the highest counts."""
    label_values: LabelValues | None = None
    """What the values of a label column mean, as in `{toxic: 1, nontoxic: 0}`. Rows with a value
    that means null are left out, and counted; a mapping of nulls alone, as in `{"-1": null}`,
    leaves other values as they are."""
    text: str | None = None
    """Column of the comment; needed where a model is run, and by `terms`."""
    cluster: str | None = None
    """Column of the article, thread or template. Rows of one cluster are not independent, and the
    intervals allow for that; there is none where a compared class is in fewer than 20 clusters."""
    weight: str | None = None
    """Column of the weight of each row, at least 0; a row of weight 0 does not count. `weight_kind`
    says what weights mean."""
    identities: dict[str, str] | NamedIdentities = Field(default_factory=dict)
    """Columns of identity fractions; a dict names them, as in `{muslim: target_muslim}`. Or one
    column of names, as in `{column: groups, names: [muslim, gay]}`."""
    terms: Terms = Field(default_factory=dict)
    """Identities found in the text, as in `{muslim: [muslim, muslims]}`."""
    matching: Matching = "longest"
    """With `longest`, *african american* counts for the longer term only; with `overlap` for
    *african* too."""
    slices: dict[SliceName, str] = Field(default_factory=dict)
    """Boolean columns that mark slices of the set."""
    slices_in: tuple[str, ...] = ()
    """Columns of which every value is a slice, as `language.german`: at most 200 values."""
    _matcher: TermMatcher | None = PrivateAttr(default=None)
    _named: NameMatcher | None = PrivateAttr(default=None)
    _in_no_slice: Counter[str] = PrivateAttr(default_factory=Counter)
    _n_unlabelled: int = PrivateAttr(default=0)

    @field_validator(
        "identities",
        mode="before",
        json_schema_input_type=dict[str, str] | list[str] | NamedIdentities,
    )
    @classmethod
    def _columns_or_names(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, NamedIdentities):
            return value
        # An identity may be called names: its value is then a column.
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
    def _yaml_keys_as_written(cls, value: Any) -> Any:
        return {str(k): v for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        names = self.identity_names()
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
        if both := sorted(name for name in set(names) if names.count(name) > 1):
            msg = f"{', '.join(both)} must be in `identities` or `terms`, not in both"
            raise ValueError(msg)
        check_identity_names(names)
        if not isinstance(self.label, str) and len(set(self.label)) < len(self.label):
            msg = f"`label` must name each column once; got {', '.join(self.label)}"
            raise ValueError(msg)
        return self

    def identity_names(self) -> list[str]:
        """Return the names of the identities, in the order of the options."""
        own = self.identities
        return [*(own.names if isinstance(own, NamedIdentities) else own), *self.terms]

    @property
    def is_weighted(self) -> bool:
        """Whether an option names weights."""
        return self.weight is not None

    @property
    def has_text(self) -> bool:
        """Whether the rows have text."""
        return self.text is not None

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the checked rows."""
        named = self.identities
        self._matcher = self.matcher()
        self._named = NameMatcher(named) if isinstance(named, NamedIdentities) else None
        self._in_no_slice, self._n_unlabelled = Counter(), 0
        slices = {column: self._name_slices(column) for column in self.slices_in}
        has_weight, where = not self.is_weighted, ""
        for chunk in self._raw_chunks(self._columns()):
            rows = self._convert(chunk)
            for column, names in slices.items():
                texts = plain_column(chunk, column).cast(pa.string())
                for value, name in names.items():
                    inside = pc.fill_null(pc.equal(texts, value), fill_value=False)
                    rows = rows.append_column(name, inside)
            if n_unlabelled := rows["label"].null_count:
                self._n_unlabelled += n_unlabelled
                rows = rows.filter(rows["label"].is_valid())
            part = self._part(rows)
            for column, names in slices.items():
                n_inside = sum(pc.sum(part[name]).as_py() or 0 for name in names.values())
                self._in_no_slice[column] += part.num_rows - n_inside
            has_weight = has_weight or bool(pc.any(pc.greater(part["weight"], 0.0)).as_py())
            where = place(file=chunk.path, column=self.weight)
            yield part
        if not has_weight:
            msg = f"at least one weight must be above 0; all are 0 {where}."
            raise InputError(msg)
        if self._named is not None:
            self._named.require_matches()

    def matcher(self) -> TermMatcher | None:
        """Return the matcher of `terms`."""
        return TermMatcher(self.terms, self.matching) if self.terms else None

    def notes(self) -> dict[str, JsonValue]:
        """Return what to be careful about.

        The terms by their codes, those that no text matches, and words like them; names that no row
        has; of each column of `slices_in` how many rows have no value; and how many rows have no
        label.
        """
        notes: dict[str, Any] = {}
        if matchers := [known for known in (self._matcher, self._named) if known is not None]:
            each = (matcher.unmatched().items() for matcher in matchers)
            notes = {"unmatched_terms": dict(chain(*each)), "near_terms": {}}
        if self._matcher is not None:
            notes |= {"near_terms": plain(self._matcher.near()), TERMS: self._matcher.coded()}
        if lacking := {column: n for column, n in self._in_no_slice.items() if n}:
            notes["in_no_slice"] = lacking
        if self._n_unlabelled:
            notes[UNLABELLED] = self._n_unlabelled
        return notes

    @property
    def n_unlabelled(self) -> int:
        """How many of the rows that were read have no label."""
        return self._n_unlabelled

    def _name_slices(self, column: str) -> dict[str, str]:
        """Return the slice's column for each value of a column; a column of comments is refused."""
        found: set[str] = set()
        for chunk in self._raw_chunks([column]):
            texts = plain_column(chunk, column).cast(pa.string())
            found.update(filter(None, pc.unique(texts).to_pylist()))
            if len(found) > _MOST_SLICES or any(len(value) > _LONGEST_VALUE for value in found):
                where = place(file=chunk.path, column=column)
                msg = (
                    f"a column of names must have at most {_MOST_SLICES} different values, each "
                    f"of at most {_LONGEST_VALUE} characters {where}."
                )
                raise InputError(msg)
        values = sorted(found)
        names = [slice_name(f"{column}.{value}") for value in values]
        if same := next((name for name in names if names.count(name) > 1), None):
            msg = (
                f"values in `slices_in` must differ in letters, digits or `_. -`; two in column "
                f"{column!r} give the slice {same!r}."
            )
            raise InputError(msg)
        return {value: SLICE + name for value, name in zip(values, names, strict=True)}

    def _raw_chunks(self, columns: list[str]) -> Iterator[Chunk]:
        """Yield columns as they are in the files."""
        raise NotImplementedError

    def _part(self, table: pa.Table) -> pa.Table:
        """Return the rows of a chunk that belong to the set."""
        raise NotImplementedError

    def _identity_columns(self) -> dict[str, str]:
        return {} if isinstance(self.identities, NamedIdentities) else self.identities

    def _label_columns(self) -> list[str]:
        """Return the columns that the label is made of."""
        return [self.label] if isinstance(self.label, str) else list(self.label)

    def _columns(self) -> list[str]:
        wanted = [self.id, *self._label_columns(), self.text, self.cluster]
        wanted += [self.weight, *self._identity_columns().values()]
        if isinstance(self.identities, NamedIdentities):
            wanted.append(self.identities.column)
        wanted += [*self.slices.values(), *self.slices_in]
        return [name for name in wanted if name is not None and name != reading.ROW_NUMBER]

    def _convert(self, chunk: Chunk) -> pa.Table:
        ids = reading.to_ids(chunk, self.id)
        columns = {"id": ids}
        if self.text is not None:
            columns["text"] = reading.to_text(chunk, self.text, ids)
        columns["label"] = to_labels(chunk, self._label_columns(), ids, self.label_values)
        if self.cluster is not None:
            columns[CLUSTER] = reading.to_strings(chunk, self.cluster, ids)
        if self.weight is not None:
            whole = self.weight_kind == "frequency"
            columns["weight"] = to_weights(chunk, self.weight, ids, whole=whole)
        for name, column in self._identity_columns().items():
            refuse_lists(chunk, column)
            cures = {"hint": _HINT.format(column), "if_words": _IF_WORDS.format(column)}
            cures["if_text"] = option_of_names(column)
            fractions = reading.to_fractions(chunk, column, ids, nullable=True, **cures)
            columns[IDENTITY + name] = fractions
        if self._named is not None:
            for name, mentions in self._named.mentions(chunk, ids).items():
                columns[IDENTITY + name] = mentions
        if self._matcher is not None:
            columns |= self._matcher.columns(columns["text"].to_pylist())
        for name, column in self.slices.items():
            cure = f" To make each of its values a slice, write `slices_in: [{column}]`."
            fractions = reading.to_fractions(chunk, column, ids, nullable=False, if_words=cure)
            columns[SLICE + name] = pc.greater_equal(fractions, 0.5)
        return pa.table(columns)
