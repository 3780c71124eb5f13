"""Made-up rows of 24 identities, with the scores of a candidate and its champion.

The scores crowd near 0, as those of classifiers of rare classes do. Identities are independent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from biasgate.tasks.data.civil_comments import IDENTITIES

MODELS = {"candidate": "new", "champion": "old"}
"""The column of each model's scores."""
SHARES = dict(zip(IDENTITIES, np.geomspace(0.001, 0.03, len(IDENTITIES)).tolist(), strict=True))
"""How many rows mention each identity."""


def made_scores(
    rng: np.random.Generator,
    n: int,
    *,
    moved: npt.NDArray[np.float64] | float = 0.0,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return columns; each row scores higher by `moved`, before the logistic function."""
    toxic = rng.random(n) < 0.08
    known = rng.normal(-6 + 4 * toxic, 1.8) + moved
    columns = {"toxicity": np.where(toxic, 0.8, 0.1)}
    for name, share in SHARES.items():
        mentioned = rng.random(n) < share
        columns[name] = mentioned.astype(np.float64)
        known += 0.1 * mentioned
    for name in MODELS.values():
        columns[name] = 1 / (1 + np.exp(-known - rng.normal(0, 0.8, n)))
    return columns
