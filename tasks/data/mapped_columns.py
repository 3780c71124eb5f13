"""What mapped columns mean: the label of a row, and identities by name."""

from __future__ import annotations

import ast
import math
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, JsonValue

from bias_metrics.parts import MAX_WEIGHT
from biasgate.tasks.common.arrow_arrays import as_numpy
from biasgate.tasks.common.errors import InputError, place
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import Chunk
from biasgate.tasks.data.identity_names import NamedIdentities
from biasgate.tasks.data.plain_columns import is_text, plain_column
from biasgate.tasks.data.reading import refuse_values, to_numbers

LabelValues = dict[str, Annotated[float, Field(ge=0, le=1)] | None]
_HINT = (
    " Divide percentages by 100. If the numbers are codes, say what each means, as in "
    '`label_values: {"1": 0, "2": 1}`; null leaves a row out, as in `{"-1": null}` where -1 means '
    "that nobody labelled it."
)


def to_labels(
    chunk: Chunk,
    columns: Sequence[str],
    ids: pa.Array,
    values: Mapping[str, float | None] | None,
) -> pa.Array:
    """Return one label for each row: of several columns the highest.

    It is null in rows that `values` leaves out, by any of the columns. If `values` only says which
    are left out, other labels are read as they are. Labels that are missing or not a fraction are
    refused.
    """
    left_out = [value for value, meaning in (values or {}).items() if meaning is None]
    labels = []
    for column in columns:
        if values is not None and len(left_out) < len(values):
            labels.append(reading.to_mapped(chunk, column, ids, values))
            continue
        known, rows = reading.without_values(chunk, column, left_out)
        reading.refuse_words(known, column)
        fractions = reading.to_fractions(known, column, ids, nullable=False, hint=_HINT)
        if rows is not None:
            fractions = pc.if_else(rows, pa.scalar(None, fractions.type), fractions)
        labels.append(fractions)
    return pc.max_element_wise(*labels, skip_nulls=False)


def to_weights(chunk: Chunk, column: str, ids: pa.Array, *, whole: bool) -> pa.Array:
    """Return weights: finite and at least 0, whole numbers if `whole`; refuse others."""
    numbers = to_numbers(chunk, column, ids)
    known = pc.fill_null(numbers, math.nan)
    fit = pc.or_(pc.equal(known, 0.0), pc.greater_equal(known, 1 / MAX_WEIGHT))
    fit = pc.and_(fit, pc.less_equal(known, MAX_WEIGHT))
    rule = f"a weight must be 0 or between {1 / MAX_WEIGHT:g} and {MAX_WEIGHT:g}"
    hint = " A row of weight 0 does not count." if numbers.null_count else ""
    refuse_values(chunk, column, pc.invert(fit), rule, ids, numbers, hint)
    if whole:
        rule = "a weight must be a whole number where `weight_kind` is `frequency`"
        refuse_values(chunk, column, pc.not_equal(known, pc.floor(known)), rule, ids, numbers)
    return numbers


_SEPARATORS = (",", ";", "|")
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
# Only a column of few short names may be quoted in an error: another may hold comments.
_MOST_NAMES, _LONGEST_NAME, _MOST_WORDS = 20, 30, 3


