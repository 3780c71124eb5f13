"""Columns of a file as plain values, whatever Arrow type the file gives them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics.parts import widen_floats
from biasgate.tasks.common.errors import InputError, place, shown_id
from biasgate.tasks.common.printable import without_invisible
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

    Nested values, and text that is not UTF-8, are refused.
    """
    array = chunk.table.column(column).combine_chunks()
    where = place(file=chunk.path, column=column)
    if pa.types.is_nested(array.type):
        # The name of its type has the names of its fields, which may be anything.
        kind = str(array.type).partition("<")[0]
        msg = f"a column must hold a single value in each row; got {kind} {where}."
        raise InputError(msg)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not any(is_kind(array.type) for is_kind in _TEXT_OR_BYTES):
        return array
    # Not refused in an except block: Arrow's error quotes the value.
    with suppress(pa.ArrowInvalid):
        # Bytes that are text, as some programs write it, become text.
        array = array if is_text(array.type) else array.cast(pa.large_string())
        array.validate(full=True)
        return array
    msg = f"a text column must be UTF-8; it is not {where}."
    raise InputError(msg)


def to_float64(array: pa.Array) -> pa.Array:
    """Return numbers of any Arrow type in 64 bits: those of 16 bits, and decimals, as they print.

    Raises ArrowInvalid or ArrowNotImplementedError if its values are not numbers.
    """
    kind = array.type
    if pa.types.is_float16(kind):
        return pa.array(widen_floats(array.to_numpy(zero_copy_only=False)), from_pandas=True)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_decimal(kind):
        array = array.cast(pa.string())  # Arrow makes .7000000000000001 of the decimal .70
    return array.cast(pa.float64(), safe=False)


MOST_WORDS, _LONGEST_WORD = 10, 20
_AROUND_IDS = " \t\r\n'\"`"


def words_of(raw: pa.Array) -> list[str]:
    """Return the values of a column of a few short, repeated words; else nothing.

    Only such a column may be quoted: another may hold comments.
    """
    if not is_text(raw.type):
        return []
    words = [value for value in pc.unique(raw).to_pylist() if value]
    are_few = len(words) <= MOST_WORDS and 2 * len(words) <= len(raw)
    return words if are_few and all(len(word) <= _LONGEST_WORD for word in words) else []


_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d{1,2})?")


def form_of(text: str) -> str:
    """Return what all forms of a value have in common: `1` of `1.0`, `001` and ` 1`."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return f"{Decimal(text).normalize():f}"
    return text.lower() if text.lower() in {"true", "false"} else text


def hint_for_forms(wanted: Iterable[str], present: Iterable[str]) -> str:
    """Return what to do if missing ids are present in another form, as `7.0` for `7`."""
    by_form = {_plain_form(other): other for other in present}
    for wanted_id in wanted:
        other = by_form.get(_plain_form(wanted_id))
        if other is None:
            continue
        texts = wanted_id.strip(), other.strip()
        cure = "Write ids in the same form in both files."
        if any(text.endswith(".0") for text in texts):
            cure = (
                "Write ids that are whole numbers without `.0`: in pandas, with `.astype('int64')` "
                "before you write the file."
            )
        elif all(map(_NUMBER.fullmatch, texts)):
            cure = (
                "Make the file again from ids that were read as text (in pandas, `dtype=str`): a "
                "number loses its leading zeros, and its last digits if it is large."
            )
        return (
            f" Some ids differ only in their form, as {shown_id(other)} does from "
            f"{shown_id(wanted_id)}. {cure}"
        )
    return ""


def _plain_form(text: str) -> str:
    visible = without_invisible(unicodedata.normalize("NFKC", text)).strip(_AROUND_IDS)
    return form_of(visible).casefold()


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
            f"{place(file=chunk.path, column=column)}.{option_of_names(column)}"
        )
        raise InputError(msg)


def hint_for_lists(raw: pa.Array, wrong: pa.Array, column: str) -> str:
    """Return the option for a column of cells such as `muslim,gay`; else ""."""
    cells = [value for value in pc.unique(raw.filter(wrong)).to_pylist() if value]
    lists = [_LIST.fullmatch(cell) for cell in cells]
    separators = [match["by"] for match in lists if match and match["by"]]
    if not all(lists) or not separators:
        return ""
    in_brackets = any(cell.startswith("[") for cell in cells)
    return option_of_names(column, "" if in_brackets else f', separator: "{separators[0].strip()}"')


def option_of_names(column: str, more: str = "") -> str:
    """Return the sentence on the option that reads a column of identity names."""
    return (
        " If it holds names of identities, write `identities: "
        f"{{column: {column}, names: [...]{more}}}` with the names to measure."
    )
