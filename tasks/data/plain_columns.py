"""Columns of a file as plain values, independent of their Arrow type in the file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics.parts import widen_floats
from biasgate.tasks.common.errors import InputError, format_id
from biasgate.tasks.common.printable import remove_invisible
from biasgate.tasks.data.chunks import Chunk

_TEXT_OR_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def read_plain_column(chunk: Chunk, column: str) -> pa.Array:
    """Return a column as a single array of plain values; text of any Arrow type as strings.

    Refuse nested values, and text that is not UTF-8.
    """
    array = chunk.table.column(column).combine_chunks()
    location = chunk.locate_column(column)
    if pa.types.is_nested(array.type):
        # The full name of the type quotes the names of its fields, which may hold a comment.
        kind = str(array.type).partition("<")[0]
        msg = f"a column must hold a single value in each row; got {kind} {location}."
        raise InputError(msg)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not any(is_kind(array.type) for is_kind in _TEXT_OR_BYTES):
        return array
    # Raise outside of an except block: Arrow's error quotes the value.
    with suppress(pa.ArrowInvalid):
        # Some programs write text as bytes.
        array = array if is_string_type(array.type) else array.cast(pa.large_string())
        array.validate(full=True)
        return array
    msg = f"a text column must be UTF-8; it is not {location}."
    raise InputError(msg)


def convert_to_float64(array: pa.Array) -> pa.Array:
    """Convert numbers of any Arrow type to float64; half floats and decimals as they print.

    Raise ArrowInvalid or ArrowNotImplementedError if the values are not numbers.
    """
    kind = array.type
    if pa.types.is_float16(kind):
        return pa.array(widen_floats(array.to_numpy(zero_copy_only=False)), from_pandas=True)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_decimal(kind):
        array = array.cast(pa.string())  # Arrow converts the decimal .70 to .7000000000000001
    return array.cast(pa.float64(), safe=False)


MAX_WORDS, _MAX_WORD_LENGTH = 10, 20
_ID_MARGINS = " \t\r\n'\"`"


def list_words(raw: pa.Array) -> list[str]:
    """Return the distinct values of a column of few, short, repeated words; else an empty list.

    Error texts may quote only such a column: any other column may hold comments.
    """
    if not is_string_type(raw.type):
        return []
    words = [value for value in pc.unique(raw).to_pylist() if value]
    are_few = len(words) <= MAX_WORDS and 2 * len(words) <= len(raw)
    return words if are_few and all(len(word) <= _MAX_WORD_LENGTH for word in words) else []


_NUMBER_PATTERN = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d{1,2})?")


def normalize_value(text: str) -> str:
    """Return the normal form of a value: `1` for `1.0`, `001` and ` 1`."""
    text = text.strip()
    if _NUMBER_PATTERN.fullmatch(text):
        return f"{Decimal(text).normalize():f}"
    return text.lower() if text.lower() in {"true", "false"} else text


def suggest_id_form(wanted: Iterable[str], present: Iterable[str]) -> str:
    """Return the remedy if missing ids are present in another form, as `7.0` for `7`; else ""."""
    ids_by_form = {_normalize_id(present_id): present_id for present_id in present}
    for wanted_id in wanted:
        present_id = ids_by_form.get(_normalize_id(wanted_id))
        if present_id is None:
            continue
        texts = wanted_id.strip(), present_id.strip()
        remedy = "Write ids in the same form in both files."
        if any(text.endswith(".0") for text in texts):
            remedy = (
                "Write ids that are whole numbers without `.0`: in pandas, with `.astype('int64')` "
                "before you write the file."
            )
        elif all(map(_NUMBER_PATTERN.fullmatch, texts)):
            remedy = (
                "Make the file again from ids that were read as text (in pandas, `dtype=str`): a "
                "number loses its leading zeros, and its last digits if it is large."
            )
        return (
            f" Some ids differ only in their form, as {format_id(present_id)} does from "
            f"{format_id(wanted_id)}. {remedy}"
        )
    return ""


def _normalize_id(text: str) -> str:
    visible = remove_invisible(unicodedata.normalize("NFKC", text)).strip(_ID_MARGINS)
    return normalize_value(visible).casefold()


def stringify_scalar(value: object) -> object:
    """Return numbers and booleans as YAML writes them; other values unchanged."""
    return str(value).lower() if isinstance(value, bool | int | float) else value


def is_string_type(kind: pa.DataType) -> bool:
    """Check if an Arrow type is a string type."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


# Several names in a cell, as in `muslim,gay` and `['muslim', 'gay']`.
_LIST_PATTERN = re.compile(
    r"""\[\]|\[?['\"]?[\w-]+['\"]?(?:(?P<by>, ?|; ?|\|)['\"]?[\w-]+['\"]?)*\]?"""
)


def refuse_lists(chunk: Chunk, column: str) -> None:
    """Refuse an identity column that holds lists of names instead of fractions."""
    kind = chunk.table.column(column).type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        msg = (
            f"a column in `identities` must hold fractions, or 0 and 1; got lists "
            f"{chunk.locate_column(column)}.{suggest_names_option(column)}"
        )
        raise InputError(msg)


def suggest_list_option(raw: pa.Array, wrong: pa.Array, column: str) -> str:
    """Return the option that reads a column of cells such as `muslim,gay`; else ""."""
    cells = [value for value in pc.unique(raw.filter(wrong)).to_pylist() if value]
    lists = [_LIST_PATTERN.fullmatch(cell) for cell in cells]
    separators = [match["by"] for match in lists if match and match["by"]]
    if not all(lists) or not separators:
        return ""
    if any(cell.startswith("[") for cell in cells):
        return suggest_names_option(column)
    return suggest_names_option(column, f', separator: "{separators[0].strip()}"')


def suggest_names_option(column: str, suffix: str = "") -> str:
    """Return a sentence that suggests the option for a column of identity names."""
    return (
        " If it holds names of identities, write `identities: "
        f"{{column: {column}, names: [...]{suffix}}}` with the names to measure."
    )
