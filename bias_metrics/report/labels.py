"""How much the bias metrics depend on what is called toxic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray, aligned, check_scores, check_subgroups
from bias_metrics._core.packed import PackedMasks, Subgroups
from bias_metrics._core.tables import Row, Table, Tabular, flat, labelled, rows_of
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.report.evaluation import evaluate_bias
from bias_metrics.report.report import BiasReport
from bias_metrics.rows import Background


@dataclass(frozen=True)
class LabelSensitivity(Tabular):
    """One model's bias report under several readings of the same labels."""

    by_threshold: dict[float, BiasReport]
    """Over all rows, toxic at or above each threshold."""
    contested: BiasReport
    agreed: BiasReport
    unanimous: BiasReport
    """contested, agreed, unanimous: over rows whose fraction lies between the two bounds, bounds
    included; over all other rows; and over those with fraction 0 or 1. Toxic at >= 0.5."""

    def spread(self, subgroup: str, metric: str) -> MetricValue:
        """Largest minus smallest value of a metric over the thresholds.

        Returns
        -------
        MetricValue
            At least 0, ideal 0; undefined if the metric is undefined at any threshold.
        """
        found = {
            threshold: getattr(report.subgroups[subgroup], metric).value
            for threshold, report in self.by_threshold.items()
        }
        missing = [str(threshold) for threshold, value in found.items() if value is None]
        if missing:
            return undefined(f"undefined at threshold {', '.join(missing)}")
        return MetricValue(max(found.values()) - min(found.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return every report, and the spreads by subgroup and metric, as plain values."""
        return {
            "by_threshold": {str(t): report.to_dict() for t, report in self.by_threshold.items()},
            "spread": {
                name: {metric: self.spread(name, metric).to_dict() for metric in SUBGROUP_METRICS}
                for name in self.contested.subgroups
            },
            "contested": self.contested.to_dict(),
            "agreed": self.agreed.to_dict(),
            "unanimous": self.unanimous.to_dict(),
        }

    def rows(self) -> list[Row]:
        """Return the records of every report, each with the part of the rows it covers."""
        parts = {f"toxic at {t:g}": report for t, report in self.by_threshold.items()}
        parts |= {"contested": self.contested, "agreed": self.agreed, "unanimous": self.unanimous}
        return labelled("part", rows_of(parts))

    def _table(self) -> Table:
        spreads = {
            name: [
                flat({metric: self.spread(name, metric).to_dict() for metric in SUBGROUP_METRICS})
            ]
            for name in self.contested.subgroups
        }
        thresholds = ", ".join(f"{t:g}" for t in self.by_threshold)
        return Table.of(
            labelled("subgroup", spreads), f"largest minus smallest value, toxic at {thresholds}"
        )


@aligned
def label_sensitivity(
    label_fraction: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    thresholds: Sequence[float] = (0.3, 0.4, 0.5, 0.6, 0.7),
    contested: tuple[float, float] = (0.3, 0.7),
    background: Background = "outside_subgroup",
) -> LabelSensitivity:
    """Measure how the bias metrics change with what is called toxic.

    A gap that appears at one threshold only, or only where raters disagree, says as much
    about the labels as about the model. Contested rows are harder, so lower AUCs on them are
    no sign of bias; a *subgroup* whose AUC falls further than the others' is. Each part is
    measured on its own rows only, background included.

    Parameters
    ----------
    label_fraction : float array of shape (n,)
        Fraction of raters who called the comment toxic, from 0 to 1.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    thresholds : sequence of float
        A row is toxic if its fraction is at least this; all different, above 0, at most 1.
    contested : tuple of float, default=(0.3, 0.7)
        Smallest and largest fraction at which raters count as divided, inside (0, 1).
    background : {"outside_subgroup", "no_identity"}, default="outside_subgroup"
        As in `evaluate_bias`.

    Returns
    -------
    LabelSensitivity
        A report for each threshold and each part, and how far each metric changes; undefined
        values keep their reasons.

    Raises
    ------
    ValueError
        If a length differs, a fraction is outside [0, 1], a score is not finite, a
        membership is not 0 or 1, or an option breaks its rule.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    Jigsaw Unintended Bias in Toxicity Classification (2019), data page (fractions of raters,
    toxic at >= 0.5). Davani, Diaz and Prabhakaran (2022), Dealing with Disagreements: Looking
    Beyond the Majority Vote in Subjective Annotations.

    Examples
    --------
    >>> moved = label_sensitivity(
    ...     [0.0, 0.4, 0.6, 1.0], [0.1, 0.8, 0.7, 0.9], {"g": [0, 1, 1, 0]}, thresholds=(0.3, 0.5)
    ... )
    >>> [report.overall.auc.value for report in moved.by_threshold.values()]
    [1.0, 0.75]
    >>> moved.spread("g", "subgroup_auc").reason
    'undefined at threshold 0.3'
    """
    fractions = checked_fractions(label_fraction)
    scores = check_scores("y_score", y_score, fractions.size, like="label_fraction")
    masks = check_subgroups(subgroups, fractions.size, like="label_fraction")
    _check_options(thresholds, contested)

    def measure(toxic: BoolArray, rows: BoolArray) -> BiasReport:
        kept = ((name, mask[rows]) for name, mask in masks.items())
        members = PackedMasks.of(kept, int(rows.sum()))
        return evaluate_bias(
            toxic[rows], scores[rows], members, intervals=False, background=background
        )

    divided = (fractions >= contested[0]) & (fractions <= contested[1])
    toxic = fractions >= 0.5
    return LabelSensitivity(
        by_threshold={float(t): measure(fractions >= t, np.ones_like(toxic)) for t in thresholds},
        contested=measure(toxic, divided),
        agreed=measure(toxic, ~divided),
        unanimous=measure(toxic, (fractions == 0) | (fractions == 1)),
    )


def checked_fractions(label_fraction: npt.ArrayLike) -> FloatArray:
    """Return fractions in [0, 1], shape (n,)."""
    fractions = check_scores("label_fraction", label_fraction)
    wrong = np.flatnonzero((fractions < 0) | (fractions > 1))
    if wrong.size:
        row = wrong[0]
        msg = f"`label_fraction` must be in [0, 1]; got {fractions[row]:g} (row {row})."
        raise ValueError(msg)
    return fractions


def _check_options(thresholds: Sequence[float], contested: tuple[float, float]) -> None:
    different = len(set(thresholds)) == len(thresholds)
    if not (thresholds and different and all(0 < t <= 1 for t in thresholds)):
        msg = f"`thresholds` must be different numbers in (0, 1]; got {thresholds}."
        raise ValueError(msg)
    low, high = contested
    if not 0 < low <= high < 1:
        msg = f"`contested` must be two ascending numbers inside (0, 1); got {contested}."
        raise ValueError(msg)
