"""Write docs/tutorial_scores.csv: generated scores of two models, without comments.

python docs/reproduce/tutorial_scores.py

The old model gives harmless comments that mention *gay* or *muslim* scores that are too high. The
new model does so only for *gay*, and less.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

FILE = Path(__file__).parents[1] / "tutorial_scores.csv"
SHARES = {"christian": 0.2, "gay": 0.15, "muslim": 0.15, "sikh": 0.01}
# By model: the addition to the score of a harmless comment by a mention.
HARM = {"old_model": {"gay": 1.4, "muslim": 1.2}, "new_model": {"gay": 0.7}}


def make_rows(n: int = 1500, seed: int = 0) -> list[dict[str, str]]:
    """Return the rows: shares of raters, and two scores from 0 to 1."""
    rng = np.random.default_rng(seed)
    toxicity = np.where(rng.random(n) < 0.3, rng.uniform(0.5, 1, n), rng.uniform(0, 0.5, n))
    toxic = toxicity >= 0.5
    columns = {"id": np.arange(n), "toxicity": toxicity}
    for name, share in SHARES.items():
        mentioned = rng.random(n) < share
        columns[name] = np.where(mentioned, rng.uniform(0.5, 1, n), rng.uniform(0, 0.2, n))
    hardness = rng.normal(0, 0.8, n)  # the same for both models
    for model, harm in HARM.items():
        logit = 2.6 * toxic - 1.6 + hardness + rng.normal(0, 0.5, n)
        for name, extra in harm.items():
            logit += extra * (~toxic & (columns[name] >= 0.5))
        columns[model] = 1 / (1 + np.exp(-logit))
    texts = [
        [str(value) if name == "id" else f"{value:.3f}" for value in column]
        for name, column in columns.items()
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*texts, strict=True)]


def main() -> None:
    """Write the file."""
    rows = make_rows()
    with FILE.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
