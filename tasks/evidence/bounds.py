"""Size limits for evidence from untrusted sources.

A Parquet file of a few megabytes can hold billions of equal values. So the limits are applied to
its metadata, before any values are read. PyArrow reads at most as many rows as the metadata state.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import CLUSTER

MOST_VALUES = 400_000_000
"""Rows times columns: 3 GiB of numbers, such as 13 million rows of 30 columns."""
MOST_BYTES = 8 * 2**30
"""Bytes of the file, and of its pages when they are unpacked."""
_MOST_TEXT = 1000  # characters of a cluster's name
_TEXTS = frozenset({"id", CLUSTER})
_NUMBERS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)


def require_size(file: pq.ParquetFile, name: str, n_rows: int | None = None) -> None:
    """Refuse a file that is too large or has the wrong columns, by its metadata.

    Parameters
    ----------
    n_rows : int, optional
        Required number of rows. Default: any number.
    """
    metadata = file.metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    n_stored = max(metadata.num_rows, sum(group.num_rows for group in groups))
    if n_rows is not None and (metadata.num_rows, n_stored) != (n_rows, n_rows):
        msg = f"{name} must have the {n_rows:,} rows that the report names; it has {n_stored:,}."
        raise InputError(msg)
    if n_stored * metadata.num_columns > MOST_VALUES:
        msg = (
            f"{name} must have at most {MOST_VALUES:,} values; it has {n_stored:,} rows and "
            f"{metadata.num_columns:,} columns."
        )
        raise InputError(msg)
    size = sum(group.total_byte_size for group in groups)
    if size > MOST_BYTES:
        msg = f"{name} must have at most {MOST_BYTES:,} bytes unpacked; it has {size:,}."
        raise InputError(msg)
    for field in file.schema_arrow:
        if field.name not in _TEXTS and not any(is_type(field.type) for is_type in _NUMBERS):
            msg = f"column {field.name!r} of {name} must hold numbers; it holds {field.type}."
            raise InputError(msg)


def require_short_names(table: pa.Table, name: str) -> pa.Table:
    """Return the table, after a check of the lengths of its cluster names.

    Parameters
    ----------
    table : Table
        Evidence, with its clusters as a dictionary if they are texts.

    Raises
    ------
    InputError
        If a name is too long.
    """
    if CLUSTER not in table.column_names or not pa.types.is_dictionary(table[CLUSTER].type):
        return table
    for chunk in table[CLUSTER].chunks:
        longest = max(map(len, chunk.dictionary.to_pylist()), default=0)
        if longest > _MOST_TEXT:
            msg = (
                f"clusters of {name} must have names of at most {_MOST_TEXT:,} characters; got "
                f"{longest:,}."
            )
            raise InputError(msg)
    return table
