"""Columns of a file as plain values, whatever Arrow type the file gives them."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics.parts import widened
from biasgate.tasks.common.errors import InputError, place
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


def plain_column(chunk: Chunk, column: str) -> pa.Array:
    """Return a column as one array of plain values; text of any Arrow type as strings.

    Raises
    ------
    InputError
        If its values are nested, or text that is not UTF-8.
    """
    array = chunk.table.column(column).combine_chunks()
    where = place(file=chunk.path, column=column)
    if pa.types.is_nested(array.type):
        # The name of its type has the names of its fields, which may be anything.
        kind = str(array.type).partition("<")[0]
        msg = f"a column must hold one value in each row; got {kind} {where}."
        raise InputError(msg)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if any(one(array.type) for one in _TEXT_OR_BYTES):
        try:
            # Bytes that are text, as some programs write it, become text.
            array = array if is_text(array.type) else array.cast(pa.large_string())
            array.validate(full=True)
        except pa.ArrowInvalid:
            array = None
    if array is None:
        msg = f"a column of text must be UTF-8; this one is not {where}."
        raise InputError(msg)
    return array


def to_float64(array: pa.Array) -> pa.Array:
    """Return numbers of any Arrow type in 64 bits: those of 16 bits, and decimals, as they print.

    Raises
    ------
    pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError
        If its values are not numbers.
    """
    kind = array.type
    if pa.types.is_float16(kind):
        return pa.array(widened(array.to_numpy(zero_copy_only=False)), from_pandas=True)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_decimal(kind):
        array = array.cast(pa.string())  # Arrow makes .7000000000000001 of the decimal .70
    return array.cast(pa.float64(), safe=False)


_MOST_WORDS, _LONGEST_WORD = 10, 20


def words_of(raw: pa.Array) -> list[str]:
    """Return the values of a column of a few short, repeated words; else nothing.

    Only such a column may be quoted: another may hold comments.
    """
    if not is_text(raw.type):
        return []
    found = [value for value in pc.unique(raw).to_pylist() if value]
    few = len(found) <= _MOST_WORDS and 2 * len(found) <= len(raw)
    return found if few and all(len(one) <= _LONGEST_WORD for one in found) else []


_WHOLE_NUMBER = re.compile(r"([-+]?)0*(\d+)(?:\.0*)?")


def form_of(text: str) -> str:
    """Return what all forms of a value have in common: `1` of `1.0`, `001` and ` 1`."""
    text = text.strip()
    if match := _WHOLE_NUMBER.fullmatch(text):
        return match[1].replace("+", "") + match[2]
    return text.lower() if text.lower() in {"true", "false"} else text


def as_written(value: object) -> object:
    """Return a number, true or false as text; other values unchanged."""
    return str(value).lower() if isinstance(value, bool | int | float) else value


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is that of strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


# Several names in a cell, as in `muslim,gay` and `['muslim', 'gay']`.
_LIST = re.compile(r"""\[\]|\[?['\"]?[\w-]+['\"]?(?:(?P<by>, ?|; ?|\|)['\"]?[\w-]+['\"]?)*\]?""")


def refuse_lists(chunk: Chunk, column: str) -> None:
    """Refuse a column of lists of names in place of fractions."""
    kind = chunk.table.column(column).type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        msg = (
            f"a column in `identities` must hold fractions, or 0 and 1; got lists "
            f"{place(file=chunk.path, column=column)}.{_option(column)}"
        )
        raise InputError(msg)


def hint_for_lists(raw: pa.Array, wrong: pa.Array, column: str) -> str:
    """Return the option for a column of cells such as `muslim,gay`; else ""."""
    found = [value for value in pc.unique(raw.filter(wrong)).to_pylist() if value]
    lists = [_LIST.fullmatch(one) for one in found]
    separators = [match["by"] for match in lists if match and match["by"]]
    if not all(lists) or not separators:
        return ""
    bare = not any(one.startswith("[") for one in found)
    return _option(column, f', separator: "{separators[0].strip()}"' if bare else "")


def _option(column: str, more: str = "") -> str:
    return (
        " If it holds names of identities, write `identities: "
        f"{{column: {column}, names: [...]{more}}}` with the names to measure."
    )
