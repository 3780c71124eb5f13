"""Conversion of mapped columns: labels, weights, and identities by name."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, JsonValue

from bias_metrics.parts import MAX_WEIGHT
from biasgate.tasks.common.arrow_arrays import convert_column
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import Chunk
from biasgate.tasks.data.identity_names import NamedIdentities, normalize_name
from biasgate.tasks.data.plain_columns import is_string_type, read_plain_column
from biasgate.tasks.data.reading import convert_numbers, refuse_values

LabelValues = dict[str, Annotated[float, Field(ge=0, le=1)] | None]
_LABEL_HINT = (
    " Divide percentages by 100. If the numbers are codes, map each to a label, as in "
    '`label_values: {"1": 0, "2": 1}`; null excludes a row, as in `{"-1": null}` if -1 means '
    "unlabelled."
)


def convert_labels(
    chunk: Chunk,
    columns: Sequence[str],
    ids: pa.Array,
    values: Mapping[str, float | None] | None,
) -> pa.Array:
    """Return a label for each row: the maximum of several columns.

    A label is null if `values` maps the value of any column to null. If `values` has nulls only,
    other labels are read unchanged. Refuse labels that are missing or not fractions.
    """
    excluded_values = [value for value, meaning in (values or {}).items() if meaning is None]
    labels = []
    for column in columns:
        if values is not None and len(excluded_values) < len(values):
            labels.append(reading.map_labels(chunk, column, ids, values))
            continue
        filled, excluded = reading.replace_values(chunk, column, excluded_values)
        reading.refuse_word_labels(filled, column)
        fractions = reading.convert_fractions(filled, column, ids, nullable=False, hint=_LABEL_HINT)
        if excluded is not None:
            fractions = pc.if_else(excluded, pa.scalar(None, fractions.type), fractions)
        labels.append(fractions)
    return pc.max_element_wise(*labels, skip_nulls=False)


def convert_weights(chunk: Chunk, column: str, ids: pa.Array, *, are_whole: bool) -> pa.Array:
    """Return finite weights of at least 0, whole numbers if `are_whole`; refuse other values."""
    numbers = convert_numbers(chunk, column, ids)
    weights = pc.fill_null(numbers, math.nan)
    is_valid = pc.or_(pc.equal(weights, 0.0), pc.greater_equal(weights, 1 / MAX_WEIGHT))
    is_valid = pc.and_(is_valid, pc.less_equal(weights, MAX_WEIGHT))
    rule = f"a weight must be 0 or between {1 / MAX_WEIGHT:g} and {MAX_WEIGHT:g}"
    hint = " A row of weight 0 does not count." if numbers.null_count else ""
    refuse_values(chunk, column, pc.invert(is_valid), rule, ids, numbers, hint)
    if are_whole:
        rule = "a weight must be a whole number if `weight_kind` is `frequency`"
        refuse_values(chunk, column, pc.not_equal(weights, pc.floor(weights)), rule, ids, numbers)
    return numbers


NAME_SEPARATORS = (",", ";", "|")
_LIST_TYPES = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
# Errors quote only a column of few short names: any other column may hold comments.
_MAX_NAMES, _MAX_NAME_LENGTH, _MAX_NAME_WORDS = 20, 30, 3


class NameMatcher:
    """Matcher of identities in a column of names.

    Case, and spaces around a name, do not matter. A row without a value was not rated. A row
    with an empty list, or with other names only, mentions none of the identities. A text such as
    `['muslim', 'gay']` is read as a list.
    """

    def __init__(self, identities: NamedIdentities) -> None:
        self._column, self._separator = identities.column, identities.separator
        self._names = identities.names
        self._owners: dict[str, list[int]] = {}
        for position, words in enumerate(self._names.values()):
            for word in words:
                self._owners.setdefault(normalize_name(word), []).append(position)
        self._unmatched = set(self._owners)
        self._other_names: set[str] = set()
        self._place = ""

    def find_mentions(self, chunk: Chunk, ids: pa.Array) -> dict[str, pa.Array]:
        """Return by identity 1 for rows that name it, 0 for other rows, null without a value.

        Refuse values that are neither names nor lists of names. Without a separator, also refuse
        texts that look like several names.
        """
        self._place = chunk.locate_column(self._column)
        array = chunk.table.column(self._column).combine_chunks()
        is_list = any(is_kind(array.type) for is_kind in _LIST_TYPES)
        if is_list:
            rows, values = convert_column(pc.list_parent_indices(array)), pc.list_flatten(array)
            values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        else:
            rows, values = np.arange(len(array)), read_plain_column(chunk, self._column)
        value_type = values.type
        if pa.types.is_integer(value_type) or pa.types.is_null(value_type):
            values = values.cast(pa.string())
        if not is_string_type(values.type):
            msg = (
                "`column` of `identities` must hold names or lists of names; got "
                f"{'lists of other values than names' if is_list else value_type} {self._place}. "
                "List columns of 0 and 1, as in `identities: [muslim, gay]`."
            )
            raise InputError(msg)
        encoded = pc.fill_null(values, "").dictionary_encode()
        cells, codes = encoded.dictionary.to_pylist(), convert_column(encoded.indices)
        if is_list:
            is_unrated, names = convert_column(array.is_null()), [[cell] for cell in cells]
        else:
            is_blank = pc.equal(pc.utf8_trim_whitespace(values), "")
            is_unrated = convert_column(pc.fill_null(is_blank, fill_value=True))
            self._refuse_joined_names(chunk, cells, codes, ids)
            names = [split_names(cell, self._separator) for cell in cells]
        mentions = np.zeros((len(array), len(self._names)), dtype=np.bool_)
        np.logical_or.at(mentions, rows, self._match_names(names)[codes])
        return {
            identity: pa.array(mentions[:, i].astype(np.float64), mask=is_unrated)
            for i, identity in enumerate(self._names)
        }

    def list_unmatched(self) -> dict[str, JsonValue]:
        """Return the names without a match in any row so far, by identity."""
        names: dict[str, JsonValue] = {
            identity: [word for word in words if normalize_name(word) in self._unmatched]
            for identity, words in self._names.items()
        }
        return {identity: words for identity, words in names.items() if words}

    def require_matches(self) -> None:
        """Raise an error if no row has any of the names: the column or the names are wrong."""
        if len(self._unmatched) < len(self._owners):
            return
        are_names = len(self._other_names) <= _MAX_NAMES and all(
            len(name) <= _MAX_NAME_LENGTH and len(name.split()) <= _MAX_NAME_WORDS
            for name in self._other_names
        )
        shown = ", ".join(map(repr, sorted(self._other_names)))
        hint = f"Instead it has {shown}." if shown and are_names else "Check `column` and `names`."
        msg = f"some rows must have a name from `names`; none has {self._place}. {hint}"
        raise InputError(msg)

    def _refuse_joined_names(
        self, chunk: Chunk, cells: list[str], codes: np.ndarray, ids: pa.Array
    ) -> None:
        """Refuse texts of several names without a separator, or with a second separator."""
        guesses = [
            None
            if cell.lstrip().startswith("[")
            else next(
                filter(None, map(self._find_separator, split_names(cell, self._separator))), None
            )
            for cell in cells
        ]
        if mark := next(filter(None, guesses), None):
            is_joined = np.array([guess is not None for guess in guesses])
            hint = (
                f' Set `separator: "{mark}"`; if it is a single name, set a separator that no name '
                "has."
            )
            rule = "a cell must hold a single name, unless `separator` is set"
            if self._separator is not None:
                rule = f"names must be separated by `separator` ({self._separator!r}), or nothing"
                hint = f" This cell also has {mark!r}: use a single separator in all cells."
            refuse_values(chunk, self._column, pa.array(is_joined[codes]), rule, ids, hint=hint)

    def _find_separator(self, cell: str) -> str | None:
        """Return the separator in a text with a known name; None if the text is a single name."""
        if normalize_name(cell) in self._owners:
            return None
        for mark in NAME_SEPARATORS:
            if mark in cell and any(
                normalize_name(part) in self._owners for part in cell.split(mark)
            ):
                return mark
        return None

    def _match_names(self, cells: Sequence[Sequence[str]]) -> np.ndarray:
        """Return flags, shape (n_cells, n_identities): the identities that each cell names."""
        flags = np.zeros((len(cells), len(self._names)), dtype=np.bool_)
        for row, cell in enumerate(cells):
            for name in map(normalize_name, cell):
                if name in self._owners:
                    flags[row, self._owners[name]] = True
                    self._unmatched.discard(name)
                elif name and len(self._other_names) <= _MAX_NAMES:
                    self._other_names.add(name)
        return flags


def guess_separator(cells: Mapping[str, int]) -> str | None:
    """Return the most frequent separator of names; None if no cell has a separator.

    `cells` maps each distinct text to its number of rows.
    """
    counts = {
        mark: sum(n for cell, n in cells.items() if mark in cell and not cell.startswith("["))
        for mark in NAME_SEPARATORS
    }
    mark = max(counts, key=lambda mark: counts[mark])
    return mark if counts[mark] else None


def split_names(cell: str, separator: str | None) -> list[str]:
    """Return the names in a text: a list in the notation of Python or JSON, or separated names."""
    if cell.strip().startswith("["):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return [str(name) for name in ast.literal_eval(cell.strip()) if name is not None]
        cell = cell.strip().strip("[]").replace("'", "").replace('"', "")
        separator = separator or ","
    return [cell] if separator is None else cell.split(separator)
