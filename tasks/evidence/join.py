"""Join rows and scores, and write the evidence of a verdict: the first product after scoring."""

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
from biasgate.tasks.common.arrow_arrays import give_back_memory
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
    cluster_codes,
    counted_of,
    labelled_rows,
    leave_out_missing,
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

RowNumbers = npt.NDArray[np.intp]


def write_evidence(
    evaluation_set: EvaluationSet,
    scored: ScoredSet,
    rivals: Mapping[str, ScoredSet],
    source: SourceSettings,
    path: Path,
) -> EvidenceFile:
    """Choose the rows of a set, join scores to them, and write them to one file.

    `rivals` are the scores of `champion` and `reference`.
    """
    joined = _join_scores(evaluation_set, scored)
    y_score = joined["score"].to_numpy()
    identities = tuple(source.measured_identities(evaluation_set.identities))
    rated, mentions = _read_identities(evaluation_set, identities, source.identity_threshold)
    wanted, labels, choices = choose_rows(evaluation_set, source, rated)
    measured, choices = leave_out_missing(wanted, labels, y_score, source, choices)
    clusters, n_copies = cluster_codes(evaluation_set)
    choices = replace(choices, n_copies=n_copies or None)
    if clusters is not None:
        counted, _ = counted_of(evaluation_set, source, measured)
        n_clusters = int(np.count_nonzero(np.bincount(clusters[counted])))
        choices = replace(choices, n_clusters=n_clusters)
    # Rows whose identities nobody rated are kept too: error rates over all rows count them.
    every = labelled_rows(evaluation_set)
    rows, weights = _evidence_rows(evaluation_set, source, every)
    columns: dict[str, Any] = {
        "id": _taken(evaluation_set, "id", rows),
        "label": labels[rows],
        SCORE + CANDIDATE: y_score[rows],
    }
    # Null in the shards of other machines, if these have an earlier release.
    if TRUNCATED in joined.column_names and not joined[TRUNCATED].null_count:
        truncated = joined[TRUNCATED].to_numpy()
        columns[TRUNCATED] = truncated[rows]
        choices = replace(choices, n_rows_truncated=int((wanted & truncated).sum()))
    # One bit per row.
    columns |= {IDENTITY + name: pa.array(mask[rows]) for name, mask in mentions.items()}
    if clusters is not None:
        columns[CLUSTER] = recoded(clusters[rows])
    if weights is not None:
        columns[WEIGHT] = weights
    for role, of_rival in rivals.items():
        is_itself = of_rival.url == scored.url
        kept = joined if is_itself else _join_scores(evaluation_set, of_rival)
        scores = kept["score"].to_numpy()[rows]
        columns[SCORE + role] = _rival_scores(role, scores, of_rival, scored)
    for name in evaluation_set.columns:
        if name.startswith(SLICE):
            columns[name] = _taken(evaluation_set, name, rows)
    if not wanted[rows].all():
        columns[RATED] = wanted[rows]
        choices = replace(choices, n_rows_labelled=rows.size)
    of_models = {CANDIDATE: scored, **rivals}
    record = EvidenceRecord(
        set_digest=evaluation_set.digest,
        choices=choices,
        power_mean_groups=source.power_mean_groups,
        scores={role: one.candidate_digest for role, one in of_models.items()},
        bound={role: one.record.bound for role, one in of_models.items()},
    )
    with whole_file(path) as temporary:
        pq.write_table(evidence_table(columns, record), temporary, compression="zstd")
    return EvidenceFile(path)


def evidence_table(
    columns: Mapping[str, pa.ChunkedArray | npt.NDArray[Any]], record: EvidenceRecord
) -> pa.Table:
    """Return the rows as a table with its record as metadata."""
    return pa.table(columns).replace_schema_metadata({RECORD: json.dumps(record.to_dict())})


