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
"""The columns of the evidence that are fields of `Rows` as they are, by the name of the field."""


@dataclass(frozen=True)
class Rows:
    """Some rows of the evidence, as arrays."""

    labels: npt.NDArray[np.bool_]
    members: PackedMasks
    scores: dict[str, npt.NDArray[np.floating]]
    clusters: npt.NDArray[Any] | None = None
    weights: npt.NDArray[np.float64] | None = None

    def within(self, kept: npt.NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        return Rows(**{of.name: _within(getattr(self, of.name), kept) for of in fields(self)})

    @property
    def y_score(self) -> npt.NDArray[np.floating]:
        """The candidate's scores."""
        return self.scores[CANDIDATE]

    def checked(self, background: Background) -> LabelledRows:
        """Return the rows as the library takes them."""
        return LabelledRows(
            self.labels,
            self.members,
            sample_weight=self.weights,
            clusters=self.clusters,
            background=background,
        )

    def shared_background(self, background: str) -> npt.NDArray[np.bool_] | None:
        """Return the rows that all identities are compared with; None if each has its own."""
        return ~self.members.find_any_member() if background == "no_identity" else None

    def without(self, identities: Iterable[str]) -> Rows:
        """Return the rows that mention none of some identities."""
        mentions = np.logical_or.reduce([self.members[name] for name in identities])
        return self.among([x for x in self.members if x not in identities]).within(~mentions)

    def among(self, identities: Iterable[str]) -> Rows:
        """Return the same rows with some of the identities."""
        masks = self.members
        members = PackedMasks.from_masks(((x, masks[x]) for x in identities), masks.n_rows)
        return replace(self, members=members)

    @property
    def has_both_classes(self) -> bool:
        """Whether there are rows of both classes."""
        return bool(self.labels.any() and not self.labels.all())


def _within(values: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Return what some of the rows have: of an array, masks, or arrays by name."""
    if values is None:
        return None
    if isinstance(values, dict):
        return {name: of_name[kept] for name, of_name in values.items()}
    return values[kept] if isinstance(values, np.ndarray) else values.select_rows(kept)
