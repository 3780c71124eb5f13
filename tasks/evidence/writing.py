"""Write the evidence of a verdict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import IDENTITY, MATCHED, SLICE, WEIGHT, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import (
    FILE,
    LABELLED,
    RECORD,
    SCORE,
    EvidenceFile,
    EvidenceRecord,
)
from biasgate.tasks.evidence.join import Layout, joined_scores
from biasgate.tasks.records import Choices
from biasgate.tasks.scoring.scored_set import ScoredSet


def write_evidence(
    layout: Layout,
    evaluation_set: EvaluationSet,
    scored: ScoredSet,
    rivals: Mapping[str, ScoredSet],
    path: Path,
    *,
    lasting_clusters: bool = False,
) -> EvidenceFile:
    """Write the evidence of a verdict.

    Parameters
    ----------
    layout : Layout
        The candidate's measured rows.
    evaluation_set : EvaluationSet
        The set of these rows.
    scored : ScoredSet
        The candidate's scores.
    rivals : mapping of str to ScoredSet
        Scores of `champion` and `reference` on the same rows, joined by id.
    path : Path
        Where to write the file.
    lasting_clusters : bool, default=False
        Whether a cluster has the same number in every set, not only in this one.

    Returns
    -------
    EvidenceFile
        The file.

    Raises
    ------
    InputError
        If a rival's scores are of other rows or another precision.
    """
    record = layout.record
    measured, columns = _columns_of(layout)
    columns = {"id": _measured(evaluation_set, "id", measured)} | columns
    for name, of_rival in rivals.items():
        scores = joined_scores(evaluation_set, of_rival)[measured]
        if not of_rival.is_comparable(scored):
            msg = (
                f"scores of the {name} must have the candidate's precision; got "
                f"{of_rival.precision} where the candidate has {scored.precision}. "
                "Score both with the same precision."
            )
            raise InputError(msg)
        _refuse_missing(scores, name, record["choices"])
        columns[SCORE + name] = scores
    if lasting_clusters and "cluster" in columns:
        columns["cluster"] = _numbered(_measured(evaluation_set, "cluster", measured))
    for name in evaluation_set.columns:
        if name.startswith(SLICE):
            columns[name] = _measured(evaluation_set, name, measured)
    all_scores = {"candidate": scored, **rivals}
    metadata: EvidenceRecord = {
        "set_digest": evaluation_set.digest,
        "choices": record["choices"],
        "power_mean_groups": record["power_mean_groups"],
        "scores": {name: one.candidate_digest for name, one in all_scores.items()},
        "bound": {name: one.record["bound"] for name, one in all_scores.items()},
    }
    with whole_file(path) as temporary:
        pq.write_table(evidence_table(columns, metadata), temporary, compression="zstd")
    return EvidenceFile(path)


def _refuse_missing(scores: npt.NDArray[np.floating], name: str, choices: Choices) -> None:
    """Refuse a rival without a score for some rows, where every row must have one."""
    needs_all = [key for key in ("planned_rows", "prediction_powered") if choices.get(key)]
    if needs_all and np.isnan(scores).any():
        msg = (
            f"the {name} must have a score for every row of a set with "
            f"`{'pool_nights' if needs_all == ['planned_rows'] else 'prediction_powered'}`; it has "
            f"none for {int(np.isnan(scores).sum())}."
        )
        raise InputError(msg)


def _columns_of(layout: Layout) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """Return which rows are evidence, and what is known of them except scores of rivals."""
    powered, every = layout.powered(), layout.every()
    if every is not None:
        measured, masks, clusters = every.rows, every.masks, every.clusters
        labels, scores = every.y_true, every.y_score
    elif powered is None:
        measured, masks, clusters = layout.array("measured"), layout.masks(), layout.clusters()
        labels, scores = layout.array("y_true"), layout.array("y_score")
    else:
        labels, scores, masks = powered.y_true, powered.y_score, powered.human
        measured, clusters = np.ones(labels.size, dtype=np.bool_), powered.clusters
    columns: dict[str, Any] = {"label": labels, SCORE + "candidate": scores}
    # One bit per row.
    columns |= {IDENTITY + name: pa.array(mask) for name, mask in masks.items()}
    if powered is not None:
        columns[LABELLED] = powered.labelled
        columns |= {MATCHED + name: pa.array(mask) for name, mask in powered.matched.items()}
    if clusters is not None:
        columns["cluster"] = clusters
    if layout.has_weights:
        columns[WEIGHT] = layout.array("weight") if every is None else every.weights
    return measured, columns


def _measured(evaluation_set: EvaluationSet, name: str, measured: npt.NDArray[Any]) -> Any:
    """Return a column of the measured rows, which are given by a mask or by number."""
    rows = np.flatnonzero(measured) if measured.dtype == np.bool_ else measured
    return evaluation_set.column(name).take(pa.array(rows))


def _numbered(names: Any) -> npt.NDArray[np.int64]:
    """Return a number for each cluster that depends on its name alone, and hides the name."""
    known = {
        name: int.from_bytes(hashlib.sha256(str(name).encode()).digest()[:8], "big", signed=True)
        for name in set(names.to_pylist())
    }
    return np.array([known[name] for name in names.to_pylist()], dtype=np.int64)


def evidence_table(columns: Mapping[str, Any], record: EvidenceRecord) -> pa.Table:
    """Return the rows as a table with its record as metadata."""
    return pa.table(columns).replace_schema_metadata({RECORD: json.dumps(record)})


@task(name="gather evidence", task_run_name="gather evidence of {folder!m}")
def gather_evidence(
    layout: Layout,
    set_folder: str,
    scores_folder: str,
    rivals: dict[str, str],
    source: SourceSettings,
    folder: str,
) -> str:
    """Write `evidence.parquet` and return its path. Safe to retry.

    `rivals` has the score folders of champion and reference.
    """
    evidence = write_evidence(
        layout,
        EvaluationSet.load(Path(set_folder)),
        ScoredSet.open(scores_folder),
        {name: ScoredSet.open(one) for name, one in rivals.items()},
        Path(folder) / FILE,
        lasting_clusters=source.pool_nights is not None,
    )
    return str(evidence.path)
