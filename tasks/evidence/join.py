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
from bias_metrics._core.ranks import weighted_scores
from bias_metrics.report.evaluation import Members, RankedRows, rank_rows
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_folder, write_json
from biasgate.tasks.data.evaluation_set import IDENTITY, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.choose import (
    choose_rows,
    cluster_codes,
    counted_of,
    leave_out_missing,
)
from biasgate.tasks.evidence.every_row import EveryRow
from biasgate.tasks.evidence.powered import PoweredArrays, read_matched
from biasgate.tasks.records import Choices
from biasgate.tasks.scoring.scored_set import ScoredSet


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
        classes = SortedClasses(self._sorted("positive"), self._sorted("negative"))
        return RankedRows(classes, self.array("y_true"), self.array("position"))

    def _sorted(self, name: str) -> SortedScores:
        scores = self.array(name)
        if not self.has_weights:
            return SortedScores(scores)
        return weighted_scores(scores, self.array(f"{name}_weight"))

    @property
    def has_weights(self) -> bool:
        """Whether the measured rows have sampling weights."""
        return (self.folder / "weight.npy").exists()

    def masks(self) -> PackedMasks:
        """Return which measured rows mention each identity."""
        n_measured = self.array("y_true").size
        return PackedMasks(self.record["identities"], self.array("members"), n_measured)

    def clusters(self) -> npt.NDArray[np.intp] | None:
        """Return the cluster of each measured row as a number; None without clusters."""
        return self.array("cluster") if (self.folder / "cluster.npy").exists() else None

    def every(self) -> EveryRow | None:
        """Return also the rows without a score; None if all have one."""
        if not (self.folder / "every_rows.npy").exists():
            return None
        y_true = self.array("every_y_true")
        optional = {
            name: self.array(f"every_{name}")
            if (self.folder / f"every_{name}.npy").exists()
            else None
            for name in ("cluster", "weight")
        }
        return EveryRow(
            self.array("every_rows"),
            y_true,
            self.array("every_y_score"),
            PackedMasks(self.record["identities"], self.array("every_members"), y_true.size),
            optional["cluster"],
            optional["weight"],
        )

    def others(self, ranked: RankedRows) -> Members | None:
        """Return the rows that no background has; None if each identity excludes its own."""
        background = self.background()
        return None if background is None else ranked.members(np.flatnonzero(~background))

    def background(self) -> npt.NDArray[np.bool_] | None:
        """Return the common background of all identities; None if each excludes its own rows."""
        kept = (self.folder / "mentioned.npy").exists()
        return np.logical_not(self.array("mentioned")) if kept else None

    def powered(self) -> PoweredArrays | None:
        """Return all rows, if human labels on some are helped by terms on all."""
        if not self.record["choices"].get("prediction_powered"):
            return None
        names, n = self.record["identities"], self.record["choices"]["n_rows"]
        clusters = self.array("all_cluster") if self.clusters() is not None else None
        return PoweredArrays(
            self.array("all_y_true"),
            self.array("all_y_score"),
            PackedMasks(names, self.array("all_members"), n),
            PackedMasks(names, self.array("all_matched"), n),
            self.array("measured"),
            clusters,
        )


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
    wanted, labels, choices = choose_rows(evaluation_set, source, rated)
    chosen = leave_out_missing(wanted, labels, y_score, source, choices)
    measured, weights = counted_of(evaluation_set, source, chosen)
    ranked = rank_rows(labels[measured], y_score[measured], weights)
    every_cluster = cluster_codes(evaluation_set)
    clusters = None if every_cluster is None else recoded(every_cluster[measured])
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
        if weights is not None:
            everyone = ranked.everyone
            arrays["weight"] = weights
            arrays["positive_weight"] = everyone.positive.weight
            arrays["negative_weight"] = everyone.negative.weight
        if clusters is not None:
            arrays["cluster"] = clusters
        if source.background == "no_identity" and identities:
            arrays["mentioned"] = mentions.any()[measured]
        if choices.get("n_rows_missing"):
            every, every_weight = counted_of(evaluation_set, source, wanted)
            arrays |= {
                "every_rows": every,
                "every_y_true": labels[every],
                "every_y_score": y_score[every],
            }
            if every_weight is not None:
                arrays["every_weight"] = every_weight
            if every_cluster is not None:
                arrays["every_cluster"] = recoded(every_cluster[every])
            _save_members(mentions, every, temporary / "every_members.npy")
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array)
        _save_members(mentions, measured, temporary / "members.npy")
        if source.prediction_powered:
            np.save(temporary / "all_y_true.npy", labels)
            np.save(temporary / "all_y_score.npy", y_score)
            if every_cluster is not None:
                np.save(temporary / "all_cluster.npy", every_cluster)
            everything = np.ones_like(labels)
            matched = read_matched(evaluation_set, identities)
            _save_members(mentions, everything, temporary / "all_members.npy")
            _save_members(matched, everything, temporary / "all_matched.npy")
        record: LayoutRecord = {
            "identities": identities,
            "power_mean_groups": source.power_mean_groups,
            "choices": choices,
        }
        write_json(temporary / "layout.json", record)
    return Layout(folder)


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


def _save_members(mentions: PackedMasks, measured: npt.NDArray[Any], path: Path) -> None:
    """Write which of the measured rows mention each identity, one bit each."""
    n_measured = measured.sum() if measured.dtype == np.bool_ else measured.size
    shape = (len(mentions), bytes_of(int(n_measured)))
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


def recoded(codes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return codes 0, 1, ... of the clusters that occur, in the order in which they do."""
    return np.asarray(pd.factorize(codes)[0], dtype=np.intp)