def _evidence_rows(
    evaluation_set: EvaluationSet, source: SourceSettings, wanted: npt.NDArray[np.bool_]
) -> tuple[RowNumbers, npt.NDArray[np.floating] | None]:
    """Return the rows by number, also those without a score, and their sampling weights.

    A row that stands for several is repeated as often.
    """
    rows, weights = counted_of(evaluation_set, source, wanted)
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows, weights


@lru_cache(maxsize=1)  # for the next candidate on the same rows
def _read_identities(
    evaluation_set: EvaluationSet, identities: tuple[str, ...], threshold: float
) -> tuple[npt.NDArray[np.bool_], PackedMasks]:
    """Return which rows were rated for all identities, and which mention each.

    A row mentions an identity if its fraction is at least the threshold; null is no mention.
    """
    rated = np.ones(evaluation_set.n_rows, dtype=np.bool_)

    def each() -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        columns = evaluation_set.iter_columns([IDENTITY + name for name in identities])
        for name, column in zip(identities, columns, strict=True):
            if column.null_count:
                np.logical_and(rated, column.is_valid().to_numpy(), out=rated)
            yield name, reaches_cut(column.to_numpy(), threshold)

    mentions = PackedMasks.from_masks(each(), evaluation_set.n_rows)
    rated.flags.writeable = False
    return rated, mentions


def _join_scores(evaluation_set: EvaluationSet, scored: ScoredSet) -> pa.Table:
    """Return the kept scores in the order of the set, joined by id, never by position."""
    table = scored.table()
    ids = evaluation_set.column("id")
    if table["id"].combine_chunks().equals(ids.cast(table["id"].type).combine_chunks()):
        return table
    position = places(ids, table["id"])
    if len(table) != len(ids) or (position < 0).any():
        msg = (
            f"scores in {scored.url} must have the ids of evaluation set "
            f"{evaluation_set.name!r}. Delete that folder to score again."
        )
        raise InputError(msg)
    return table.take(pa.array(position))


def places(ids: pa.ChunkedArray, among: pa.ChunkedArray) -> RowNumbers:
    """Return where each id stands among others that are all different; -1 where it does not."""
    found = pc.index_in(ids, value_set=among.cast(ids.type).combine_chunks())
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.intp)


def _rival_scores(
    role: str,
    scores: npt.NDArray[np.floating],
    of_rival: ScoredSet,
    scored: ScoredSet,
) -> npt.NDArray[np.floating]:
    """Return a rival's scores of rows, if they can be compared with the candidate's."""
    if not of_rival.is_comparable(scored):
        msg = (
            f"scores of the {role} must have the candidate's precision; got "
            f"{of_rival.precision} where the candidate has {scored.precision}. "
            "Score both with the same precision."
        )
        raise InputError(msg)
    return scores


def _taken(evaluation_set: EvaluationSet, name: str, rows: RowNumbers) -> pa.ChunkedArray:
    return evaluation_set.column(name).take(pa.array(rows))


def recoded(codes: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Return codes 0, 1, ... of the clusters that occur, in the order in which they do."""
    return np.asarray(pd.factorize(codes)[0], dtype=np.intp)


@task(name="gather evidence", task_run_name="gather evidence of {folder!m}")
def gather_evidence(
    set_folder: str,
    scores_folder: str,
    rivals: dict[str, str],
    source: SourceSettings,
    folder: str,
) -> EvidenceFile:
    """Write `evidence.parquet`, unless it is there with the same scores. Safe to retry.

    `rivals` has the score folders of champion and reference.
    """
    written = EvidenceFile(Path(folder) / FILE)
    scored = ScoredSet.open(scores_folder)
    of_rivals = {role: ScoredSet.open(one) for role, one in rivals.items()}
    digests = {role: one.candidate_digest for role, one in {CANDIDATE: scored, **of_rivals}.items()}
    if written.path.exists() and written.record.scores == digests:
        return written
    rows = EvaluationSet.load(Path(set_folder))
    evidence = write_evidence(rows, scored, of_rivals, source, written.path)
    give_back_memory()  # that of scoring, too
    return evidence
