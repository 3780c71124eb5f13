"""The columns of frozen rows, which every source must yield."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics.parts import counted
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError, place
from biasgate.tasks.data.evaluation_set import (
    IDENTITY,
    RANGES,
    TYPES,
    TYPES_BY_PREFIX,
)
from biasgate.tasks.data.identity_names import check_identity_names
from biasgate.tasks.data.plain_columns import is_text, to_float64

_NEEDED = frozenset({"id", "label"})


def conformed(chunk: pa.Table, name: str) -> pa.Table:
    """Return a chunk of rows with the types of frozen rows.

    Parameters
    ----------
    chunk : pyarrow.Table
        Rows from a source.

    Raises
    ------
    InputError
        If it is no table, a column is missing, unknown or of another type, a required value is
        missing, a fraction is outside [0, 1], or a weight is below 0 or infinite.
    """
    of = f"the source of evaluation set {name!r}"
    if not isinstance(chunk, pa.Table):
        msg = f"{of} must yield tables of pyarrow; got {type(chunk).__name__}."
        raise InputError(msg)
    missing = sorted(_NEEDED - set(chunk.column_names))
    if missing:
        found = ", ".join(map(repr, chunk.column_names))
        msg = f"{of} must yield the column {missing[0]!r}; it yields {found}."
        raise InputError(msg)
    names = [
        column.removeprefix(IDENTITY)
        for column in chunk.column_names
        if column.startswith(IDENTITY)
    ]
    try:
        check_identity_names(filter(None, names))
    except ValueError as error:
        msg = f"{of} must yield other identities: {error}."
        raise InputError(msg) from error
    columns = {column: _column(chunk, column, of) for column in chunk.column_names}
    return pa.table(columns)


def _column(chunk: pa.Table, column: str, of: str) -> pa.ChunkedArray:
    wanted, values = _type(column, of), chunk[column]
    fits = is_text(values.type) == is_text(wanted)
    try:
        if fits and wanted == pa.float64():
            values = pa.chunked_array([to_float64(values.combine_chunks())])
        elif fits:
            values = values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        fits = False
    if not fits:
        msg = f"{of} must yield {column!r} as {wanted}; it yields {values.type}."
        raise InputError(msg)
    if values.null_count and not column.startswith(IDENTITY):
        msg = f"{of} must yield a {column!r} for every row; "
        msg += f"{counted(values.null_count, 'row has', 'rows have')} none."
        raise InputError(msg)
    if pa.types.is_floating(wanted) and len(values) > values.null_count:
        least, most, rule = RANGES.get(column, (0.0, 1.0, "between 0 and 1"))
        inside = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
        outside = pc.invert(inside)
        if pc.any(outside).as_py():
            at = pc.index(outside, True).as_py()
            where = place(column=column, id=chunk["id"][at])
            msg = f"{of} must yield {column!r} {rule}; got {values[at]} {where}."
            raise InputError(msg)
    return values


def _type(column: str, of: str) -> pa.DataType:
    """Return the type of a column."""
    for prefix, kind in TYPES_BY_PREFIX.items():
        if column.startswith(prefix) and column != prefix:
            return kind
    if column not in TYPES:
        names = [*TYPES, *(f"{prefix}NAME" for prefix in TYPES_BY_PREFIX)]
        hint = did_you_mean(column, TYPES) or f" Known columns: {', '.join(names)}."
        msg = f"{of} must yield known columns; it yields {column!r}.{hint}"
        raise InputError(msg)
    return TYPES[column]