class NameMatcher:
    """Finds the names of identities in a column of names.

    Case, and spaces around a name, do not matter. A row without a value was not rated. A row
    with an empty list, or with other names only, mentions none of these identities.

    In a text, `['muslim', 'gay']` is a list too.
    """

    def __init__(self, named: NamedIdentities) -> None:
        self._column, self._separator, self._names = named.column, named.separator, named.names
        self._owners: dict[str, list[int]] = {}
        for position, words in enumerate(self._names.values()):
            for word in words:
                self._owners.setdefault(_folded(word), []).append(position)
        self._unmatched = set(self._owners)
        self._others: set[str] = set()
        self._where = ""

    def mentions(self, chunk: Chunk, ids: pa.Array) -> dict[str, pa.Array]:
        """Return 1 or 0 by identity: whether each row names it; null if the row has no value.

        Other values than names or lists of names are refused, and texts that look like several
        names if there is no separator.
        """
        self._where = place(file=chunk.path, column=self._column)
        array = chunk.table.column(self._column).combine_chunks()
        kind = array.type
        if any(is_list(kind) for is_list in _LISTS):
            rated = as_numpy(array.is_valid())
            parents, named = self._of_lists(array)
        else:
            texts = plain_column(chunk, self._column)
            if not is_text(texts.type):
                if not (pa.types.is_integer(texts.type) or pa.types.is_null(texts.type)):
                    self._refuse_type(str(texts.type))
                texts = texts.cast(pa.string())
            blank = pc.equal(pc.utf8_trim_whitespace(texts), "")
            rated = ~as_numpy(pc.fill_null(blank, fill_value=True))
            parents, named = np.arange(len(texts)), self._of_texts(chunk, texts, ids)
        found = np.zeros((len(rated), len(self._names)), dtype=np.bool_)
        np.logical_or.at(found, parents, named)
        return {
            identity: pa.array(found[:, at].astype(np.float64), mask=~rated)
            for at, identity in enumerate(self._names)
        }

    def unmatched(self) -> dict[str, JsonValue]:
        """Return the names that no row so far has, by identity."""
        lacking: dict[str, JsonValue] = {
            identity: [word for word in words if _folded(word) in self._unmatched]
            for identity, words in self._names.items()
        }
        return {identity: words for identity, words in lacking.items() if words}

    def require_matches(self) -> None:
        """Refuse a column that has none of the names: it is another column, or they differ."""
        if len(self._unmatched) < len(self._owners):
            return
        likely = all(
            len(other) <= _LONGEST_NAME and len(other.split()) <= _MOST_WORDS
            for other in self._others
        )
        shown = ", ".join(map(repr, sorted(self._others)))
        got = f"it has {shown}" if shown and likely and len(self._others) <= _MOST_NAMES else ""
        msg = (
            f"a row must have one of the names in `names`; none has {self._where}."
            f"{f' Instead {got}.' if got else ' Check `column` and `names`.'}"
        )
        raise InputError(msg)

    def _of_lists(self, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the row of each name in a column of lists, and whether it names each identity."""
        parents, values = pc.list_parent_indices(array), pc.list_flatten(array)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_integer(values.type) or pa.types.is_null(values.type):
            values = values.cast(pa.string())
        if not is_text(values.type):
            self._refuse_type("lists of other values than names")
        known = values.is_valid()
        encoded = values.filter(known).dictionary_encode()
        flags = self._flags([[value] for value in encoded.dictionary.to_pylist()])
        return as_numpy(parents.filter(known)), flags[as_numpy(encoded.indices)]

    def _of_texts(self, chunk: Chunk, texts: pa.Array, ids: pa.Array) -> np.ndarray:
        """Return which identities each text names."""
        encoded = pc.fill_null(texts, "").dictionary_encode()
        cells = encoded.dictionary.to_pylist()
        codes = as_numpy(encoded.indices)
        if self._separator is None:
            joined = [self._separator_of(cell) for cell in cells]
            if found := next(filter(None, joined), None):
                several = np.array([one is not None for one in joined])
                hint = (
                    f' Set `separator: "{found}"`; if it is one name, set a separator that no '
                    "name has."
                )
                rule = "a cell must hold one name, unless `separator` says what separates them"
                refuse_values(chunk, self._column, pa.array(several[codes]), rule, ids, hint=hint)
        flags = self._flags([_listed(cell, self._separator) for cell in cells])
        return np.asarray(flags[codes])

    def _separator_of(self, cell: str) -> str | None:
        """Return what separates the names in a text that is no known name itself, if anything."""
        if cell.lstrip().startswith("[") or _folded(cell) in self._owners:
            return None
        for mark in _SEPARATORS:
            if mark in cell and any(_folded(part) in self._owners for part in cell.split(mark)):
                return mark
        return None

    def _flags(self, cells: Sequence[Sequence[str]]) -> np.ndarray:
        flags = np.zeros((len(cells), len(self._names)), dtype=np.bool_)
        for at, cell in enumerate(cells):
            for name in map(_folded, cell):
                if name in self._owners:
                    flags[at, self._owners[name]] = True
                    self._unmatched.discard(name)
                elif name and len(self._others) <= _MOST_NAMES:
                    self._others.add(name)
        return flags

    def _refuse_type(self, got: str) -> None:
        msg = (
            f"`column` of `identities` must hold names or lists of names; got {got} {self._where}. "
            "List columns of 0 and 1, as in `identities: [muslim, gay]`."
        )
        raise InputError(msg)


def _listed(cell: str, separator: str | None) -> list[str]:
    """Return the names in a text: a list as Python and JSON write it, or separated names."""
    if cell.strip().startswith("["):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            found = ast.literal_eval(cell.strip())
            return [str(one) for one in found if one is not None]
        cell = cell.strip().strip("[]").replace("'", "").replace('"', "")
        separator = separator or ","
    return [cell] if separator is None else cell.split(separator)


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
