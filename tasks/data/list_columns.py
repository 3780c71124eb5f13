"""Columns that list identities in each cell: refused, with the lines of pandas that divide them."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from biasgate.tasks.common.errors import InputError, place
from biasgate.tasks.data.chunks import Chunk

# One or more names in a cell, as in `muslim,gay` and `['muslim', 'gay']`.
_LIST = re.compile(r"""\[\]|\[?['\"]?[\w-]+['\"]?(?:(?P<by>, ?|; ?|\|)['\"]?[\w-]+['\"]?)*\]?""")


def refuse_lists(chunk: Chunk, column: str) -> None:
    """Refuse a column of lists of identities, with two lines that make columns of it.

    Raises
    ------
    InputError
        If it holds lists.
    """
    kind = chunk.table.column(column).type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        msg = (
            f"an identity must have a column of its own, of 0 and 1; got lists "
            f"{place(file=chunk.path, column=column)}. With the file as `t` in pandas:\n"
            f'  groups = pd.get_dummies(t["{column}"].explode(), dtype=float).groupby(level=0)\n'
            f'  t = t.join(groups.max().where(t["{column}"].notna(), axis=0))'
        )
        raise InputError(msg)


def columns_of_lists(raw: pa.Array, wrong: pa.Array, column: str) -> str:
    """Return two lines of pandas that make columns of cells such as `muslim,gay`; else ""."""
    found = [one for one in pc.unique(raw.filter(wrong)).to_pylist() if one]
    lists = [_LIST.fullmatch(one) for one in found]
    separators = [one["by"] for one in lists if one and one["by"]]
    if not all(lists) or not separators:
        return ""
    names = f't["{column}"].str'
    if any(one.startswith("[") for one in found):
        quote = next((one for one in "'\"" if one in "".join(found)), "'")
        names += f'.strip("[]").str.replace({quote!r}, "").str'
    return (
        " Or is it a list? Then an identity must have a column of its own. "
        "With the file as `t` in pandas:\n"
        f'  groups = {names}.get_dummies("{separators[0]}")\n'
        f'  t = t.join(groups.where(t["{column}"].notna(), axis=0))'
    )
