"""Dividing rows into a training and a test part by a hash, so that repeats stay together."""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
import pyarrow as pa

Part = Literal["all", "train", "test"]


def rows_of_part(table: pa.Table, part: Part, test_fraction: float) -> pa.Table:
    """Return the rows of a part, chosen by a hash of the text, or of the id without a text."""
    if part == "all":
        return table
    keys = table["text" if "text" in table.column_names else "id"]
    in_test = np.array(
        [uniform_hash(value) < test_fraction for value in keys.to_pylist()], dtype=bool
    )
    return table.filter(pa.array(in_test if part == "test" else ~in_test))


def uniform_hash(key: str) -> float:
    """Map a key to [0, 1): the same on every machine, and independent of other rows."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) / 2.0**64
