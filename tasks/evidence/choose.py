"""Selection of the measured rows of a set, with their labels, weights and clusters."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics.parts import reaches_cut
from bias_metrics.rows import find_counted_rows
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import (
    CLUSTER,
    IDENTITY,
    WEIGHT,
    EvaluationSet,
)
from biasgate.tasks.data.same_texts import hash_texts, normalize_text
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records import Choices
from biasgate.tasks.records.numbers import CONFIDENCE


def choose_rows(
    evaluation_set: EvaluationSet,
    source: SourceSettings,
    rated: npt.NDArray[np.bool_] | None = None,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], Choices]:
    """Choose the measured rows and the positive rows.

    Returns
    -------
    measured : array of bool of shape (n,)
        The measured rows among all rows of the set.
    labels : array of bool of shape (n,)
        The positive rows.
    choices : Choices
        The choices, for the report.

    Raises
    ------
    InputError
        If `power_mean_groups` has an unmeasured name, no row was rated, or a class is empty.
    """
    identities = source.measured_identities(evaluation_set.identities)
    _refuse_unknown_groups(source, identities)
    if rated is None:
        rated = np.ones(evaluation_set.n_rows, dtype=np.bool_)
        for column in evaluation_set.iter_columns([IDENTITY + name for name in identities]):
            if column.null_count:
                np.logical_and(rated, column.is_valid().to_numpy(), out=rated)
    measured = find_labelled_rows(evaluation_set)
    if source.identity_rows == "rated":
        measured = measured & rated
    labels = reaches_cut(evaluation_set.column("label").to_numpy(), source.label_threshold)
    choices = Choices(
        label_threshold=source.label_threshold,
        identity_threshold=source.identity_threshold,
        identity_rows=source.identity_rows,
        background=source.background,
        n_rows=evaluation_set.n_rows,
        sampled_from=evaluation_set.sampled_from,
        n_rows_unlabelled=evaluation_set.n_unlabelled or None,
        n_rows_rated=int(rated.sum()),
        n_rows_measured=int(measured.sum()),
        confidence=CONFIDENCE,
        n_clusters=None,
        weights=source.weight_kind if WEIGHT in evaluation_set.columns else None,
        population="these_rows" if source.population == "these_rows" else None,
    )
    if not measured.any():
        _refuse_unrated(evaluation_set, identities)
    _refuse_empty(labels[measured], source, choices)
    if choices.weights is not None:
        repeat_rows(evaluation_set, source, measured)  # refuses fractions as frequencies
    return measured, labels, choices


def find_labelled_rows(evaluation_set: EvaluationSet) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows with a label and a weight above 0, rated or not."""
    if WEIGHT not in evaluation_set.columns:
        return np.ones(evaluation_set.n_rows, dtype=np.bool_)
    return np.asarray(evaluation_set.column(WEIGHT).to_numpy() > 0)


def drop_missing(
    wanted: npt.NDArray[np.bool_],
    labels: npt.NDArray[np.bool_],
    y_score: npt.NDArray[np.floating],
    source: SourceSettings,
    choices: Choices,
) -> tuple[npt.NDArray[np.bool_], Choices]:
    """Drop the wanted rows without a score, and count them in the choices.

    Raises
    ------
    InputError
        If a class has only rows without a score.
    """
    missing = wanted & np.isnan(y_score)
    n_missing = int(missing.sum())
    if not n_missing:
        return wanted, choices
    n_measured = choices.n_rows_measured - n_missing
    choices = replace(choices, n_rows_missing=n_missing, n_rows_measured=n_measured)
    kept = wanted & ~missing
    if labels[kept].all() or not labels[kept].any():
        msg = (
            f"evaluation set {source.name!r} must have rows of both classes with a score; "
            f"{n_missing} of its {int(wanted.sum())} rows have none."
        )
        raise InputError(msg)
    return np.asarray(kept), choices


def repeat_rows(
    evaluation_set: EvaluationSet, source: SourceSettings, measured: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.floating] | None]:
    """Return the measured rows, repeated by frequency weights, and their sampling weights.

    The rows are a mask, or row numbers if rows are repeated.
    """
    if WEIGHT not in evaluation_set.columns:
        return measured, None
    weights = evaluation_set.column(WEIGHT).to_numpy()[measured]
    try:
        rows, weights = find_counted_rows(weights, weights.size, source.weight_kind)
    except ValueError as error:
        msg = f"weights of evaluation set {evaluation_set.name!r} do not fit: {error}"
        raise InputError(msg) from error
    return (measured if rows is None else np.flatnonzero(measured)[rows]), weights


