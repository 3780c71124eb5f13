"""Shared arrays for measuring one candidate on one set: joined, selected and ranked, on disk.

Each is written once and memory-mapped by the tasks that need it, so that no large object is
passed to a task.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd

from bias_metrics import SortedClasses, SortedScores
from bias_metrics._core.packed import PackedMasks, bytes_of
from bias_metrics.report.evaluation import Members, RankedRows, rank_rows
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_folder, write_json
from biasgate.tasks.data.evaluation_set import IDENTITY, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records import Choices
from biasgate.tasks.scoring.scored_set import ScoredSet

CONFIDENCE = 0.95


class LayoutRecord(TypedDict):
    """`layout.json`: the measured identities, those in the power means, how rows were selected."""

    identities: list[str]
    power_mean_groups: list[str] | None
    choices: Choices


@dataclass(frozen=True)
class Layout:
    """Arrays of one candidate on one set, in a folder, memory-mapped when read.

    Attributes
    ----------
    folder : Path
        Holds `*.npy` and `layout.json`.
    """

    folder: Path

    @cached_property
    def record(self) -> LayoutRecord:
        """The content of `layout.json`; read once."""
        found: LayoutRecord = json.loads((self.folder / "layout.json").read_text("utf-8"))
        return found

    def array(self, name: str) -> npt.NDArray[Any]:
        """Memory-map one array, read-only."""
        return np.asarray(np.load(self.folder / f"{name}.npy", mmap_mode="r"))

    def ranked(self) -> RankedRows:
        """Return all measured rows, sorted by class."""
        classes = SortedClasses(
            SortedScores(self.array("positive")), SortedScores(self.array("negative"))
        )
        return RankedRows(classes, self.array("y_true"), self.array("position"))

    def masks(self) -> PackedMasks:
        """Return which measured rows mention each identity."""
        record = self.record
        n_measured = record["choices"]["n_rows_measured"]
        return PackedMasks(record["identities"], self.array("members"), n_measured)

    def clusters(self) -> npt.NDArray[np.intp] | None:
        """Return the cluster of each measured row as a number; None without clusters."""
        return self.array("cluster") if (self.folder / "cluster.npy").exists() else None

    def others(self, ranked: RankedRows) -> Members | None:
        """Return the rows that no background has; None if each identity excludes its own."""
        background = self.background()
        return None if background is None else ranked.members(np.flatnonzero(~background))

    def background(self) -> npt.NDArray[np.bool_] | None:
        """Return the common background of all identities; None if each excludes its own rows."""
        kept = (self.folder / "mentioned.npy").exists()
        return np.logical_not(self.array("mentioned")) if kept else None


def lay_out(
    evaluation_set: EvaluationSet, scored: ScoredSet, source: SourceSettings, folder: Path
) -> Layout:
    """Join scores to rows, select the rows to measure and rank them.

    Parameters
    ----------
    evaluation_set : EvaluationSet
        The frozen rows.
    scored : ScoredSet
        One score per row; joined by id, never by position.
    source : SourceSettings
        The measuring choices.
    folder : Path
        Where to write the arrays.

    Returns
    -------
    Layout
        With the choices and row counts in its record.

    Raises
    ------
    InputError
        If ids differ, no row was rated, or a class is empty.
    """
    y_score = joined_scores(evaluation_set, scored)
    identities = source.measured_identities(evaluation_set.identities)
    rated, mentions = _read_identities(evaluation_set, identities, source.identity_threshold)
    measured, labels, choices = choose_rows(evaluation_set, source, rated)
    ranked = rank_rows(labels[measured], y_score[measured])
    clusters = _cluster_codes(evaluation_set, measured)
    choices["confidence"] = CONFIDENCE
    choices["n_clusters"] = None if clusters is None else int(clusters.max()) + 1
    with whole_folder(folder, durable=False) as temporary:
        arrays = {
            "measured": measured,
            "y_true": labels[measured],
            "y_score": y_score[measured],
            "positive": ranked.everyone.positive.scores,
            "negative": ranked.everyone.negative.scores,
            "position": ranked.position,
        }
        if clusters is not None:
            arrays["cluster"] = clusters
        if source.background == "no_identity" and identities:
            arrays["mentioned"] = mentions.any()[measured]
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array)
        _save_members(mentions, measured, temporary / "members.npy")
        record: LayoutRecord = {
            "identities": identities,
            "power_mean_groups": source.power_mean_groups,
            "choices": choices,
        }
        write_json(temporary / "layout.json", record)
    return Layout(folder)


def choose_rows(
    evaluation_set: EvaluationSet,
    source: SourceSettings,
    rated: npt.NDArray[np.bool_] | None = None,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], Choices]:
    """Return which rows are measured, which are positive, and the choices made.

    Returns
    -------
    tuple
        Two arrays of shape (n,) over all rows of the set, and the choices for the report.

    Raises
    ------
    InputError
        If `power_mean_groups` has an unmeasured name, no row was rated, or a class is empty.
    """
    identities = source.measured_identities(evaluation_set.identities)
    _refuse_unknown_groups(source, identities)
    if rated is None:
        rated = _rated(evaluation_set, identities)
    measured = rated if source.identity_rows == "rated" else np.ones_like(rated)
    labels = evaluation_set.column("label").to_numpy() >= source.label_threshold
    choices: Choices = {
        "label_threshold": source.label_threshold,
        "identity_threshold": source.identity_threshold,
        "identity_rows": source.identity_rows,
        "background": source.background,
        "n_rows": evaluation_set.n_rows,
        "n_rows_rated": int(rated.sum()),
        "n_rows_measured": int(measured.sum()),
    }
    if source.population == "these_rows":
        choices["population"] = "these_rows"
    _refuse_empty(labels[measured], evaluation_set.name, choices)
    return measured, labels, choices


def _rated(evaluation_set: EvaluationSet, identities: list[str]) -> npt.NDArray[np.bool_]:
    """Return which rows were rated for all identities."""
    rated = np.ones(evaluation_set.n_rows, dtype=np.bool_)
    for column in evaluation_set.each_column([IDENTITY + name for name in identities]):
        if column.null_count:
            np.logical_and(rated, column.is_valid().to_numpy(), out=rated)
    return rated


def _read_identities(
    evaluation_set: EvaluationSet, identities: list[str], threshold: float
) -> tuple[npt.NDArray[np.bool_], PackedMasks]:
    """Return which rows were rated for all identities, and which mention each.

    A row mentions an identity if its fraction is at least the threshold; null is no mention.
    """
    rated = np.ones(evaluation_set.n_rows, dtype=np.bool_)

    def each() -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        columns = evaluation_set.each_column([IDENTITY + name for name in identities])
        for name, column in zip(identities, columns, strict=True):
            if column.null_count:
                np.logical_and(rated, column.is_valid().to_numpy(), out=rated)
            yield name, np.asarray(column.to_numpy() >= threshold, dtype=np.bool_)

    mentions = PackedMasks.of(each(), evaluation_set.n_rows)
    return rated, mentions


def _save_members(mentions: PackedMasks, measured: npt.NDArray[np.bool_], path: Path) -> None:
    """Write which of the measured rows mention each identity, one bit each."""
    shape = (len(mentions), bytes_of(int(measured.sum())))
    if not mentions:
        np.save(path, np.zeros(shape, dtype=np.uint8))
        return
    packed = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    for at, mask in enumerate(mentions.values()):
        packed[at] = np.packbits(mask[measured])
    packed.flush()


def joined_scores(evaluation_set: EvaluationSet, scored: ScoredSet) -> npt.NDArray[np.floating]:
    """Return one score per row of the set, joined by id.

    Raises
    ------
    InputError
        If the ids are not exactly those of the set.
    """
    table = scored.table()
    ids = evaluation_set.column("id")
    scores = table["score"].to_numpy()
    if table["id"].combine_chunks().equals(ids.cast(table["id"].type).combine_chunks()):
        return np.asarray(scores)
    position = pd.Index(table["id"].to_pandas()).get_indexer(ids.to_pandas())
    if len(scores) != len(ids) or (position < 0).any():
        msg = (
            f"scores in {scored.url} must have the ids of evaluation set "
            f"{evaluation_set.name!r}. Delete that folder to score again."
        )
        raise InputError(msg)
    return np.asarray(scores[position])


def _cluster_codes(
    evaluation_set: EvaluationSet, measured: npt.NDArray[np.bool_]
) -> npt.NDArray[np.intp] | None:
    if "cluster" not in evaluation_set.columns:
        return None
    names = evaluation_set.column("cluster").to_numpy()[measured]
    return np.asarray(pd.factorize(names)[0], dtype=np.intp)


def _refuse_unknown_groups(source: SourceSettings, identities: list[str]) -> None:
    unknown = [name for name in source.power_mean_groups or () if name not in identities]
    if unknown:
        msg = (
            f"`power_mean_groups` of evaluation set {source.name!r} must be measured identities; "
            f"got {', '.join(unknown)} (known: {', '.join(identities)})."
            f"{did_you_mean(unknown[0], identities)}"
        )
        raise InputError(msg)


def _refuse_empty(labels: npt.NDArray[np.bool_], name: str, choices: Choices) -> None:
    if labels.size == 0:
        msg = (
            f"evaluation set {name!r} must have rows with rated identities; none of "
            f"its {choices['n_rows']} rows has any. Set `identity_rows: all` to count null as not "
            "mentioned."
        )
        raise InputError(msg)
    if labels.all() or not labels.any():
        kind = "positives" if not labels.any() else "negatives"
        msg = (
            f"evaluation set {name!r} must have both classes; its {labels.size} measured rows have "
            f"no {kind} (label >= {choices['label_threshold']} is positive)."
        )
        raise InputError(msg)
