"""Conversion and validation of the raw columns of a file.

Numbers in CSV files are read as text and converted here. No digit is lost, and an error names the
place of the invalid value. Error texts never quote a comment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics.parts import LARGEST_WHOLE
from biasgate.tasks.common.errors import InputError, format_place
from biasgate.tasks.data.chunks import Chunk
from biasgate.tasks.data.plain_columns import (
    convert_to_float64,
    is_string_type,
    list_words,
    normalize_value,
    read_plain_column,
    suggest_list_option,
)

ROW_NUMBER = "row_number"
_INVALID = "not a number"
_BOOLEANS = {"true": 1.0, "false": 0.0}
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
_YES_WORDS = (
    *("yes", "y", "ja", "j", "si", "sí", "sì", "oui", "o", "sim", "tak", "on", "да", "是"),
    *("true", "wahr", "vrai", "vero", "verdadero", "verdadeiro"),
)
_NO_WORDS = (
    *("no", "n", "nein", "nee", "non", "não", "nao", "nie", "off", "нет", "否", "不是"),
    *("false", "falsch", "faux", "falso"),
)
_MARKS = ("x", "✓", "✔", "☑")
YES_OR_NO = {**dict.fromkeys(_NO_WORDS, 0.0), **dict.fromkeys([*_YES_WORDS, *_MARKS], 1.0)}
"""Meaning of words such as *yes* and *non* in several languages, and of marks such as *x*."""
_MIN_ROWS_OF_TOTAL = 10
_THOUSANDS = re.compile(r"[-+]?\d{1,3}((\.\d{3})+(,\d*)?|(,\d{3})+(\.\d*))")
_PERCENT = re.compile(r"[-+]?\d+(\.\d+)?\s*%")
_NUMERIC_TYPES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_null,
)
_COMMENT_PATTERN = (
    r"\S\s+\S+\s+\S+\s+\S"  # four words
    r"|[^\x00-\x7F]{12}"  # or a comparable length in a script without spaces
    r"|[\x{3001}\x{3002}\x{FF01}\x{FF0C}\x{FF1F}\x{0964}\x{060C}\x{061F}]"  # or its punctuation
)
_MISSING_NUMBERS = pa.array(["", "NA", "N/A", "NaN", "nan", "null", "None"])


def convert_ids(chunk: Chunk, column: str) -> pa.Array:
    """Return the ids as strings; `row_number` numbers the rows from 0.

    Refuse ids that are missing, are fractions, or look like comments.
    """
    if column == ROW_NUMBER:
        start = chunk.rows_before + chunk.first_row
        return pa.array(np.arange(start, start + chunk.table.num_rows)).cast(pa.string())
    raw = read_plain_column(chunk, column)
    if pa.types.is_floating(raw.type):
        msg = f"ids must be whole numbers or text; got {raw.type} {chunk.locate_column(column)}."
        raise InputError(msg)
    ids = raw.cast(pa.string())
    refuse_values(chunk, column, _find_empty(ids), "an id must not be empty")
    # Ids are stored with the scores and uploaded with the evidence; comments must not be.
    is_comment = pc.match_substring_regex(ids, _COMMENT_PATTERN)
    hint = " Name a column of short ids with `id`, or number the rows: `id: row_number`."
    refuse_values(chunk, column, is_comment, "an id must not look like a comment", hint=hint)
    return ids


def convert_texts(chunk: Chunk, column: str, ids: pa.Array) -> pa.Array:
    """Return the texts; keep empty texts and refuse missing texts."""
    raw = read_plain_column(chunk, column)
    if not is_string_type(raw.type):
        msg = f"texts must be strings; got {raw.type} {chunk.locate_column(column)}."
        raise InputError(msg)
    refuse_values(chunk, column, pc.is_null(raw), "a text must not be missing", ids)
    return raw.cast(pa.large_string())


def convert_names(chunk: Chunk, column: str, ids: pa.Array) -> pa.Array:
    """Return a column of names, such as clusters, as strings; refuse missing names."""
    raw = read_plain_column(chunk, column).cast(pa.string())
    refuse_values(chunk, column, _find_empty(raw), "a value must not be missing", ids)
    return raw


def _find_empty(texts: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(texts, ""), fill_value=True)


def convert_numbers(
    chunk: Chunk,
    column: str,
    ids: pa.Array | None = None,
    *,
    words_hint: str = "",
    text_hint: str = "",
    meanings: Mapping[str, float] = _BOOLEANS,
) -> pa.Array:
    """Return numbers as float64; empty cells and NaN become null, other values are refused.

    `words_hint` is the remedy for a column of a few different words; WORDS in it is replaced with a
    mapping of the words. `text_hint` is the remedy for other text. `meanings` maps words to
    numbers.
    """
    raw = read_plain_column(chunk, column)
    if is_string_type(raw.type):
        raw = pc.utf8_trim_whitespace(raw)
        is_missing = pc.is_in(raw, value_set=_MISSING_NUMBERS.cast(raw.type))
        raw = pc.if_else(is_missing, pa.scalar(None, raw.type), raw)
        if chunk.decimal == ",":
            has_point = pc.fill_null(pc.match_substring(raw, "."), fill_value=False)
            rule = "a number must have a decimal comma, not a point (`decimal`)"
            pointed = [value or "" for value in raw.filter(has_point).to_pylist()]
            if any(map(_THOUSANDS.fullmatch, pointed)) and any("," in text for text in pointed):
                rule = "a number must be without thousands separators, such as the point"
            refuse_values(chunk, column, has_point, rule, ids)
            raw = pc.replace_substring(raw, ",", ".")
        # Raise outside of an except block: Arrow's error quotes the value, possibly a comment.
        with suppress(pa.ArrowInvalid):
            return raw.cast(pa.float64())
        encoded = raw.dictionary_encode()
        texts, words = encoded.dictionary.to_pylist(), list_words(raw)
        values = [_parse_number(text, meanings) for text in texts]
        are_invalid = pa.array([value is _INVALID for value in values], pa.bool_())
        is_wrong = pc.fill_null(are_invalid.take(encoded.indices), fill_value=False)
        rule = "a value must be a number, true or false"
        if any(map(_PERCENT.fullmatch, texts)):
            rule = f"{rule}, without `%`"
            hint = (
                f" In pandas: `t['{column}'].str.rstrip('%').astype(float)`; divide fractions by "
                "100."
            )
        elif any(map(_DECIMAL_COMMA.fullmatch, texts)):
            hint = ' Set `decimal: ","`, or write decimals with a point.'
        elif any(text.startswith(("[{", "{")) for text in texts):
            hint = " It holds lists or objects: write a single number for each row."
        elif any(map(_THOUSANDS.fullmatch, texts)):
            rule = f"{rule}, without thousands separators"
            hint = ""
        else:
            mapping = ", ".join(f"{word!r}: ..." for word in sorted(words))
            hint = words_hint.replace("WORDS", f"{{{mapping}}}") if words else text_hint
            hint = suggest_list_option(raw, is_wrong, column) or hint
        refuse_values(chunk, column, is_wrong, rule, ids, raw if words else None, hint)
        return pa.array(values, pa.float64()).take(encoded.indices)
    if not any(is_kind(raw.type) for is_kind in _NUMERIC_TYPES):
        msg = f"values must be numbers; got {raw.type} {chunk.locate_column(column)}."
        raise InputError(msg)
    numbers = convert_to_float64(raw)
    # Replace NaN only if present: for thousands of columns this takes longer than reading them.
    if pa.types.is_floating(raw.type) and pc.any(pc.is_nan(numbers)).as_py():
        return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    return numbers


def convert_fractions(
    chunk: Chunk, column: str, ids: pa.Array, *, nullable: bool, hint: str = "", **text_options: Any
) -> pa.Array:
    """Return fractions in [0, 1], nulls only if `nullable`; refuse other values.

    `hint` is the remedy for a number outside [0, 1]; `text_options` are passed to
    `convert_numbers`.
    """
    numbers = convert_numbers(chunk, column, ids, **text_options)
    extremes = pc.min_max(numbers).as_py()
    are_valid = extremes["min"] is not None and 0 <= extremes["min"] <= extremes["max"] <= 1
    if are_valid and (nullable or not numbers.null_count):
        return numbers
    is_outside = pc.invert(pc.and_(pc.greater_equal(numbers, 0.0), pc.less_equal(numbers, 1.0)))
    rule = "a fraction must be in [0, 1]"
    is_outside = pc.fill_null(is_outside, fill_value=False)
    refuse_values(chunk, column, is_outside, rule, ids, numbers, hint)
    if not nullable:
        remedy = _suggest_removal(chunk, column, numbers.null_count)
        refuse_values(chunk, column, pc.is_null(numbers), rule, ids, numbers, remedy)
    return numbers


def convert_scores(
    chunk: Chunk, column: str, ids: pa.Array, *, allow_missing: bool = False, missing_hint: str
) -> pa.Array:
    """Return finite scores, with NaN for missing scores if allowed; refuse other values.

    `missing_hint` is the remedy for missing scores that are not allowed.
    """
    numbers = convert_numbers(chunk, column, ids)
    if allow_missing:
        numbers = pc.fill_null(numbers, float("nan"))
        is_wrong = pc.is_inf(numbers)
    else:
        is_wrong = pc.invert(pc.fill_null(pc.is_finite(numbers), fill_value=False))
    hint = f"{_describe_missing(chunk, numbers.null_count)} {missing_hint}"
    rule = "a score must be a finite number"
    refuse_values(chunk, column, is_wrong, rule, ids, numbers, hint if numbers.null_count else "")
    is_large = pc.greater_equal(pc.abs(pc.fill_null(numbers, 0.0)), float(LARGEST_WHOLE))
    rule = "a score must be below 2^53 in size: larger whole numbers that differ become equal"
    refuse_values(chunk, column, is_large, rule, ids)
    return numbers


def is_number(text: str) -> bool:
    """Check if a text is a number, true or false."""
    return _parse_number(text) is not _INVALID


def is_decimal_comma(text: str) -> bool:
    """Check if a text is a number with a decimal comma."""
    return _DECIMAL_COMMA.fullmatch(text) is not None


def parse_meaning(word: str) -> float | None:
    """Return the number that a text means, as 1 for `yes`; None for other texts."""
    value = _parse_number(word.strip(), YES_OR_NO)
    return value if isinstance(value, float) else None


def refuse_word_labels(chunk: Chunk, column: str) -> None:
    """Refuse a label column of words, such as toxic and nontoxic; the error lists them."""
    raw = read_plain_column(chunk, column)
    words = [word.strip() for word in list_words(raw) if _parse_number(word.strip()) is _INVALID]
    are_numbers = any(
        _DECIMAL_COMMA.fullmatch(word) or _THOUSANDS.fullmatch(word) for word in words
    )
    if words and not are_numbers:
        msg = (
            f"a label must be a fraction, 0 or 1, or true or false; got words such as "
            f"{', '.join(map(repr, words[:4]))} {chunk.locate_column(column)}. "
            "Map each word to a label, as in `label_values: {toxic: 1, nontoxic: 0}`."
        )
        raise InputError(msg)


def replace_values(
    chunk: Chunk, column: str, values: Collection[str]
) -> tuple[Chunk, pa.Array | None]:
    """Replace some values of a column with 0; also return the mask of the rows, None if empty.

    The replaced rows then pass the checks of the other rows, and the caller drops them.
    """
    raw = read_plain_column(chunk, column)
    mask = pc.is_valid(_find_positions(raw, values)) if values else None
    if mask is None or not pc.any(mask).as_py():
        return chunk, None
    filled = pc.if_else(mask, pa.scalar("0").cast(raw.type), raw)
    index = chunk.table.column_names.index(column)
    return replace(chunk, table=chunk.table.set_column(index, column, filled)), mask


def _find_positions(raw: pa.Array, values: Collection[str]) -> pa.Array:
    """Return the index in `values` for each value of a column; null if absent.

    An exact match has priority over a match of normalized values, such as `1.0` for `1`.
    """
    if pa.types.is_floating(raw.type):
        raw = pc.if_else(pc.is_nan(raw), pa.scalar(None, raw.type), raw)
    encoded = pc.fill_null(raw.cast(pa.string()), "").dictionary_encode()
    exact = {value: index for index, value in enumerate(values)}
    normalized = {normalize_value(value): index for value, index in reversed(exact.items())}
    words = encoded.dictionary.to_pylist()
    positions = [exact.get(word, normalized.get(normalize_value(word))) for word in words]
    return pa.array(positions, pa.int64()).take(encoded.indices)


def map_labels(
    chunk: Chunk, column: str, ids: pa.Array, values: Mapping[str, float | None]
) -> pa.Array:
    """Return labels by a mapping such as `{"toxic": 1, "nontoxic": 0}`; refuse other values."""
    raw = read_plain_column(chunk, column).cast(pa.string())
    positions = _find_positions(raw, values)
    is_unknown = pc.is_null(positions)
    is_missing = pc.and_(_find_empty(raw), is_unknown)
    remedy = _suggest_removal(chunk, column, pc.sum(is_missing).as_py() or 0)
    refuse_values(chunk, column, is_missing, "a label must not be missing", ids, hint=remedy)
    rule = f"a label must be one of {', '.join(map(repr, values))} (`label_values`)"
    refuse_values(chunk, column, is_unknown, rule, ids, raw if list_words(raw) else None)
    return pa.array(list(values.values()), pa.float64()).take(positions)


def _parse_number(
    value: str | None, meanings: Mapping[str, float] = _BOOLEANS
) -> float | str | None:
    if value is None:
        return None
    if (word := value.casefold()) in meanings:
        return meanings[word]
    try:
        return float(value)
    except ValueError:
        return _INVALID


def refuse_values(
    chunk: Chunk,
    column: str,
    is_wrong: pa.Array,
    rule: str,
    ids: pa.Array | None = None,
    values: pa.Array | None = None,
    hint: str = "",
) -> None:
    """Raise an error for the first wrong value, with its place; quote it only from `values`."""
    rows = np.flatnonzero(np.asarray(is_wrong.to_numpy(zero_copy_only=False), dtype=bool))
    if rows.size:
        first = int(rows[0])
        row_id = None if ids is None else ids[first].as_py()
        location = format_place(
            file=chunk.path, column=column, row=chunk.first_row + first, id=row_id
        )
        value = None if values is None else values[first].as_py()
        shown = "" if values is None else f"; got {'nothing' if value is None else value}"
        n_rows = chunk.table.num_rows
        if first == n_rows - 1 and n_rows >= _MIN_ROWS_OF_TOTAL:
            hint = f" It is the last row read: if it is a total, remove it.{hint}"
        msg = f"{rule}{shown} {location}.{hint}"
        raise InputError(msg)


def _describe_missing(chunk: Chunk, n_missing: int) -> str:
    """Return the sentence with the number of missing values; earlier chunks are complete."""
    n_rows = chunk.first_row + chunk.table.num_rows
    return f" {n_missing:,} of the first {n_rows:,} rows have none."


def _suggest_removal(chunk: Chunk, column: str, n_missing: int) -> str:
    count = _describe_missing(chunk, n_missing)
    return f'{count} Remove these rows: `t.dropna(subset=["{column}"])`.'
