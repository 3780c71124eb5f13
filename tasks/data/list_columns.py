"""Columns that hold names of identities where fractions are expected: refused with the option."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from biasgate.tasks.common.errors import InputError, place
from biasgate.tasks.data.chunks import Chunk

# Several names in a cell, as in `muslim,gay` and `['muslim', 'gay']`.
_LIST = re.compile(r"""\[\]|\[?['\"]?[\w-]+['\"]?(?:(?P<by>, ?|; ?|\|)['\"]?[\w-]+['\"]?)*\]?""")


def refuse_lists(chunk: Chunk, column: str) -> None:
    """Refuse a column of lists of names in place of fractions.

    Raises
    ------
    InputError
        If it holds lists.
    """
    kind = chunk.table.column(column).type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        msg = (
            f"a column in `identities` must hold fractions, or 0 and 1; got lists "
            f"{place(file=chunk.path, column=column)}.{_option(column)}"
        )
        raise InputError(msg)


def hint_for_lists(raw: pa.Array, wrong: pa.Array, column: str) -> str:
    """Return the option for a column of cells such as `muslim,gay`; else ""."""
    found = [one for one in pc.unique(raw.filter(wrong)).to_pylist() if one]
    lists = [_LIST.fullmatch(one) for one in found]
    separators = [one["by"] for one in lists if one and one["by"]]
    if not all(lists) or not separators:
        return ""
    bare = not any(one.startswith("[") for one in found)
    return _option(column, f', names_separator: "{separators[0].strip()}"' if bare else "")


def _option(column: str, more: str = "") -> str:
    return (
        f" If it holds names of identities, write `names_in: {column}, names: [...]{more}` with "
        "the names to measure."
    )
