"""Rows of the evidence as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics.parts import PackedMasks
from bias_metrics.rows import Background
from bias_metrics.rows import Rows as LabelledRows
from biasgate.tasks.data.evaluation_set import CLUSTER, WEIGHT

CANDIDATE = "candidate"
COLUMNS = {"labels": "label", "clusters": CLUSTER, "weights": WEIGHT}
"""The columns of the evidence that `Rows` takes unchanged, by the name of the field."""


@dataclass(frozen=True)
class EvidenceRows:
    """Rows of the evidence, as arrays."""

    labels: npt.NDArray[np.bool_]
    members: PackedMasks
    """Masks of the rows that mention each identity."""
    scores: dict[str, npt.NDArray[np.floating]]
    """Scores by role."""
    clusters: npt.NDArray[Any] | None = None
    weights: npt.NDArray[np.float64] | None = None
    """Sampling weights."""

    def select_rows(self, mask: npt.NDArray[np.bool_]) -> EvidenceRows:
        """Return the rows of a mask."""
        return EvidenceRows(
            **{field.name: _select_rows(getattr(self, field.name), mask) for field in fields(self)}
        )

    @property
    def y_score(self) -> npt.NDArray[np.floating]:
        """The candidate's scores."""
        return self.scores[CANDIDATE]

    def check_rows(self, background: Background) -> LabelledRows:
        """Convert the rows to the type of the metrics library, which checks them."""
        return LabelledRows(
            self.labels,
            self.members,
            sample_weight=self.weights,
            clusters=self.clusters,
            background=background,
        )

    def find_shared_background(self, background: str) -> npt.NDArray[np.bool_] | None:
        """Return the background that all identities share; None if each has its own."""
        return ~self.members.find_any_member() if background == "no_identity" else None

    def exclude_mentions(self, identities: Iterable[str]) -> EvidenceRows:
        """Return the rows that do not mention any of these identities."""
        mentions = np.logical_or.reduce([self.members[name] for name in identities])
        return self.select_identities([x for x in self.members if x not in identities]).select_rows(
            ~mentions
        )

    def select_identities(self, identities: Iterable[str]) -> EvidenceRows:
        """Return the same rows with the masks of these identities only."""
        masks = self.members
        members = PackedMasks.from_masks(((x, masks[x]) for x in identities), masks.n_rows)
        return replace(self, members=members)

    @property
    def has_both_classes(self) -> bool:
        """True if there are rows of both classes."""
        return bool(self.labels.any() and not self.labels.all())


def _select_rows(values: Any, mask: npt.NDArray[np.bool_]) -> Any:
    """Select the rows of a mask from an array, from packed masks, or from arrays by name."""
    if values is None:
        return None
    if isinstance(values, dict):
        return {name: array[mask] for name, array in values.items()}
    return values[mask] if isinstance(values, np.ndarray) else values.select_rows(mask)
