"""Hash-based parts of a set: training and test rows, and fixed random samples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biasgate.tasks.data.evaluation_set import CLUSTER

HashedPart = Literal["all", "train", "test"]


def select_part(table: pa.Table, part: HashedPart, test_fraction: float) -> pa.Table:
    """Return the rows of a part, chosen by a hash of the text (without text: of the id)."""
    if part == "all":
        return table
    keys = table["text" if "text" in table.column_names else "id"]
    in_test = np.array(
        [hash_to_fraction(value) < test_fraction for value in keys.to_pylist()], dtype=bool
    )
    return table.filter(pa.array(in_test if part == "test" else ~in_test))


def hash_to_fraction(key: str) -> float:
    """Hash a key to [0, 1), reproducibly on every machine and independent of other rows."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) / 2.0**64


_SPARE_ROWS = 100_000
_HashedChunks = list[tuple[pa.Table, np.ndarray]]


def draw_sample(chunks: Iterable[pa.Table], wanted: int) -> tuple[list[pa.Table], int]:
    """Draw a fixed random sample of whole clusters; also return the number of all rows.

    Clusters (without clusters: rows) are taken in the order of a hash of their name (id), until
    the number of rows is as close as possible to `wanted`. The sample is thus the same on every
    machine and for every row order, and a larger sample contains it. Memory holds little more than
    the sample.
    """
    parts: _HashedChunks = []
    n_all, bound = 0, np.inf
    for chunk in chunks:
        n_all += chunk.num_rows
        parts += _filter_by_hash(bound, [(chunk, _hash_clusters(chunk))])
        if sum(part.num_rows for part, _ in parts) > 2 * wanted + _SPARE_ROWS:
            clusters, n_rows = _count_cluster_rows(parts)
            # Later rows can only lower this bound.
            index = np.searchsorted(n_rows, wanted)
            bound = float(clusters[min(int(index), len(clusters) - 1)])
            parts = _filter_by_hash(bound, parts)
    if any(part.num_rows for part, _ in parts):
        clusters, n_rows = _count_cluster_rows(parts)
        closest = int(np.abs(n_rows - wanted).argmin())
        parts = _filter_by_hash(float(clusters[closest]), parts)
    return [part for part, _ in parts], n_all


def _count_cluster_rows(parts: _HashedChunks) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted hashes of the clusters, and the cumulative number of rows."""
    hashes = np.concatenate([hashes for _, hashes in parts])
    clusters, sizes = np.unique(hashes, return_counts=True)
    return clusters, np.cumsum(sizes)


def _filter_by_hash(bound: float, parts: _HashedChunks) -> _HashedChunks:
    """Return the rows with a hash of at most `bound`, with their hashes."""
    return [
        (table.filter(pa.array(hashes <= bound)), hashes[hashes <= bound])
        for table, hashes in parts
    ]


def _hash_clusters(table: pa.Table) -> np.ndarray:
    """Return a hash per row, shape (n,); rows of a cluster share their hash."""
    names = table[CLUSTER if CLUSTER in table.column_names else "id"].combine_chunks()
    encoded = pc.dictionary_encode(names)
    # The prefix makes samples independent of the parts that `select_part` chooses.
    hashes = np.array(
        [hash_to_fraction(f"sample {name}") for name in encoded.dictionary.to_pylist()]
    )
    return np.asarray(hashes[encoded.indices.to_numpy(zero_copy_only=False)])