_MANY_COPIES = 0.01  # of the rows
_ROWS_A_STEP = 100_000


@lru_cache(maxsize=1)  # for the next candidate on the same rows
def find_clusters(evaluation_set: EvaluationSet) -> tuple[npt.NDArray[np.intp] | None, int | None]:
    """Return the cluster of each row as a number, and the number of copies.

    Rows with the same normalized text are not independent. So the rows of each text form a cluster
    if the set has no clusters, and more than 1 % of its rows are copies.

    Returns
    -------
    codes : array of int of shape (n,) or None
        None without clusters.
    n_copies : int or None
        None if the set has its own clusters, or no text.
    """
    columns = evaluation_set.columns
    if CLUSTER in columns:
        return _encode_column(evaluation_set.column(CLUSTER)), None
    if not evaluation_set.has_text:
        return None, None
    hashes, blank = _hash_normal_forms(evaluation_set)
    n_blank = int(blank.sum())
    codes = _encode_column(pa.chunked_array([hashes]))
    n_copies = codes.size - int(codes.max(initial=-1) + 1) - max(n_blank - 1, 0)
    if n_copies <= _MANY_COPIES * codes.size:
        return None, n_copies
    if n_blank:  # missing texts may differ, so each is a cluster of its own
        blank_rows = np.flatnonzero(blank)
        codes = codes.copy()
        codes[blank_rows] = int(codes.max()) + 1 + np.arange(n_blank)
        codes = np.unique(codes, return_inverse=True)[1].astype(np.intp)
    return codes, n_copies


def _hash_normal_forms(evaluation_set: EvaluationSet) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the hash of each normalized text, and a mask of the blank texts."""
    hashes, blank = [], []
    for batch in evaluation_set.iter_batches(["text"], _ROWS_A_STEP):
        forms = [normalize_text(text or "") for text in batch.column("text").to_pylist()]
        hashes.append(hash_texts(forms))
        blank.append(np.array([not form for form in forms], np.bool_))
    return np.concatenate(hashes), np.concatenate(blank)


def _encode_column(column: pa.ChunkedArray) -> npt.NDArray[np.intp]:
    """Encode each value as a number, from 0 without gaps."""
    chunks = column.dictionary_encode().chunks
    indices = [np.asarray(pc.fill_null(chunk.indices, -1)) for chunk in chunks]
    codes = np.concatenate([*indices, np.empty(0, np.intp)]).astype(np.intp)
    if (codes < 0).any():
        codes = np.unique(codes, return_inverse=True)[1].astype(np.intp)
    codes.flags.writeable = False
    return codes


def _refuse_unrated(evaluation_set: EvaluationSet, identities: list[str]) -> None:
    """Refuse empty identity columns, which leave no row rated for all identities."""
    columns = evaluation_set.iter_columns([IDENTITY + name for name in identities])
    empty = [
        name
        for name, column in zip(identities, columns, strict=True)
        if column.null_count == len(column)
    ]
    if empty:
        msg = (
            f"identities of evaluation set {evaluation_set.name!r} must have values; the column of "
            f"{', '.join(map(repr, empty))} is empty. Remove it from `identities`, or fill it with "
            "0 for comments that do not mention the identity."
        )
        raise InputError(msg)


def _refuse_unknown_groups(source: SourceSettings, identities: list[str]) -> None:
    unknown = [name for name in source.power_mean_groups or () if name not in identities]
    if unknown:
        msg = (
            f"`power_mean_groups` of evaluation set {source.name!r} must be measured identities; "
            f"got {', '.join(unknown)} (known: {', '.join(identities)})."
            f"{did_you_mean(unknown[0], identities)}"
        )
        raise InputError(msg)


def _refuse_empty(labels: npt.NDArray[np.bool_], source: SourceSettings, choices: Choices) -> None:
    if labels.size == 0:
        is_sample = choices.sampled_from is not None
        advice = (
            "Use a larger sample."
            if is_sample
            else "Set `identity_rows: all` to count null as not mentioned."
        )
        msg = (
            f"evaluation set {source.name!r} must have rows with rated identities; none of its "
            f"{choices.n_rows} rows has a value for every identity. {advice}"
        )
        raise InputError(msg)
    if labels.all() or not labels.any():
        kind = "positives" if not labels.any() else "negatives"
        msg = (
            f"evaluation set {source.name!r} must have both classes; its {labels.size} measured "
            f"rows have no {kind} (label >= {choices.label_threshold} is positive)."
            f"{' Use a larger sample.' if choices.sampled_from is not None else ''}"
        )
        raise InputError(msg)
