"""Parts of a set chosen by hashes: training and test rows, and fixed random samples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biasgate.tasks.data.evaluation_set import CLUSTER

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


_ROWS_TO_SPARE = 100_000
Hashed = list[tuple[pa.Table, np.ndarray]]


def draw_sample(chunks: Iterable[pa.Table], wanted: int) -> tuple[list[pa.Table], int]:
    """Return a fixed random part of a set's rows, in whole clusters, and the number of all rows.

    Clusters (without clusters: rows) are taken in the order of a hash of their name (id), until
    the number of rows is as close as possible to the wanted one. So the sample is the same on every
    machine and in every order of the rows, and a larger one contains it. Little more than the
    sample is in memory.
    """
    parts: Hashed = []
    n_all, bound = 0, np.inf
    for chunk in chunks:
        n_all += chunk.num_rows
        parts += _up_to(bound, [(chunk, _cluster_hashes(chunk))])
        if sum(part.num_rows for part, _ in parts) > 2 * wanted + _ROWS_TO_SPARE:
            clusters, n_rows = _cumulate(parts)
            # Rows that are still to come can only lower this bound.
            last = np.searchsorted(n_rows, wanted)
            bound = float(clusters[min(int(last), len(clusters) - 1)])
            parts = _up_to(bound, parts)
    if any(part.num_rows for part, _ in parts):
        clusters, n_rows = _cumulate(parts)
        closest = int(np.abs(n_rows - wanted).argmin())
        parts = _up_to(float(clusters[closest]), parts)
    return [part for part, _ in parts], n_all


def _cumulate(parts: Hashed) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of the clusters in order, and the number of rows up to each."""
    hashes = np.concatenate([hashes for _, hashes in parts])
    clusters, sizes = np.unique(hashes, return_counts=True)
    return clusters, np.cumsum(sizes)


def _up_to(bound: float, parts: Hashed) -> Hashed:
    """Return the rows whose hash is at most `bound`, and their hashes."""
    return [
        (table.filter(pa.array(hashes <= bound)), hashes[hashes <= bound])
        for table, hashes in parts
    ]


def _cluster_hashes(table: pa.Table) -> np.ndarray:
    """Return a hash per row, shape (n,), which is the same for all rows of a cluster."""
    names = table[CLUSTER if CLUSTER in table.column_names else "id"].combine_chunks()
    coded = pc.dictionary_encode(names)
    # Its own prefix: a part chosen by `uniform_hash` of the same names is independent of it.
    hashes = np.array([uniform_hash(f"sample {name}") for name in coded.dictionary.to_pylist()])
    return np.asarray(hashes[coded.indices.to_numpy(zero_copy_only=False)])
