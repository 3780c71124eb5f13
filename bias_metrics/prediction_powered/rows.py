"""The arguments of the prediction-powered functions, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    FloatArray,
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_subgroups,
)
from bias_metrics._core.cluster_codes import check_clusters
from bias_metrics._core.clusters import Codes
from bias_metrics._core.frames import Subgroups
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.options import check_choice
from bias_metrics._core.weighting import Rows, masks_of
from bias_metrics.borkan.aggregates import check_power
from bias_metrics.prediction_powered.sampling import refuse_selected
from bias_metrics.report.report import BACKGROUNDS


@dataclass(frozen=True, eq=False)
class PoweredRows:
    """Checked rows: all of them, or the labelled ones.

    Attributes
    ----------
    labels : bool array of shape (n,)
        True for the positive class.
    human, matched : mapping of str to bool array of shape (n,)
        Who is in which subgroup, by human labels (meaningless on unlabelled rows) and by terms.
    labelled : bool array of shape (n,)
        Which rows have human labels.
    codes : int array of shape (n,)
        The cluster of each row; its own number without clusters.
    clustered : bool
        Whether there are clusters.
    power : float
        Exponent of the power means.
    groups : tuple of str
        The subgroups they cover.
    confidence : float
        Confidence of each interval.
    background : {"outside_subgroup", "no_identity"}
        Which rows a subgroup is compared with.
    """

    labels: BoolArray
    human: Mapping[str, BoolArray]
    matched: Mapping[str, BoolArray]
    labelled: BoolArray
    codes: Codes
    clustered: bool
    power: float
    groups: tuple[str, ...]
    confidence: float
    background: str

    @classmethod
    def of(
        cls,
        y_true: npt.ArrayLike,
        subgroups: Subgroups,
        matched: Subgroups,
        labelled: npt.ArrayLike,
        *,
        power: float,
        power_mean_groups: Sequence[str] | None,
        confidence: float,
        clusters: npt.ArrayLike | None,
        background: str,
    ) -> PoweredRows:
        """Check arguments, see `prediction_powered_bias`."""
        labels = check_mask("y_true", y_true)
        human = check_subgroups(subgroups, labels.size)
        terms = check_subgroups(matched, labels.size, name="matched")
        if human.keys() != terms.keys():
            different = ", ".join(sorted(human.keys() ^ terms.keys()))
            msg = f"`matched` must have the names of `subgroups`; in only one: {different}."
            raise ValueError(msg)
        known = check_mask("labelled", labelled, labels.size)
        if not known.any():
            msg = f"`labelled` must be true of some rows; got none of {labels.size}."
            raise ValueError(msg)
        codes = check_clusters(clusters, labels.size)
        units = np.arange(labels.size) if codes is None else codes
        for group, mask in terms.items():
            refuse_selected(f"matched[{group!r}]", mask, labels, known, units)
        return cls(
            labels=labels,
            human=human,
            matched=terms,
            labelled=known,
            codes=units,
            clustered=codes is not None,
            power=check_power(power),
            groups=check_power_mean_groups(power_mean_groups, human),
            confidence=check_confidence(confidence),
            background=check_choice("background", background, BACKGROUNDS),
        )

    def scores(self, name: str, given: npt.ArrayLike) -> FloatArray:
        """Check one model's scores, and that rows were not labelled by them."""
        scores = check_scores(name, given, self.labels.size)
        refuse_selected(name, scores, self.labels, self.labelled, self.codes)
        return scores

    @property
    def clusters(self) -> Codes | None:
        """The clusters, if there are any."""
        return self.codes if self.clustered else None

    @property
    def n_labelled(self) -> dict[str, int]:
        """How many rows of each class are labelled."""
        positive = int(np.count_nonzero(self.labelled & self.labels))
        return {
            "positive": positive,
            "negative": int(np.count_nonzero(self.labelled)) - positive,
        }

    def within(self, rows: Rows) -> PoweredRows:
        """Return some of the rows; clusters keep their codes."""
        return replace(
            self,
            labels=self.labels[rows],
            human=masks_of(self.human, rows),
            matched=masks_of(self.matched, rows),
            labelled=self.labelled[rows],
            codes=self.codes[rows],
        )

    def options(self) -> dict[str, Any]:
        """Return the options as those of `evaluate_bias`."""
        return {
            "power": self.power,
            "power_mean_groups": self.groups,
            "confidence": self.confidence,
            "clusters": self.clusters,
            "background": self.background,
        }
