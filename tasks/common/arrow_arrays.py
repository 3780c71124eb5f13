"""Conversion between Arrow columns and numpy arrays without pandas.

PyArrow's own conversions import pandas, which takes longer than the verification of a small set.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def convert_column(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[Any]:
    """Return a copy of the values of a column, equal to those of `column.to_numpy()`.

    Numbers, booleans and texts without nulls are converted here; PyArrow converts all others.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = column.type
    if column.null_count or not chunks:
        return _convert_by_arrow(column)
    if pa.types.is_boolean(kind):
        packed = [np.from_dlpack(chunk.cast(pa.uint8())) for chunk in chunks]
        return np.concatenate(packed).astype(np.bool_)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.concatenate([np.from_dlpack(chunk) for chunk in chunks])
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_string(value_type) or pa.types.is_large_string(value_type):
        return np.concatenate([_read_texts(chunk) for chunk in chunks])
    return _convert_by_arrow(column)


def make_int_array(numbers: npt.NDArray[np.integer]) -> pa.Array:
    """Return an Arrow array of int64, equal to that of `pa.array`."""
    values = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), values.size, [None, pa.py_buffer(values)])


def _read_texts(chunk: pa.Array) -> npt.NDArray[np.object_]:
    encoded = chunk.dictionary_encode()  # a dictionary array is returned unchanged
    values = np.empty(len(encoded.dictionary), dtype=np.object_)
    values[:] = encoded.dictionary.to_pylist()
    texts: npt.NDArray[np.object_] = values[np.from_dlpack(encoded.indices)]
    return texts


def _convert_by_arrow(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[Any]:
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def release_memory() -> None:
    """Return freed memory to the system, since PyArrow and the C library keep most of it."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # only glibc has `malloc_trim`
        ctypes.CDLL(None).malloc_trim(0)
