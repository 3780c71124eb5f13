"""Parts of a set chosen by hashes: training and test rows, and fixed random samples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
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


class Sample:
    """A fixed random part of a set's rows, made of whole clusters.

    Clusters (without clusters: rows) are taken in the order of a hash of their name (id), until
    the number of rows is as close as possible to the wanted one. So the sample is the same on every
    machine and in every order of the rows, and a larger one contains it.

    `wanted`: the number of rows; with clusters, the sample has about as many.
    """

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self.n_rows_whole = 0
        """Rows of the whole set, once `draw` is exhausted."""
        self.n_rows = 0
        """Rows of the sample, once `draw` is exhausted."""

    def draw(self, chunks: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the rows of the sample; hold little more than these in memory."""
        rows: list[pa.Table] = []
        keys: list[np.ndarray] = []
        bound = np.inf
        for chunk in chunks:
            self.n_rows_whole += chunk.num_rows
            hashes = _cluster_hashes(chunk)
            rows.append(chunk.filter(pa.array(hashes <= bound)))
            keys.append(hashes[hashes <= bound])
            if sum(map(len, keys)) > 2 * self._wanted + _ROWS_TO_SPARE:
                clusters, n_rows = _cumulated(keys)
                # Rows that are still to come can only lower this bound.
                last = np.searchsorted(n_rows, self._wanted)
                bound = float(clusters[min(int(last), len(clusters) - 1)])
                rows, keys = _up_to(bound, rows, keys)
        if not any(map(len, keys)):
            return
        clusters, n_rows = _cumulated(keys)
        closest = int(np.abs(n_rows - self._wanted).argmin())
        rows, keys = _up_to(float(clusters[closest]), rows, keys)
        self.n_rows = sum(map(len, keys))
        yield from rows


def _cumulated(keys: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of the clusters in order, and the number of rows up to each."""
    clusters, sizes = np.unique(np.concatenate(keys), return_counts=True)
    return clusters, np.cumsum(sizes)


def _up_to(
    bound: float, rows: list[pa.Table], keys: list[np.ndarray]
) -> tuple[list[pa.Table], list[np.ndarray]]:
    """Return the rows whose hash is at most `bound`, and their hashes."""
    kept = [
        table.filter(pa.array(hashes <= bound)) for table, hashes in zip(rows, keys, strict=True)
    ]
    return kept, [hashes[hashes <= bound] for hashes in keys]


def _cluster_hashes(table: pa.Table) -> np.ndarray:
    """Return a hash per row, shape (n,), which is the same for all rows of a cluster."""
    names = table[CLUSTER if CLUSTER in table.column_names else "id"].combine_chunks()
    coded = pc.dictionary_encode(names)
    # Its own prefix: a part chosen by `uniform_hash` of the same names is independent of it.
    hashes = np.array([uniform_hash(f"sample {name}") for name in coded.dictionary.to_pylist()])
    return np.asarray(hashes[coded.indices.to_numpy(zero_copy_only=False)])
