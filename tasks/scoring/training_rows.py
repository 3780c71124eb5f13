"""The rows that a model was trained on, kept as hashes beside the model.

An evaluation on training rows makes a model look too good. The hashes tell whether it has seen
a row, without keeping any text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import say
from biasgate.tasks.data.evaluation_set import EvaluationSet

FILE = "training_rows.parquet"
# Short comments ("Thank you!") repeat in any corpus: of Civil Comments, 1 to 2 % of the texts. A
# larger share is not chance.
REPEATED_TEXTS = 0.05
_ROWS_A_STEP = 100_000


def write_training_rows(training_set: EvaluationSet, folder: Path) -> None:
    """Write two lists of sorted hashes: of id and text together, and of the text alone."""
    rows, texts = _hashes(training_set)
    table = pa.table({"row": np.sort(rows), "text": np.sort(texts)})
    pq.write_table(table, folder / FILE)


def refuse_training_rows(
    folder: Path, evaluation_set: EvaluationSet, candidate: str, model: str | None
) -> None:
    """Refuse an evaluation set that shares rows with a model's training set.

    A model without hashes (one that was not trained here) passes, since nothing is known.
    """
    if not (folder / FILE).exists():
        return
    seen = pq.read_table(folder / FILE)
    rows, texts = _hashes(evaluation_set)
    n_rows = int(np.isin(rows, seen["row"].to_numpy()).sum())
    n_texts = int(np.isin(texts, seen["text"].to_numpy()).sum())
    if n_rows or n_texts > REPEATED_TEXTS * len(texts):
        msg = (
            f"candidate {candidate!r} was trained on rows of evaluation set "
            f"{evaluation_set.name!r}: {n_rows} of {len(rows)} rows by id and text, {n_texts} by "
            f"text (at most {REPEATED_TEXTS:.0%} may be). Evaluate on a held-out split, or set "
            f"{_setting(candidate, model)}."
        )
        raise InputError(msg)
    if n_texts:
        say(
            f"{n_texts:,} of {len(texts):,} texts of {evaluation_set.name} are also texts of the "
            f"training comments of {candidate}",
            aside=True,
        )


def _setting(candidate: str, model: str | None) -> str:
    """Return the setting to write; the evaluation file may not name a registered champion."""
    if candidate != "champion" or model is None:
        return f"`allow_training_rows: true` for {candidate!r} in the evaluation file"
    alias = f"{re.split('[/@]', model.removeprefix('models:/'))[0]}@champion"
    return (
        "`allow_training_rows` in the evaluation file: `champion: {name: champion, "
        f"kind: mlflow, model: models:/{alias}, allow_training_rows: true}}`"
    )


def _hashes(rows: EvaluationSet) -> tuple[np.ndarray, np.ndarray]:
    both: list[np.ndarray] = []
    texts: list[np.ndarray] = []
    for batch in rows.batches(["id", "text"], _ROWS_A_STEP):
        ids, contents = batch.column("id").to_pylist(), batch.column("text").to_pylist()
        texts.append(_digests(contents))
        both.append(_digests(f"{a}\n{b}" for a, b in zip(ids, contents, strict=True)))
    return np.concatenate(both), np.concatenate(texts)


def _digests(values: Iterable[str]) -> np.ndarray:
    joined = b"".join(hashlib.blake2b(v.encode(), digest_size=8).digest() for v in values)
    return np.frombuffer(joined, dtype="<u8")
