"""Names and types of the columns that every source must yield."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics.parts import MAX_WEIGHT, format_count
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError, format_place
from biasgate.tasks.data.evaluation_set import CLUSTER, IDENTITY, SLICE, TERMS, WEIGHT
from biasgate.tasks.data.identity_names import check_identity_names
from biasgate.tasks.data.plain_columns import convert_to_float64, is_string_type

_REQUIRED = ("id", "label")
_TYPES = {
    "id": pa.string(),
    "label": pa.float64(),
    "text": pa.large_string(),
    CLUSTER: pa.string(),
    WEIGHT: pa.float64(),
    TERMS: pa.list_(pa.int32()),
}
_TYPES_BY_PREFIX = {IDENTITY: pa.float64(), SLICE: pa.bool_()}


def conform_rows(chunk: pa.Table, name: str) -> pa.Table:
    """Return a source's rows with the column types of frozen rows.

    Refuse columns that are missing, unknown or of another type, missing values, fractions outside
    [0, 1], and weights that are negative or infinite. `name` is the set's name, for the error text.
    """
    source = f"the source of evaluation set {name!r}"
    if not isinstance(chunk, pa.Table):
        msg = f"{source} must yield tables of pyarrow; got {type(chunk).__name__}."
        raise InputError(msg)
    names = chunk.column_names
    if missing := [column for column in _REQUIRED if column not in names]:
        present = ", ".join(map(repr, names))
        msg = f"{source} must yield the column {missing[0]!r}; it yields {present}."
        raise InputError(msg)
    identities = [column.removeprefix(IDENTITY) for column in names if column.startswith(IDENTITY)]
    try:
        check_identity_names(filter(None, identities))
    except ValueError as error:
        msg = f"{source} must yield valid identities: {error}."
        raise InputError(msg) from error
    return pa.table({column: _conform_column(chunk, column, source) for column in names})


def _conform_column(chunk: pa.Table, column: str, source: str) -> pa.ChunkedArray:
    column_type, values = _find_column_type(column, source), chunk[column]
    is_valid_type = is_string_type(values.type) == is_string_type(column_type)
    try:
        if is_valid_type and column_type == pa.float64():
            values = pa.chunked_array([convert_to_float64(values.combine_chunks())])
        elif is_valid_type:
            values = values.cast(column_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        is_valid_type = False
    if not is_valid_type:
        msg = f"{source} must yield {column!r} as {column_type}; it yields {values.type}."
        raise InputError(msg)
    if values.null_count and not column.startswith(IDENTITY):
        msg = f"{source} must yield a {column!r} for every row; "
        msg += f"{format_count(values.null_count, 'row has', 'rows have')} none."
        raise InputError(msg)
    if pa.types.is_floating(column_type) and len(values) > values.null_count:
        is_weight = column == WEIGHT
        maximum, rule = (MAX_WEIGHT, "at least 0") if is_weight else (1.0, "between 0 and 1")
        outside = pc.invert(pc.and_(pc.greater_equal(values, 0.0), pc.less_equal(values, maximum)))
        if pc.any(outside).as_py():
            row = pc.index(outside, True).as_py()
            location = format_place(column=column, id=chunk["id"][row])
            msg = f"{source} must yield {column!r} {rule}; got {values[row]} {location}."
            raise InputError(msg)
    return values


def _find_column_type(column: str, source: str) -> pa.DataType:
    for prefix, kind in _TYPES_BY_PREFIX.items():
        if column.startswith(prefix) and column != prefix:
            return kind
    if column not in _TYPES:
        names = [*_TYPES, *(f"{prefix}NAME" for prefix in _TYPES_BY_PREFIX)]
        hint = did_you_mean(column, _TYPES) or f" Known columns: {', '.join(names)}."
        msg = f"{source} must yield known columns; it yields {column!r}.{hint}"
        raise InputError(msg)
    return _TYPES[column]
