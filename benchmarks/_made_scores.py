"""Generated rows of 24 identities, with the scores of a candidate and its champion.

Most scores are near 0, as is usual for classifiers of rare classes. Identities are independent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from biasgate.tasks.data.civil_comments import IDENTITIES

MODELS = {"candidate": "new", "champion": "old"}
"""The column of each model's scores."""
SHARES = dict(zip(IDENTITIES, np.geomspace(0.001, 0.03, len(IDENTITIES)).tolist(), strict=True))
"""Share of the rows that mention an identity."""


def generate_scores(
    rng: np.random.Generator,
    n: int,
    *,
    moved: npt.NDArray[np.float64] | float = 0.0,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the columns of generated rows.

    `moved` is added to the scores of the rows before the logistic function.
    """
    is_toxic = rng.random(n) < 0.08
    logits = rng.normal(-6 + 4 * is_toxic, 1.8) + moved
    columns = {"toxicity": np.where(is_toxic, 0.8, 0.1)}
    for name, share in SHARES.items():
        is_mentioned = rng.random(n) < share
        columns[name] = is_mentioned.astype(np.float64)
        logits += 0.1 * is_mentioned
    for name in MODELS.values():
        columns[name] = 1 / (1 + np.exp(-logits - rng.normal(0, 0.8, n)))
    return columns
