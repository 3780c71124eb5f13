"""Rows with human labels of subgroups on a part, and term matching on all, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray, check_mask
from bias_metrics._core.clusters import Codes
from bias_metrics._core.frames import Subgroups
from bias_metrics.prediction_powered.sampling import refuse_selected
from bias_metrics.report.steps import Options
from bias_metrics.rows import Rows


@dataclass(frozen=True, eq=False)
class PoweredRows:
    """All rows, twice: with subgroups by human labels, and as matched by terms.

    Human labels mean nothing on rows that are not `labelled`. `codes` are the clusters; without
    clusters, each row's own number.
    """

    human: Rows
    matched: Rows
    labelled: BoolArray
    codes: Codes
    options: Options
    confidence: float

    @classmethod
    def of(
        cls,
        rows: Rows,
        matched: Subgroups,
        labelled: npt.ArrayLike,
        *,
        power: float = -5.0,
        power_mean_groups: Sequence[str] | None = None,
        confidence: float = 0.95,
    ) -> PoweredRows:
        """Check arguments, see `prediction_powered_bias`."""
        rows.refuse("prediction-powered inference", "sample_weight")
        terms = rows.grouped(matched, name="matched")
        if rows.subgroups.keys() != terms.subgroups.keys():
            different = ", ".join(sorted(rows.subgroups.keys() ^ terms.subgroups.keys()))
            msg = f"`matched` must have the names of `subgroups`; in only one: {different}."
            raise ValueError(msg)
        known = check_mask("labelled", labelled, rows.n)
        if not known.any():
            msg = f"`labelled` must be true of some rows; got none of {rows.n}."
            raise ValueError(msg)
        codes = np.arange(rows.n) if rows.clusters is None else rows.clusters
        for group, mask in terms.subgroups.items():
            refuse_selected(f"matched[{group!r}]", mask, rows.y_true, known, codes)
        options = Options.of(
            rows, power=power, power_mean_groups=power_mean_groups, confidence=confidence
        )
        return cls(rows, terms, known, codes, options, float(confidence))

    def scores(self, name: str, given: npt.ArrayLike) -> FloatArray:
        """Check one model's scores, and that rows were not labelled by them."""
        scores = self.human.scores(name, given)
        refuse_selected(name, scores, self.human.y_true, self.labelled, self.codes)
        return scores

    @property
    def clustered(self) -> bool:
        """Whether there are clusters."""
        return self.human.clusters is not None

    @property
    def n_labelled(self) -> dict[str, int]:
        """How many rows of each class are labelled."""
        positive = int(np.count_nonzero(self.labelled & self.human.y_true))
        return {
            "positive": positive,
            "negative": int(np.count_nonzero(self.labelled)) - positive,
        }
