"""Counting of a shard in batches of rows, so that its size does not limit it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from bias_metrics import Rows, ScoreCounts
from bias_metrics.parts import reaches_cut
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest, whole_file
from biasgate.tasks.common.prefect_task import is_distributed, log_message, task
from biasgate.tasks.counting.settings import ENDING, CountFile
from biasgate.tasks.counting.stores import get_shard_name, open_shard
from biasgate.tasks.data.evaluation_set import IDENTITY, WEIGHT
from biasgate.tasks.evidence.counted import Counted, CountedRecord, Shard, quote_name, read_counted
from biasgate.tasks.evidence.file import SCORE
from biasgate.tasks.evidence.rows import CANDIDATE

FOLDER = "counts"
"""Folder of the output with the counts of each shard."""
DISTRIBUTED_SHARDS = 64
"""Number of shards that are sent to a cluster at a time, whose counts must fit into memory."""
TOTAL_MIB, OTHER_MIB = 2048, 880
"""Memory limit in MiB, and the part for Prefect's server and the sum of all counts."""
MIB_PER_SHARD, MIB_PER_COLUMN = 90, 17
"""MiB for a shard while it is counted, and for each column of labels, identities or scores."""
BATCH_ROWS = 500_000
"""Rows of a batch. Only a batch, not a shard, must fit into memory."""


def count_scores(settings: CountFile, path: Path) -> Counted:
    """Count the scores of one shard.

    Raises
    ------
    InputError
        If a value is wrong, a score is missing or the shard has no rows to measure.
    """
    digest = file_digest(path)
    counts: dict[str, ScoreCounts] = {}
    pairs: dict[str, ScoreCounts] = {}

    def add(totals: dict[str, ScoreCounts], role: str, shard_counts: ScoreCounts) -> None:
        totals[role] = totals[role] + shard_counts if role in totals else shard_counts

    n_rows = n_rated = n_measured = 0
    unrated_identities = set(settings.list_identity_names())
    source = settings.select_shard(path)
    for number, batch in enumerate(_iterate_batches(source)):
        n_rows += batch.num_rows
        unrated_identities = {
            name for name in unrated_identities if _is_empty(batch[IDENTITY + name])
        }
        name = f"{digest} {number}"  # unique per batch, since counts of the same name do not add up
        try:
            rows, scores, rated = _select_measured(settings, batch)
            for role, model_scores in scores.items():
                add(
                    counts,
                    role,
                    ScoreCounts.from_rows(rows, model_scores, shard=name, bits=settings.bits),
                )
                if role != CANDIDATE:
                    both_scores = scores[CANDIDATE], model_scores
                    add(pairs, role, ScoreCounts.from_pairs(rows, *both_scores, shard=name))
        except ValueError as error:  # weights whose sum cannot be counted
            msg = f"shard {path} cannot be counted (its rows before {n_rows:,}): {error}"
            raise InputError(msg) from error
        n_rated, n_measured = n_rated + rated, n_measured + rows.n
    n_counted = counts[CANDIDATE].n if counts else 0
    if not n_counted:
        reason = (
            f": no values of {', '.join(map(repr, sorted(unrated_identities)))}"
            if unrated_identities
            else ""
        )
        msg = (
            f"shard {path} must have rows to measure; none of its {n_rows} rows can be "
            f"measured{reason}. Remove it from `path`."
        )
        raise InputError(msg)
    shard = Shard(
        name=path.name,
        sha256=digest,
        n_rows=n_rows,
        n_unlabelled=source.n_unlabelled,
        n_rated=n_rated,
        n_measured=n_measured,
        n_counted=n_counted,
    )
    counts, pairs = (
        {role: replace(total, shards=frozenset([digest])) for role, total in totals.items()}
        for totals in (counts, pairs)
    )
    return Counted(CountedRecord(key=settings.key, shards=[shard]), counts, pairs)


def _is_empty(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count == len(column))


def _iterate_batches(source: CountFile) -> Iterator[pa.Table]:
    """Yield the rows of a shard in tables of about `ROWS` rows."""
    chunks: list[pa.Table] = []
    for chunk in source.chunks():
        columns = [name for name in chunk.column_names if name not in {"id", "text"}]
        chunks.append(chunk.select(columns))
        if sum(table.num_rows for table in chunks) >= BATCH_ROWS:
            yield pa.concat_tables(chunks)
            chunks = []
    if chunks:
        yield pa.concat_tables(chunks)


