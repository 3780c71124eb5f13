"""Hashes of the rows that a model was trained on, kept with the model.

An evaluation on training rows makes a model look too good. The hashes reveal such rows without
keeping any text. Texts are compared in their normal form; files of older models have hashes of the
exact texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.reading import ROW_NUMBER
from biasgate.tasks.data.same_texts import hash_texts, normalize_text
from biasgate.tasks.records.report import TrainedOn

FILE = "training_rows.parquet"
# Columns of the file: hashes of rows and texts, in normal form or exact.
_NORMAL, _EXACT = ("normal_row", "normal_text"), ("row", "text")
# Short comments ("Thank you!") repeat in any corpus: 1 to 2 % of the texts in Civil Comments. A
# larger share is not chance.
REPEATED_TEXTS = 0.05
_ROWS_A_STEP = 100_000


def write_training_rows(training_set: EvaluationSet, folder: Path) -> None:
    """Write sorted hashes of rows (id with text) and of texts."""
    rows, texts = _hash_rows(training_set, normalize_text)
    table = pa.table(dict(zip(_NORMAL, (np.sort(rows), np.sort(texts)), strict=True)))
    pq.write_table(table, folder / FILE)


def find_training_rows(folder: Path | None, evaluation_set: EvaluationSet) -> TrainedOn | None:
    """Count the rows of a set that a model was trained on.

    None if the sets share no texts, or if the model was not trained here.
    """
    if folder is None or not (folder / FILE).exists():
        return None
    hashes = pq.read_table(folder / FILE)
    is_normal = _NORMAL[0] in hashes.column_names
    rows, texts = (hashes[name].to_numpy() for name in (_NORMAL if is_normal else _EXACT))
    return _count_shared(rows, texts, evaluation_set, normalize_text if is_normal else str)


def refuse_training_rows(
    folder: Path | None, evaluation_set: EvaluationSet, candidate: str, model: str | None
) -> None:
    """Refuse an evaluation set that shares rows with a model's training set."""
    shared = find_training_rows(folder, evaluation_set)
    _refuse_shared(shared, evaluation_set, candidate, "was", model)


def refuse_shared_rows(
    training_set: EvaluationSet, evaluation_sets: Iterable[EvaluationSet], candidate: str
) -> None:
    """Refuse a training set that shares rows with an evaluation set, before any training."""
    rows, texts = _hash_rows(training_set, normalize_text)
    for evaluation_set in evaluation_sets:
        shared = _count_shared(rows, texts, evaluation_set, normalize_text)
        _refuse_shared(shared, evaluation_set, candidate, "would be", None)


def _count_shared(
    training_rows: np.ndarray,
    training_texts: np.ndarray,
    evaluation_set: EvaluationSet,
    normalize: Callable[[str], str],
) -> TrainedOn | None:
    """Count the rows of a set that were used in training; None if no text was.

    Row numbers do not identify rows: a repeated text may have the same number in both sets.
    """
    rows, texts = _hash_rows(evaluation_set, normalize)
    has_ids = evaluation_set.record["source"].get("id") != ROW_NUMBER
    n_rows = int(np.isin(rows, training_rows).sum()) if has_ids else 0
    n_texts = int(np.isin(texts, training_texts).sum())
    return TrainedOn(n_rows=n_rows, n_texts=n_texts) if n_texts else None


def _refuse_shared(
    shared: TrainedOn | None,
    evaluation_set: EvaluationSet,
    candidate: str,
    verb: str,
    model: str | None,
) -> None:
    n = evaluation_set.n_rows
    if shared is None or not (shared.n_rows or shared.n_texts > REPEATED_TEXTS * n):
        return
    setting = f"`allow_training_rows: true` for {candidate!r} in the evaluation file"
    if candidate == "champion" and model is not None:  # the file does not name it yet
        alias = f"{re.split('[/@]', model.removeprefix('models:/'))[0]}@champion"
        setting = (
            "`allow_training_rows` in the evaluation file: `champion: {name: champion, "
            f"kind: mlflow, model: models:/{alias}, allow_training_rows: true}}`"
        )
    msg = (
        f"candidate {candidate!r} {verb} trained on rows of evaluation set "
        f"{evaluation_set.name!r}: {shared.n_rows:,} of {n:,} rows by id and text (none allowed), "
        f"{shared.n_texts:,} ({shared.n_texts / n:.1%}) by text (at most {REPEATED_TEXTS:.0%} "
        f"allowed). Evaluate on a held-out split, or set {setting}."
    )
    raise InputError(msg)


def _hash_rows(
    rows: EvaluationSet, normalize: Callable[[str], str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of rows and of texts, in the order of the rows."""
    row_hashes: list[np.ndarray] = []
    text_hashes: list[np.ndarray] = []
    for batch in rows.iter_batches(["id", "text"], _ROWS_A_STEP):
        ids = batch.column("id").to_pylist()
        texts = [normalize(text) for text in batch.column("text").to_pylist()]
        text_hashes.append(hash_texts(texts))
        pairs = zip(ids, texts, strict=True)
        row_hashes.append(hash_texts(f"{row_id}\n{text}" for row_id, text in pairs))
    return np.concatenate(row_hashes), np.concatenate(text_hashes)
