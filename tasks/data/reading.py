"""Converting and checking the raw columns of a file.

Numbers in CSV files are read as text and converted here, so that an error can name the place of
a bad one and no digit is lost. Error texts never quote a comment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics.parts import LARGEST_WHOLE
from biasgate.tasks.common.errors import InputError, place
from biasgate.tasks.data.chunks import Chunk
from biasgate.tasks.data.plain_columns import (
    form_of,
    hint_for_lists,
    is_text,
    plain_column,
    to_float64,
    words_of,
)

ROW_NUMBER = "row_number"
_WRONG = "not a number"
_BOOLEANS = {"true": 1.0, "false": 0.0}
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
_YES = frozenset({"yes", "y", "ja", "j", "si", "sí", "oui", "sim", "tak", "on", "true", "да", "是"})
_PERCENT = re.compile(r"[-+]?\d+(\.\d+)?\s*%")
_NUMERIC = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_null,
)
_LIKE_A_TEXT = (
    r"\S\s+\S+\s+\S+\s+\S"  # four words
    r"|[^\x00-\x7F]{12}"  # or as many letters of a script without spaces
    r"|[\x{3001}\x{3002}\x{FF01}\x{FF0C}\x{FF1F}\x{0964}\x{060C}\x{061F}]"  # or its commas
)
_NO_NUMBER = pa.array(["", "NA", "N/A", "NaN", "nan", "null", "None"])


def to_ids(chunk: Chunk, column: str) -> pa.Array:
    """Return the ids as strings; `row_number` numbers the rows from 0.

    Ids that are missing, fractions or look like comments are refused.
    """
    if column == ROW_NUMBER:
        first = chunk.rows_before + chunk.first_row
        return pa.array(np.arange(first, first + chunk.table.num_rows)).cast(pa.string())
    raw = plain_column(chunk, column)
    if pa.types.is_floating(raw.type):
        msg = (
            f"ids must be whole numbers or text; got {raw.type} "
            f"{place(file=chunk.path, column=column)}."
        )
        raise InputError(msg)
    ids = raw.cast(pa.string())
    refuse_values(chunk, column, _are_empty(ids), "an id must not be empty")
    # Ids are kept with the scores and uploaded with the evidence, where no comment may be.
    like_text = pc.match_substring_regex(ids, _LIKE_A_TEXT)
    hint = " Name a column of short ids with `id`, or number the rows: `id: row_number`."
    refuse_values(chunk, column, like_text, "an id must not look like a comment", hint=hint)
    return ids


def to_text(chunk: Chunk, column: str, ids: pa.Array) -> pa.Array:
    """Return the texts; an empty text stays empty, a missing one is refused."""
    raw = plain_column(chunk, column)
    if not is_text(raw.type):
        msg = f"texts must be strings; got {raw.type} {place(file=chunk.path, column=column)}."
        raise InputError(msg)
    refuse_values(chunk, column, pc.is_null(raw), "a text must not be missing", ids)
    return raw.cast(pa.large_string())


def to_strings(chunk: Chunk, column: str, ids: pa.Array) -> pa.Array:
    """Return a column of names (a cluster, say) as strings; a missing name is refused."""
    raw = plain_column(chunk, column).cast(pa.string())
    refuse_values(chunk, column, _are_empty(raw), "a value must not be missing", ids)
    return raw


def _are_empty(texts: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(texts, ""), fill_value=True)


def to_numbers(
    chunk: Chunk,
    column: str,
    ids: pa.Array | None = None,
    *,
    if_words: str = "",
    if_text: str = "",
) -> pa.Array:
    """Return numbers as float64; an empty cell and NaN become null, others are refused.

    `if_words` is the remedy for a column of a few words, which it may name as WORDS; `if_text` for
    other text.
    """
    raw = plain_column(chunk, column)
    if is_text(raw.type):
        raw = pc.utf8_trim_whitespace(raw)
        absent = pc.is_in(raw, value_set=_NO_NUMBER.cast(raw.type))
        raw = pc.if_else(absent, pa.scalar(None, raw.type), raw)
        if chunk.decimal == ",":
            with_point = pc.fill_null(pc.match_substring(raw, "."), fill_value=False)
            rule = "a number must have a decimal comma, not a point (`decimal`)"
            refuse_values(chunk, column, with_point, rule, ids)
            raw = pc.replace_substring(raw, ",", ".")
        # Not in the except block: Arrow's error quotes the value, which may be a comment.
        with suppress(pa.ArrowInvalid):
            return raw.cast(pa.float64())
        values = [_number(value) for value in raw.to_pylist()]
        wrong = pa.array([value is _WRONG for value in values])
        texts, words = [value or "" for value in raw.to_pylist()], words_of(raw)
        rule = "a value must be a number, true or false"
        if any(map(_PERCENT.fullmatch, texts)):
            rule = f"{rule}, without `%`"
        if any(map(_DECIMAL_COMMA.fullmatch, texts)):
            hint = ' Set `decimal: ","`, or write decimals with a point.'
        elif any(text.startswith(("[{", "{")) for text in texts):
            hint = " It holds lists or objects: write a single number for each row."
        else:
            hint = hint_for_lists(raw, wrong, column)
            hint = hint or (if_words.replace("WORDS", _as_mapping(words)) if words else if_text)
        refuse_values(chunk, column, wrong, rule, ids, raw if words else None, hint)
        return pa.array(values, pa.float64())
    if not any(is_kind(raw.type) for is_kind in _NUMERIC):
        msg = f"values must be numbers; got {raw.type} {place(file=chunk.path, column=column)}."
        raise InputError(msg)
    numbers = to_float64(raw)
    # Only if needed: for thousands of columns this takes longer than reading them.
    if pa.types.is_floating(raw.type) and pc.any(pc.is_nan(numbers)).as_py():
        return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    return numbers


def to_fractions(
    chunk: Chunk, column: str, ids: pa.Array, *, nullable: bool, hint: str = "", **if_no_number: str
) -> pa.Array:
    """Return fractions in [0, 1], nulls only if `nullable`; refuse other values.

    `hint` is the remedy for a number outside [0, 1]; `if_no_number` are those of `to_numbers`.
    """
    numbers = to_numbers(chunk, column, ids, **if_no_number)
    ends = pc.min_max(numbers).as_py()
    fit = ends["min"] is not None and 0 <= ends["min"] <= ends["max"] <= 1
    if fit and (nullable or not numbers.null_count):
        return numbers
    outside = pc.invert(pc.and_(pc.greater_equal(numbers, 0.0), pc.less_equal(numbers, 1.0)))
    rule = "a fraction must be in [0, 1]"
    outside = pc.fill_null(outside, fill_value=False)
    refuse_values(chunk, column, outside, rule, ids, numbers, hint)
    if not nullable:
        cure = _cure_missing(chunk, column, numbers.null_count)
        refuse_values(chunk, column, pc.is_null(numbers), rule, ids, numbers, cure)
    return numbers


def to_scores(
    chunk: Chunk, column: str, ids: pa.Array, *, allow_missing: bool = False, if_none: str
) -> pa.Array:
    """Return finite scores, NaN for those that may be missing; refuse others.

    `if_none` says what to do if some are missing and must not be.
    """
    numbers = to_numbers(chunk, column, ids)
    if allow_missing:
        numbers = pc.fill_null(numbers, float("nan"))
        wrong = pc.is_inf(numbers)
    else:
        wrong = pc.invert(pc.fill_null(pc.is_finite(numbers), fill_value=False))
    hint = f"{_count_missing(chunk, numbers.null_count)} {if_none}"
    rule = "a score must be a finite number"
    refuse_values(chunk, column, wrong, rule, ids, numbers, hint if numbers.null_count else "")
    large = pc.greater_equal(pc.abs(pc.fill_null(numbers, 0.0)), float(LARGEST_WHOLE))
    rule = "a score must be below 2^53 in size: larger whole numbers that differ become equal"
    refuse_values(chunk, column, large, rule, ids)
    return numbers


def is_number(text: str) -> bool:
    """Return whether a text is a number, true or false."""
    return _number(text) is not _WRONG


def is_decimal_comma(text: str) -> bool:
    """Return whether a text is a number with a decimal comma."""
    return _DECIMAL_COMMA.fullmatch(text) is not None


def means_yes(word: str) -> bool:
    """Return whether a word of a label says that it holds, in some languages."""
    return word.strip().casefold() in _YES


def refuse_words(chunk: Chunk, column: str) -> None:
    """Refuse a label column of a few short words, such as toxic and nontoxic, and list them."""
    raw = plain_column(chunk, column)
    wrong = [word.strip() for word in words_of(raw) if _number(word.strip()) is _WRONG]
    if wrong and not any(map(_DECIMAL_COMMA.fullmatch, wrong)):
        msg = (
            f"a label must be a fraction, 0 or 1, or true or false; got words such as "
            f"{', '.join(map(repr, wrong[:4]))} {place(file=chunk.path, column=column)}. Map each "
            "word to a label, as in `label_values: {toxic: 1, nontoxic: 0}`."
        )
        raise InputError(msg)


def _as_mapping(words: Collection[str]) -> str:
    """Return words as a mapping to 1 and 0, as far as it is plain which mean yes."""
    numbers = {word: int(means_yes(word)) for word in words}
    if len(set(numbers.values())) < len(numbers):
        return "{...: 1, ...: 0}"
    return str(dict(sorted(numbers.items(), key=lambda of: -of[1])))


def without_values(
    chunk: Chunk, column: str, values: Collection[str]
) -> tuple[Chunk, pa.Array | None]:
    """Return a chunk with 0 for some values of a column, and which rows have them; None if none."""
    raw = plain_column(chunk, column)
    rows = pc.is_valid(_places(raw, values)) if values else None
    if rows is None or not pc.any(rows).as_py():
        return chunk, None
    filled = pc.if_else(rows, pa.scalar("0").cast(raw.type), raw)
    at = chunk.table.column_names.index(column)
    return replace(chunk, table=chunk.table.set_column(at, column, filled)), rows


def _places(raw: pa.Array, values: Collection[str]) -> pa.Array:
    """Return where each value of a column is among some values, first as it is written there."""
    encoded = raw.cast(pa.string()).dictionary_encode()
    exact = {value: at for at, value in enumerate(values)}
    by_form = {form_of(value): at for value, at in reversed(exact.items())}
    words = encoded.dictionary.to_pylist()
    places = [exact.get(word, by_form.get(form_of(word))) for word in words]
    return pa.array(places, pa.int64()).take(encoded.indices)


def to_mapped(
    chunk: Chunk, column: str, ids: pa.Array, values: Mapping[str, float | None]
) -> pa.Array:
    """Return the fractions that a mapping such as `{"toxic": 1, "nontoxic": 0}` names.

    Values that it lacks are refused.
    """
    raw = plain_column(chunk, column).cast(pa.string())
    position = _places(raw, values)
    wrong = pc.is_null(position)
    absent = pc.and_(_are_empty(raw), wrong)
    cure = _cure_missing(chunk, column, pc.sum(absent).as_py() or 0)
    refuse_values(chunk, column, absent, "a label must not be missing", ids, hint=cure)
    rule = f"a label must be one of {', '.join(map(repr, values))} (`label_values`)"
    refuse_values(chunk, column, wrong, rule, ids, raw if words_of(raw) else None)
    return pa.array(list(values.values()), pa.float64()).take(position)


def _number(value: str | None) -> float | str | None:
    if value is None:
        return None
    if value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    try:
        return float(value)
    except ValueError:
        return _WRONG


def refuse_values(
    chunk: Chunk,
    column: str,
    wrong: pa.Array,
    rule: str,
    ids: pa.Array | None = None,
    values: pa.Array | None = None,
    hint: str = "",
) -> None:
    """Refuse the first wrong value of a column, with its place; `values` are shown if given."""
    rows = np.flatnonzero(np.asarray(wrong.to_numpy(zero_copy_only=False), dtype=bool))
    if rows.size:
        first = int(rows[0])
        row_id = None if ids is None else ids[first].as_py()
        where = place(file=chunk.path, column=column, row=chunk.first_row + first, id=row_id)
        value = None if values is None else values[first].as_py()
        got = "" if values is None else f"; got {'nothing' if value is None else value}"
        msg = f"{rule}{got} {where}.{hint}"
        raise InputError(msg)


def _count_missing(chunk: Chunk, n_missing: int) -> str:
    """Return how many rows have no value; the chunks before this one lack none."""
    n_rows = chunk.first_row + chunk.table.num_rows
    return f" {n_missing:,} of the first {n_rows:,} rows have none."


def _cure_missing(chunk: Chunk, column: str, n_missing: int) -> str:
    count = _count_missing(chunk, n_missing)
    return f'{count} Remove these rows: `t.dropna(subset=["{column}"])`.'
