"""The steps that count a shard, in the memory of a batch of rows."""

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
from biasgate.tasks.common.prefect_task import is_spread, say, task
from biasgate.tasks.counting.settings import ENDING, CountFile
from biasgate.tasks.counting.stores import here, name_of
from biasgate.tasks.data.evaluation_set import IDENTITY, WEIGHT
from biasgate.tasks.evidence.counted import Counted, CountedRecord, Shard, quote_name, read_counted
from biasgate.tasks.evidence.file import SCORE
from biasgate.tasks.evidence.rows import CANDIDATE

FOLDER = "counts"
"""Where in the output the counts of each shard are kept."""
SPREAD = 64
"""Shards that are sent to a cluster at a time: the counts of as many fit into memory."""
MEMORY, OTHERS = 2048, 880
"""MiB that all may take, and what they take beside shards: Prefect's server and the sum."""
OF_SHARD, OF_COLUMN = 90, 17
"""MiB that a shard takes while it is counted, and each of its labels, identities and scores."""
ROWS = 500_000
"""Rows that are counted at once: they, and not the shard, must fit into memory."""


def counted_shard(settings: CountFile, path: Path) -> Counted:
    """Count the scores of one shard.

    Raises
    ------
    InputError
        If a value is wrong, a score is missing or the shard has no rows to measure.
    """
    digest = file_digest(path)
    counts: dict[str, ScoreCounts] = {}
    pairs: dict[str, ScoreCounts] = {}

    def add(to: dict[str, ScoreCounts], role: str, found: ScoreCounts) -> None:
        to[role] = to[role] + found if role in to else found

    n_rows = n_rated = n_measured = 0
    unrated = set(settings.list_identity_names())
    source = settings.of_shard(path)
    for number, batch in enumerate(batches_of(source)):
        n_rows += batch.num_rows
        unrated = {name for name in unrated if _is_empty(batch[IDENTITY + name])}
        name = f"{digest} {number}"  # one for each batch, since no name adds up with itself
        try:
            rows, scores, rated = _measured(settings, batch)
            for role, of_role in scores.items():
                add(
                    counts,
                    role,
                    ScoreCounts.from_rows(rows, of_role, shard=name, bits=settings.bits),
                )
                if role != CANDIDATE:
                    both = scores[CANDIDATE], of_role
                    add(pairs, role, ScoreCounts.from_pairs(rows, *both, shard=name))
        except ValueError as error:  # weights whose sum cannot be counted
            msg = f"shard {path} cannot be counted (its rows before {n_rows:,}): {error}"
            raise InputError(msg) from error
        n_rated, n_measured = n_rated + rated, n_measured + rows.n
    n_counted = counts[CANDIDATE].n if counts else 0
    if not n_counted:
        why = f": no values of {', '.join(map(repr, sorted(unrated)))}" if unrated else ""
        msg = (
            f"shard {path} must have rows to measure; none of its {n_rows} rows can be "
            f"measured{why}. Remove it from `path`."
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
        {role: replace(one, shards=frozenset([digest])) for role, one in each.items()}
        for each in (counts, pairs)
    )
    return Counted(CountedRecord(key=settings.key, shards=[shard]), counts, pairs)


def _is_empty(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count == len(column))


def batches_of(source: CountFile) -> Iterator[pa.Table]:
    """Yield the rows of a shard in tables of about `ROWS` rows."""
    held: list[pa.Table] = []
    for chunk in source.chunks():
        kept = [name for name in chunk.column_names if name not in {"id", "text"}]
        held.append(chunk.select(kept))
        if sum(one.num_rows for one in held) >= ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _measured(settings: CountFile, batch: pa.Table) -> tuple[Rows, dict[str, np.ndarray], int]:
    """Return the measured rows, the scores of each model, and how many rows were rated."""
    columns = [name for name in batch.column_names if name.startswith(IDENTITY)]
    rated = np.ones(batch.num_rows, dtype=np.bool_)
    for name in columns:
        if batch[name].null_count:
            rated &= batch[name].is_valid().to_numpy()
    kept = rated if settings.identity_rows == "rated" else np.ones_like(rated)
    measured = batch if kept.all() else batch.filter(pa.array(kept))
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
    return rows, scores, int(rated.sum())


def add_shard(total: Counted | None, found: bytes | str, folder: str) -> Counted:
    """Add the counts of a shard, or of a file of them, to those of others; keep what was sent."""
    if isinstance(found, str):
        with here(found) as path:
            counted = read_counted(path)
    else:
        counted = Counted.from_bytes(found, "counts of a shard")
        keep(counted, found, Path(folder))
    return counted if total is None else total + counted


def keep(counted: Counted, data: bytes, folder: Path) -> Path:
    """Write the counts of a shard to the folder, atomically; return the file."""
    [shard] = counted.record.shards
    path = folder / named(shard.sha256, counted.record.key)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_bytes(data)
    return path


def named(digest: str, key: str) -> str:
    """Return the name of the file that the counts of a shard are kept in, by its content."""
    return f"{digest[:16]}-{key[:16]}{ENDING}"


def _kept(path: Path, digest: str, key: str) -> Counted | None:
    """Return the counts of a shard that are kept in a file.

    None if they are of another shard: a file may have got the name of another.
    """
    if not path.is_file():
        return None
    counted = read_counted(path)
    same = [shard.sha256 for shard in counted.record.shards] == [digest]
    return counted if same and counted.record.key == key else None


def at_once(settings: CountFile) -> int:
    """Return how many shards are counted or waited for at a time.

    No more than there are cores, and than fit into `MEMORY`, whatever the number of cores.
    """
    if is_spread():
        return SPREAD
    n_columns = 1 + len(settings.models) + len(settings.list_identity_names())
    of_shard = OF_SHARD + OF_COLUMN * n_columns
    return max(1, min(os.cpu_count() or 1, (MEMORY - OTHERS) // of_shard))


@task(name="count shard", task_run_name="count {shard}")
def count_shard(settings: CountFile, shard: str, folder: str, *, send: bool) -> bytes | str:
    """Count a shard, unless its counts are in the folder; return their file. Safe to retry.

    With `send` the counts themselves are returned, as a worker does whose folder is another one. A
    file of counts is left where it is. An object of a store is copied to where it is counted.
    """
    if name_of(shard).endswith(ENDING):
        return shard
    with here(shard) as path:
        digest = file_digest(path)
        kept = Path(folder) / named(digest, settings.key)
        if (counted := _kept(kept, digest, settings.key)) is not None:
            [known] = counted.record.shards
            if known.name == path.name:
                return str(kept)
            record = replace(counted.record, shards=[replace(known, name=path.name)])
            return replace(counted, record=record).to_bytes()
        counted = counted_shard(settings, path)
    n = counted.record.shards[0].n_measured
    say(f"counted {quote_name(path.name)}: {n:,} rows", aside=True)
    data = counted.to_bytes()
    return data if send else str(keep(counted, data, Path(folder)))
