"""Rows of the evidence as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.packed import PackedMasks


@dataclass(frozen=True)
class Rows:
    """Some rows of the evidence, as arrays.

    Rows of a prediction-powered set say which are `labelled`, and which are `matched` by terms.
    """

    labels: npt.NDArray[np.bool_]
    members: PackedMasks
    clusters: npt.NDArray[Any] | None
    weights: npt.NDArray[np.float64] | None
    scores: dict[str, npt.NDArray[np.floating]]
    matched: PackedMasks | None = None
    labelled: npt.NDArray[np.bool_] | None = None

    def within(self, kept: npt.NDArray[np.bool_]) -> Rows:
        """Return some of the rows; none may be of a prediction-powered set."""
        return Rows(
            labels=self.labels[kept],
            members=self.members.within(kept),
            clusters=None if self.clusters is None else self.clusters[kept],
            weights=None if self.weights is None else self.weights[kept],
            scores={name: scores[kept] for name, scores in self.scores.items()},
        )
