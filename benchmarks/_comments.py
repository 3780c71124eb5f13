"""Real comments for benchmarks of scoring, from the folder in `BIASGATE_REAL_DATA`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

ALL = 1_804_874
"""Rows of the training set of Civil Comments."""
_LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def locate_real_data() -> Path:
    """Return the folder of real data. Times on generated text would not be representative."""
    folder = os.environ.get("BIASGATE_REAL_DATA")
    if not folder:
        raise SystemExit("set BIASGATE_REAL_DATA to the folder of real data to benchmark scoring")
    return Path(folder)


def load_training_comments() -> tuple[list[str], np.ndarray]:
    """Return 16,100 Civil Comments and their labels; 70 % are toxic."""
    table = pd.read_parquet(locate_real_data() / "civil_comments_text.parquet")
    return table["comment_text"].tolist(), (table["toxicity"] >= 0.5).to_numpy()


def load_natural_comments(rows: int) -> tuple[list[str], np.ndarray]:
    """Return up to 2,000 unselected Civil Comments and their labels; 8.8 % are toxic."""
    table = pd.read_csv(locate_real_data() / "civil_comments_natural_2000.csv").head(rows)
    return table["comment_text"].tolist(), table["toxicity"].to_numpy() >= 0.5


def repeat_comments(
    texts: Sequence[str], labels: np.ndarray, n_rows: int
) -> Iterator[tuple[np.ndarray, pa.Table]]:
    """Yield the indices of repeated comments, and tables of id, text and label."""
    for start in range(0, n_rows, 50_000):
        ids = np.arange(start, min(start + 50_000, n_rows))
        indices = ids % len(texts)
        columns = {
            "id": pa.array([f"c{number}" for number in ids]),
            "text": pa.array([texts[i] for i in indices], pa.large_string()),
            "label": pa.array(labels[indices].astype(float)),
        }
        yield indices, pa.table(columns)


def generate_comments(texts: Sequence[str], rows: int, seed: int = 0) -> Iterator[tuple[str, int]]:
    """Yield comments joined from two halves, with the index of the text of the first half.

    In half of the comments a letter of a word is replaced, so that the number of different words
    grows as in real comments.
    """
    words = [text.split() for text in texts]
    rng = np.random.default_rng(seed)
    for _ in range(0, rows, 10_000):
        size = min(rows, 10_000)
        rows -= size
        pairs = rng.integers(len(words), size=(size, 2)).tolist()
        places, letters = rng.random(size=(size, 3)).tolist(), rng.choice(_LETTERS, size).tolist()
        for (first_index, second_index), (word_place, letter_place, typo), letter in zip(
            pairs, places, letters, strict=True
        ):
            first, second = words[first_index], words[second_index]
            comment = first[: (len(first) + 1) // 2] + second[len(second) // 2 :]
            if typo < 0.5 and comment:
                word = int(word_place * len(comment))
                position = int(letter_place * len(comment[word]))
                comment[word] = comment[word][:position] + letter + comment[word][position + 1 :]
            yield " ".join(comment), first_index
