"""The rows that a model was trained on, kept as hashes beside the model.

An evaluation on training rows makes a model look too good. The hashes tell whether it has seen
a row, without keeping any text. Texts are compared in their normal form; the files of models that
were trained before have hashes of the texts as they are.
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
# Of rows and texts, in normal form and as they are.
_NORMAL, _EXACT = ("normal_row", "normal_text"), ("row", "text")
# Short comments ("Thank you!") repeat in any corpus: of Civil Comments, 1 to 2 % of the texts. A
# larger share is not chance.
REPEATED_TEXTS = 0.05
_ROWS_A_STEP = 100_000


def write_training_rows(training_set: EvaluationSet, folder: Path) -> None:
    """Write two lists of sorted hashes: of id and text together, and of the text alone."""
    rows, texts = _hashes(training_set, normalize_text)
    table = pa.table(dict(zip(_NORMAL, (np.sort(rows), np.sort(texts)), strict=True)))
    pq.write_table(table, folder / FILE)


def find_training_rows(folder: Path | None, evaluation_set: EvaluationSet) -> TrainedOn | None:
    """Return how many rows of a set a model was trained on; None if none, or nothing is known.

    Nothing is known of a model that was not trained here.
    """
    if folder is None or not (folder / FILE).exists():
        return None
    seen = pq.read_table(folder / FILE)
    is_normal = _NORMAL[0] in seen.column_names
    rows, texts = (seen[name].to_numpy() for name in (_NORMAL if is_normal else _EXACT))
    return _count_shared(rows, texts, evaluation_set, normalize_text if is_normal else str)


def refuse_training_rows(
    folder: Path | None, evaluation_set: EvaluationSet, candidate: str, model: str | None
) -> None:
    """Refuse an evaluation set that shares rows with a model's training set."""
    found = find_training_rows(folder, evaluation_set)
    what = f"candidate {candidate!r} was trained on"
    _refuse_shared(found, evaluation_set, what, _setting(candidate, model))


def refuse_shared_rows(
    training_set: EvaluationSet, evaluation_sets: Iterable[EvaluationSet], candidate: str
) -> None:
    """Refuse a training set that shares rows with an evaluation set, before any training."""
    rows, texts = _hashes(training_set, normalize_text)
    what = f"candidate {candidate!r} would be trained on"
    for evaluation_set in evaluation_sets:
        found = _count_shared(rows, texts, evaluation_set, normalize_text)
        _refuse_shared(found, evaluation_set, what, _setting(candidate, None))


def _count_shared(
    seen_rows: np.ndarray,
    seen_texts: np.ndarray,
    evaluation_set: EvaluationSet,
    form: Callable[[str], str],
) -> TrainedOn | None:
    """Count the rows of a set that have been seen; None if there are none.

    Row numbers are no ids: a text that repeats may have the same number in both sets.
    """
    rows, texts = _hashes(evaluation_set, form)
    has_ids = evaluation_set.record["source"].get("id") != ROW_NUMBER
    n_rows = int(np.isin(rows, seen_rows).sum()) if has_ids else 0
    n_texts = int(np.isin(texts, seen_texts).sum())
    return TrainedOn(n_rows=n_rows, n_texts=n_texts) if n_texts else None


def _refuse_shared(
    found: TrainedOn | None, evaluation_set: EvaluationSet, what: str, setting: str
) -> None:
    n = evaluation_set.n_rows
    if found is not None and (found.n_rows or found.n_texts > REPEATED_TEXTS * n):
        msg = (
            f"{what} rows of evaluation set {evaluation_set.name!r}: {found.n_rows:,} of {n:,} "
            f"rows by id and text (none allowed), {found.n_texts:,} ({found.n_texts / n:.1%}) by "
            f"text (at most {REPEATED_TEXTS:.0%} allowed). Evaluate on a held-out split, or set "
            f"{setting}."
        )
        raise InputError(msg)


def _setting(candidate: str, model: str | None) -> str:
    """Return the setting to write; the evaluation file may not name a registered champion."""
    if candidate != "champion" or model is None:
        return f"`allow_training_rows: true` for {candidate!r} in the evaluation file"
    alias = f"{re.split('[/@]', model.removeprefix('models:/'))[0]}@champion"
    return (
        "`allow_training_rows` in the evaluation file: `champion: {name: champion, "
        f"kind: mlflow, model: models:/{alias}, allow_training_rows: true}}`"
    )


def _hashes(rows: EvaluationSet, form: Callable[[str], str]) -> tuple[np.ndarray, np.ndarray]:
    both: list[np.ndarray] = []
    texts: list[np.ndarray] = []
    for batch in rows.iter_batches(["id", "text"], _ROWS_A_STEP):
        ids = batch.column("id").to_pylist()
        contents = [form(text) for text in batch.column("text").to_pylist()]
        texts.append(hash_texts(contents))
        both.append(hash_texts(f"{a}\n{b}" for a, b in zip(ids, contents, strict=True)))
    return np.concatenate(both), np.concatenate(texts)
