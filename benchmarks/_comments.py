"""Real comments for benchmarks of scoring, from the folder in `BIASGATE_REAL_DATA`."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd


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
