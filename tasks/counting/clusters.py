"""Clusters of counted rows: DuckDB sorts the rows by cluster on disk, so none need be in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import dataset

from bias_metrics import Rows
from bias_metrics.binned import ClusterTotals
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.own_folders import own_folder
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.counting import shards
from biasgate.tasks.counting.settings import SCORE, CountFile
from biasgate.tasks.counting.shards import batches_of, is_positive, measured_rows, members_of
from biasgate.tasks.counting.stores import here
from biasgate.tasks.evidence.choose import CLUSTER
from biasgate.tasks.evidence.counted import Counted

MEMORY = "512MiB"
"""What DuckDB may use; it sorts the rest on disk."""
_BITS = "bits"
_CHUNK = 100_000


@task(name="add clusters")
def add_clusters(counted: Counted, settings: CountFile, output: str) -> Counted:
    """Return the counts with what clusters do to their numbers. Safe to retry.

    It reads all shards again, and needs about as much disk as they take, in `output`; nothing of
    that is left there. A cluster must fit into memory.
    """
    with own_folder(Path(output), ".clusters-") as folder:
        for number, shard in enumerate(settings.shards()):
            with here(shard) as path:
                _write_rows(settings, path, folder / f"{number}.parquet")
        ordered = folder / "sorted"
        _sort(folder, ordered)
        roles = list(counted.counts)
        try:
            totals = ClusterTotals.of(
                list(counted.counts.values()),
                lambda: _clusters_of(ordered, counted.names, roles),
                settings.background,
                [[settings.models[role].threshold for role in roles]],
            )
        except ValueError as error:
            msg = f"the shards must not change while they are counted: {error}"
            raise InputError(msg) from error
    say(f"clusters: {totals.n:,}", aside=True)
    return replace(counted, record=replace(counted.record, clusters=totals))


def _write_rows(settings: CountFile, path: Path, to: Path) -> None:
    """Write what is needed of a shard's measured rows: no text and no id."""
    writer: pq.ParquetWriter | None = None
    for batch in batches_of(settings.of_shard(path)):
        measured, _ = measured_rows(settings, batch)
        masks = [is_positive(settings, measured), *members_of(settings, measured).values()]
        bits = np.packbits(np.stack(masks, axis=1), axis=1)
        columns = {
            CLUSTER: measured[CLUSTER],
            _BITS: pa.array(bits.view(f"V{bits.shape[1]}").ravel().tolist(), pa.binary()),
            **{SCORE + role: measured[SCORE + role] for role in settings.models},
        }
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(to, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _sort(folder: Path, to: Path) -> None:
    """Sort the rows of all files by cluster."""
    import duckdb  # noqa: PLC0415 - an extra

    options: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "temp_directory": str(folder / "spilled"),
        "threads": 2,
    }
    with duckdb.connect(config=options) as engine:
        rows = engine.from_arrow(dataset(sorted(folder.glob("*.parquet"))))
        # By all columns, so that the same rows have the same sums to the last bit.
        rows.order(", ".join(f'"{name}"' for name in rows.columns)).write_parquet(
            str(to), row_group_size=_CHUNK
        )


def _clusters_of(
    path: Path, names: tuple[str, ...], roles: list[str]
) -> Iterator[tuple[Rows, list[np.ndarray]]]:
    """Yield sorted rows with whole clusters, about as many as are counted at once."""
    held: list[pa.RecordBatch] = []
    # Buffered ahead, all of the file would stay in memory.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for chunk in file.iter_batches(_CHUNK):
            held.append(chunk)
            if sum(one.num_rows for one in held) < shards.ROWS:
                continue
            table = pa.Table.from_batches(held).combine_chunks()
            ends = np.flatnonzero(_is_new(table))
            held = table.slice(ends[-1]).to_batches()
            if ends[-1]:
                yield _rows(table.slice(0, ends[-1]), names, roles)
    if held:
        yield _rows(pa.Table.from_batches(held).combine_chunks(), names, roles)


def _is_new(table: pa.Table) -> np.ndarray:
    """Return which rows have another cluster than the row before, or are the first."""
    names = table[CLUSTER]
    changes = pc.not_equal(names.slice(1), names.slice(0, max(len(names) - 1, 0)))
    return np.append(True, changes.to_numpy())


def _rows(
    table: pa.Table, names: tuple[str, ...], roles: list[str]
) -> tuple[Rows, list[np.ndarray]]:
    packed = np.frombuffer(b"".join(table[_BITS].to_pylist()), dtype=np.uint8)
    bits = np.unpackbits(packed.reshape(table.num_rows, -1), axis=1).astype(np.bool_)
    masks = dict(zip(names, bits.T[1:], strict=False))
    rows = Rows(bits[:, 0], masks, clusters=np.cumsum(_is_new(table)))
    return rows, [table[SCORE + role].to_numpy() for role in roles]
