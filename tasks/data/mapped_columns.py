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
    " Divide percentages by 100. If the numbers are codes, map each to a label, as in "
    '`label_values: {"1": 0, "2": 1}`; null excludes a row, as in `{"-1": null}` if -1 means '
    "unlabelled."
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
        rule = "a weight must be a whole number if `weight_kind` is `frequency`"
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
        is_list = any(is_kind(array.type) for is_kind in _LISTS)
        if is_list:
            rows, values = as_numpy(pc.list_parent_indices(array)), pc.list_flatten(array)
            values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        else:
            rows, values = np.arange(len(array)), plain_column(chunk, self._column)
        kind = values.type
        if pa.types.is_integer(kind) or pa.types.is_null(kind):
            values = values.cast(pa.string())
        if not is_text(values.type):
            msg = (
                "`column` of `identities` must hold names or lists of names; got "
                f"{'lists of other values than names' if is_list else kind} {self._where}. "
                "List columns of 0 and 1, as in `identities: [muslim, gay]`."
            )
            raise InputError(msg)
        encoded = pc.fill_null(values, "").dictionary_encode()
        cells, codes = encoded.dictionary.to_pylist(), as_numpy(encoded.indices)
        if is_list:
            unrated, names = as_numpy(array.is_null()), [[cell] for cell in cells]
        else:
            blank = pc.equal(pc.utf8_trim_whitespace(values), "")
            unrated = as_numpy(pc.fill_null(blank, fill_value=True))
            self._refuse_joined(chunk, cells, codes, ids)
            names = [split_names(cell, self._separator) for cell in cells]
        mentions = np.zeros((len(array), len(self._names)), dtype=np.bool_)
        np.logical_or.at(mentions, rows, self._find(names)[codes])
        return {
            identity: pa.array(mentions[:, at].astype(np.float64), mask=unrated)
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
        are_names = len(self._others) <= _MOST_NAMES and all(
            len(other) <= _LONGEST_NAME and len(other.split()) <= _MOST_WORDS
            for other in self._others
        )
        shown = ", ".join(map(repr, sorted(self._others)))
        hint = f"Instead it has {shown}." if shown and are_names else "Check `column` and `names`."
        msg = f"some rows must have a name from `names`; none has {self._where}. {hint}"
        raise InputError(msg)

    def _refuse_joined(
        self, chunk: Chunk, cells: list[str], codes: np.ndarray, ids: pa.Array
    ) -> None:
        """Refuse texts of several names if no separator is set."""
        if self._separator is not None:
            return
        marks = [self._guess_separator(cell) for cell in cells]
        if mark := next(filter(None, marks), None):
            several = np.array([mark is not None for mark in marks])
            hint = (
                f' Set `separator: "{mark}"`; if it is a single name, set a separator that no name '
                "has."
            )
            rule = "a cell must hold a single name, unless `separator` is set"
            refuse_values(chunk, self._column, pa.array(several[codes]), rule, ids, hint=hint)

    def _guess_separator(self, cell: str) -> str | None:
        """Return what separates the names in a text that is no known name itself, if anything."""
        if cell.lstrip().startswith("[") or _folded(cell) in self._owners:
            return None
        for mark in _SEPARATORS:
            if mark in cell and any(_folded(part) in self._owners for part in cell.split(mark)):
                return mark
        return None

    def _find(self, cells: Sequence[Sequence[str]]) -> np.ndarray:
        """Return which identities the names of each cell belong to."""
        flags = np.zeros((len(cells), len(self._names)), dtype=np.bool_)
        for at, cell in enumerate(cells):
            for name in map(_folded, cell):
                if name in self._owners:
                    flags[at, self._owners[name]] = True
                    self._unmatched.discard(name)
                elif name and len(self._others) <= _MOST_NAMES:
                    self._others.add(name)
        return flags


def guess_separator(cells: Mapping[str, int]) -> str | None:
    """Return the mark that separates names in most of the cells that have any; None without.

    `cells`: how many rows have each text.
    """
    counts = {
        mark: sum(n for cell, n in cells.items() if mark in cell and not cell.startswith("["))
        for mark in _SEPARATORS
    }
    mark = max(counts, key=lambda mark: counts[mark])
    return mark if counts[mark] else None


def split_names(cell: str, separator: str | None) -> list[str]:
    """Return the names in a text: a list as Python and JSON write it, or separated names."""
    if cell.strip().startswith("["):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return [str(name) for name in ast.literal_eval(cell.strip()) if name is not None]
        cell = cell.strip().strip("[]").replace("'", "").replace('"', "")
        separator = separator or ","
    return [cell] if separator is None else cell.split(separator)


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
