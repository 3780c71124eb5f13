"""Join of rows and scores into the evidence of a verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bias_metrics.parts import PackedMasks, reaches_cut
from biasgate.tasks.common.arrow_arrays import release_memory
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import (
    CLUSTER,
    IDENTITY,
    SLICE,
    WEIGHT,
    EvaluationSet,
)
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.choose import (
    choose_rows,
    drop_missing,
    find_clusters,
    find_labelled_rows,
    repeat_rows,
)
from biasgate.tasks.evidence.file import (
    FILE,
    RATED,
    RECORD,
    SCORE,
    EvidenceFile,
    EvidenceRecord,
)
from biasgate.tasks.evidence.rows import CANDIDATE
from biasgate.tasks.scoring.outcomes import TRUNCATED
from biasgate.tasks.scoring.scored_set import ScoredSet


def write_evidence(
    evaluation_set: EvaluationSet,
    scored: ScoredSet,
    rivals: Mapping[str, ScoredSet],
    source: SourceSettings,
    path: Path,
) -> EvidenceFile:
    """Choose the rows of a set, join scores to them, and write them to a file.

    `rivals` has the scores of `champion` and `reference`, if they exist.
    """
    joined = _join_scores(evaluation_set, scored)
    y_score = joined["score"].to_numpy()
    identities = tuple(source.measured_identities(evaluation_set.identities))
    rated, mentions = _read_identities(evaluation_set, identities, source.identity_threshold)
    wanted, labels, choices = choose_rows(evaluation_set, source, rated)
    measured, choices = drop_missing(wanted, labels, y_score, source, choices)
    clusters, n_copies = find_clusters(evaluation_set)
    choices = replace(choices, n_copies=n_copies or None)
    if clusters is not None:
        counted, _ = repeat_rows(evaluation_set, source, measured)
        n_clusters = int(np.count_nonzero(np.bincount(clusters[counted])))
        choices = replace(choices, n_clusters=n_clusters)
    # Unrated rows are included, because error rates over all rows count them.
    rows, weights = repeat_rows(evaluation_set, source, find_labelled_rows(evaluation_set))
    if rows.dtype == np.bool_:
        rows = np.flatnonzero(rows)
    columns: dict[str, Any] = {
        "id": evaluation_set.column("id").take(pa.array(rows)),
        "label": labels[rows],
        SCORE + CANDIDATE: y_score[rows],
    }
    # Null in shards from machines with an earlier release.
    if TRUNCATED in joined.column_names and not joined[TRUNCATED].null_count:
        truncated = joined[TRUNCATED].to_numpy()
        columns[TRUNCATED] = truncated[rows]
        choices = replace(choices, n_rows_truncated=int((wanted & truncated).sum()))
    # One bit per row.
    columns |= {IDENTITY + name: pa.array(mask[rows]) for name, mask in mentions.items()}
    if clusters is not None:
        columns[CLUSTER] = renumber_codes(clusters[rows])
    if weights is not None:
        columns[WEIGHT] = weights
    for role, rival in rivals.items():
        is_itself = rival.url == scored.url
        rival_table = joined if is_itself else _join_scores(evaluation_set, rival)
        _require_precision(role, rival, scored)
        columns[SCORE + role] = rival_table["score"].to_numpy()[rows]
    for name in evaluation_set.columns:
        if name.startswith(SLICE):
            columns[name] = evaluation_set.column(name).take(pa.array(rows))
    if not wanted[rows].all():
        columns[RATED] = wanted[rows]
        choices = replace(choices, n_rows_labelled=rows.size)
    models = {CANDIDATE: scored, **rivals}
    record = EvidenceRecord(
        set_digest=evaluation_set.digest,
        choices=choices,
        power_mean_groups=source.power_mean_groups,
        scores={role: model.candidate_digest for role, model in models.items()},
        bound={role: model.record.bound for role, model in models.items()},
    )
    with whole_file(path) as temporary:
        pq.write_table(build_table(columns, record), temporary, compression="zstd")
    return EvidenceFile(path)


def build_table(
    columns: Mapping[str, pa.ChunkedArray | npt.NDArray[Any]], record: EvidenceRecord
) -> pa.Table:
    """Build the table of the evidence, with its record as metadata."""
    return pa.table(columns).replace_schema_metadata({RECORD: json.dumps(record.to_dict())})


@lru_cache(maxsize=1)  # for the next candidate on the same rows
def _read_identities(
    evaluation_set: EvaluationSet, identities: tuple[str, ...], threshold: float
) -> tuple[npt.NDArray[np.bool_], PackedMasks]:
    """Return masks of the rows that were rated for all identities, and that mention each identity.

    A row mentions an identity if its fraction is at least the threshold. Null counts as not
    mentioned.
    """
    rated = np.ones(evaluation_set.n_rows, dtype=np.bool_)

    def iter_masks() -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        columns = evaluation_set.iter_columns([IDENTITY + name for name in identities])
        for name, column in zip(identities, columns, strict=True):
            if column.null_count:
                np.logical_and(rated, column.is_valid().to_numpy(), out=rated)
            yield name, reaches_cut(column.to_numpy(), threshold)

    mentions = PackedMasks.from_masks(iter_masks(), evaluation_set.n_rows)
    rated.flags.writeable = False
    return rated, mentions


def _join_scores(evaluation_set: EvaluationSet, scored: ScoredSet) -> pa.Table:
    """Return the stored scores in the order of the set, joined by id instead of position."""
    table = scored.table()
    ids = evaluation_set.column("id")
    if table["id"].combine_chunks().equals(ids.cast(table["id"].type).combine_chunks()):
        return table
    positions = find_positions(ids, table["id"])
    if len(table) != len(ids) or (positions < 0).any():
        msg = (
            f"scores in {scored.url} must have the ids of evaluation set "
            f"{evaluation_set.name!r}. Delete that folder to score again."
        )
        raise InputError(msg)
    return table.take(pa.array(positions))


def find_positions(ids: pa.ChunkedArray, value_set: pa.ChunkedArray) -> npt.NDArray[np.intp]:
    """Return the position of each id in `value_set`, which has no duplicates; -1 if absent."""
    positions = pc.index_in(ids, value_set=value_set.cast(ids.type).combine_chunks())
    return np.asarray(pc.fill_null(positions, -1).to_numpy(), dtype=np.intp)


def _require_precision(role: str, rival: ScoredSet, scored: ScoredSet) -> None:
    """Refuse a rival that was scored with another precision than the candidate."""
    if not rival.is_comparable(scored):
        msg = (
            f"scores of the {role} must have the candidate's precision; got "
            f"{rival.precision} where the candidate has {scored.precision}. "
            "Score both with the same precision."
        )
        raise InputError(msg)


def renumber_codes(codes: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Renumber the codes of clusters as 0, 1, ... in the order of their first row."""
    return np.asarray(pd.factorize(codes)[0], dtype=np.intp)


@task(name="gather evidence", task_run_name="gather evidence of {folder!m}")
def gather_evidence(
    set_folder: str,
    scores_folder: str,
    rivals: dict[str, str],
    source: SourceSettings,
    folder: str,
) -> EvidenceFile:
    """Write `evidence.parquet`, unless it exists with the same scores. Safe to retry.

    `rivals` has the score folders of champion and reference.
    """
    existing = EvidenceFile(Path(folder) / FILE)
    scored = ScoredSet.open(scores_folder)
    scored_rivals = {role: ScoredSet.open(path) for role, path in rivals.items()}
    models = {CANDIDATE: scored, **scored_rivals}
    digests = {role: model.candidate_digest for role, model in models.items()}
    if existing.path.exists() and existing.record.scores == digests:
        return existing
    evaluation_set = EvaluationSet.load(Path(set_folder))
    evidence = write_evidence(evaluation_set, scored, scored_rivals, source, existing.path)
    release_memory()  # also frees the memory of scoring
    return evidence
