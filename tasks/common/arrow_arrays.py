"""Arrow columns as numpy arrays and back, without pandas; their memory is given back.

PyArrow's own conversions import pandas, which takes longer than to verify a small set.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def as_numpy(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[Any]:
    """Return the values of a column; what `column.to_numpy()` returns, as a copy.

    Columns of other types than numbers, booleans and texts, and those with nulls, are left to
    PyArrow.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = column.type
    if column.null_count or not chunks:
        return _by_arrow(column)
    if pa.types.is_boolean(kind):
        packed = [np.from_dlpack(chunk.cast(pa.uint8())) for chunk in chunks]
        return np.concatenate(packed).astype(np.bool_)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.concatenate([np.from_dlpack(chunk) for chunk in chunks])
    of = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_string(of) or pa.types.is_large_string(of):
        return np.concatenate([_texts(chunk) for chunk in chunks])
    return _by_arrow(column)


def as_arrow(numbers: npt.NDArray[np.integer]) -> pa.Array:
    """Return an array of int64, as `pa.array` does."""
    whole = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), whole.size, [None, pa.py_buffer(whole)])


def _texts(chunk: pa.Array) -> npt.NDArray[np.object_]:
    encoded = chunk.dictionary_encode()  # itself, if it is one already
    known = np.empty(len(encoded.dictionary), dtype=np.object_)
    known[:] = encoded.dictionary.to_pylist()
    found: npt.NDArray[np.object_] = known[np.from_dlpack(encoded.indices)]
    return found


def _by_arrow(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[Any]:
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def give_back_memory() -> None:
    """Return freed memory to the system; else PyArrow and the C library keep most of it."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