def _select_measured(
    settings: CountFile, batch: pa.Table
) -> tuple[Rows, dict[str, np.ndarray], int]:
    """Return the rows to measure, their scores by role, and the number of rated rows."""
    columns = [name for name in batch.column_names if name.startswith(IDENTITY)]
    is_rated = np.ones(batch.num_rows, dtype=np.bool_)
    for name in columns:
        if batch[name].null_count:
            is_rated &= batch[name].is_valid().to_numpy()
    is_kept = is_rated if settings.identity_rows == "rated" else np.ones_like(is_rated)
    measured = batch if is_kept.all() else batch.filter(pa.array(is_kept))
    mentions = {
        name.removeprefix(IDENTITY): reaches_cut(
            measured[name].to_numpy(), settings.identity_threshold
        )
        for name in columns
    }
    rows = Rows(
        reaches_cut(measured["label"].to_numpy(), settings.label_threshold),
        mentions,
        sample_weight=measured[WEIGHT].to_numpy() if WEIGHT in measured.column_names else None,
        weight_kind="frequency",
    )
    scores = {role: measured[SCORE + role].to_numpy() for role in settings.models}
    return rows, scores, int(is_rated.sum())


def add_shard(total: Counted | None, shard: bytes | str, folder: str) -> Counted:
    """Add the counts of a shard to a total.

    `shard`: a file of counts, or the counts as bytes, which are then also written to the folder.
    """
    if isinstance(shard, str):
        with open_shard(shard) as path:
            counted = read_counted(path)
    else:
        counted = Counted.from_bytes(shard, "counts of a shard")
        _write_counts(counted, shard, Path(folder))
    return counted if total is None else total + counted


def _write_counts(counted: Counted, data: bytes, folder: Path) -> Path:
    """Write the counts of a shard to the folder, atomically. Return the file."""
    [shard] = counted.record.shards
    path = folder / name_count_file(shard.sha256, counted.record.key)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_bytes(data)
    return path


def name_count_file(digest: str, key: str) -> str:
    """Return the name of the file for the counts of a shard, from the shard's digest."""
    return f"{digest[:16]}-{key[:16]}{ENDING}"


def _read_count_file(path: Path, digest: str, key: str) -> Counted | None:
    """Return the stored counts of a shard; None if the file does not exist.

    Also None if the file has the counts of another shard, since files can be renamed.
    """
    if not path.is_file():
        return None
    counted = read_counted(path)
    is_same = [shard.sha256 for shard in counted.record.shards] == [digest]
    return counted if is_same and counted.record.key == key else None


def count_parallel_shards(settings: CountFile) -> int:
    """Return the number of shards to count at a time.

    At most the number of cores, and no more than fit into `TOTAL_MIB`.
    """
    if is_distributed():
        return DISTRIBUTED_SHARDS
    n_columns = 1 + len(settings.models) + len(settings.list_identity_names())
    mib_per_shard = MIB_PER_SHARD + MIB_PER_COLUMN * n_columns
    return max(1, min(os.cpu_count() or 1, (TOTAL_MIB - OTHER_MIB) // mib_per_shard))


@task(name="count shard", task_run_name="count {shard}")
def count_shard(settings: CountFile, shard: str, folder: str, *, send: bool) -> bytes | str:
    """Count a shard unless its counts are in the folder. Return the path of the counts.

    With `send`, return the counts themselves, for workers with another folder. A file of counts is
    returned unchanged. An object of a store is copied to this machine first. Safe to retry.
    """
    if get_shard_name(shard).endswith(ENDING):
        return shard
    with open_shard(shard) as path:
        digest = file_digest(path)
        count_file = Path(folder) / name_count_file(digest, settings.key)
        if (counted := _read_count_file(count_file, digest, settings.key)) is not None:
            [shard_record] = counted.record.shards
            if shard_record.name == path.name:
                return str(count_file)
            record = replace(counted.record, shards=[replace(shard_record, name=path.name)])
            return replace(counted, record=record).to_bytes()
        counted = count_scores(settings, path)
    n = counted.record.shards[0].n_measured
    log_message(f"counted {quote_name(path.name)}: {n:,} rows", aside=True)
    data = counted.to_bytes()
    return data if send else str(_write_counts(counted, data, Path(folder)))
