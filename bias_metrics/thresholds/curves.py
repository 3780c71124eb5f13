"""The curve behind an AEG, and the gap that an AEG cannot see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import lacks
from bias_metrics._core.checks import (
    FloatArray,
    aligned,
    check_choice,
    check_mask,
    check_scores,
    check_weights,
)
from bias_metrics._core.ranks import Placed, Runs, sort_scores
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.thresholds.errors import weight_below


@dataclass(frozen=True, eq=False)
class EqualityCurve(Tabular):
    """The shares of background and subgroup that score at or above each threshold."""

    thresholds: FloatArray
    """(k,): The distinct scores of the class, descending."""
    background_rate: FloatArray
    subgroup_rate: FloatArray
    """background_rate, subgroup_rate, (k + 1,): from 0, above every score, to 1; element i + 1
    belongs to threshold i. Empty if the curve is undefined."""
    gap: MetricValue
    """Area under the curve minus 1/2: the AEG, from -1/2 to 1/2, ideal 0."""
    unsigned_gap: MetricValue
    """Area between the curve and the diagonal, from 0 to 1/2, ideal 0."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        arrays = ("thresholds", "background_rate", "subgroup_rate")
        gaps = {name: getattr(self, name).to_dict() for name in ("gap", "unsigned_gap")}
        return gaps | {name: getattr(self, name).tolist() for name in arrays}

    def rows(self) -> list[Row]:
        """Return one record per point; the first, above every score, has no threshold."""
        names = ("threshold", "background_rate", "subgroup_rate")
        rates = self.background_rate.tolist(), self.subgroup_rate.tolist()
        points = zip([None, *self.thresholds.tolist()], *rates, strict=False)
        return [dict(zip(names, point, strict=True)) for point in points]


@aligned
def equality_curve(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    in_subgroup: npt.ArrayLike,
    *,
    of: str = "negative",
    sample_weight: npt.ArrayLike | None = None,
) -> EqualityCurve:
    """Compare, at every threshold, how much of the subgroup and of the background is flagged.

    For the rows of one class, x is the share of the background with score >= t and y that of
    the subgroup. The curve of a subgroup that is treated like the background lies on the
    diagonal; above it, the subgroup is flagged more. Scores that occur in both make a diagonal
    segment.

    The area under the curve is P(subgroup > background) + P(equal) / 2, so the `gap` is
    `positive_aeg` or `negative_aeg`. If the subgroup's scores are equally high on average but
    spread wider, the curve crosses the diagonal; the AEG is about 0, and only the `unsigned_gap`
    shows the difference. It is 0 only for equal samples: for m and n rows from the same
    distribution, chance makes it about 0.31 * sqrt(1 / m + 1 / n).

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    in_subgroup : bool array of shape (n,)
        True for the subgroup's rows.
    of : {"negative", "positive"}, default="negative"
        The class whose rows are compared.
    sample_weight : float array of shape (n,), optional
        At least 0.

    Returns
    -------
    EqualityCurve
        The curve and its two areas; `gap` in [-1/2, 1/2] and `unsigned_gap` in [0, 1/2] with
        abs(gap) <= unsigned_gap, both ideal 0 and undefined if the subgroup or the
        background has no rows of the class.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `of` is neither of the two.

    References
    ----------
    Borkan et al. (2019), Figure 2 and definitions 2 to 4; column F of Table 2 is a subgroup
    with wider spread. The unsigned area is our own.

    Examples
    --------
    >>> y_true, y_score = [0, 0, 0, 0], [0.4, 0.6, 0.3, 0.7]
    >>> curve = equality_curve(y_true, y_score, [0, 0, 1, 1])
    >>> curve.background_rate.tolist(), curve.subgroup_rate.tolist()
    ([0.0, 0.0, 0.5, 1.0, 1.0], [0.0, 0.5, 0.5, 0.5, 1.0])
    >>> curve.gap.value, curve.unsigned_gap.value
    (0.0, 0.25)
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    members = check_mask("in_subgroup", in_subgroup, labels.size)
    weights = check_weights(sample_weight, labels.size)
    label = check_choice("of", of, ("negative", "positive")) == "positive"
    of_class = labels == label
    background, subgroup = (
        sort_scores(scores[rows], None if weights is None else weights[rows])
        for rows in (np.flatnonzero(of_class & ~members), np.flatnonzero(of_class & members))
    )
    lack = lacks(**{f"background_{of}s": background.n, f"subgroup_{of}s": subgroup.n})
    if lack:
        none = np.array([])
        return EqualityCurve(none, none, none, undefined(lack), undefined(lack))
    thresholds = np.unique(np.concatenate([background.scores, subgroup.scores]))[::-1]
    x, y = (
        np.concatenate(([0.0], (ranked.total - weight_below(ranked, thresholds)) / ranked.total))
        for ranked in (background, subgroup)
    )
    return EqualityCurve(thresholds, x, y, *_areas(x, y))


class Corners(NamedTuple):
    """A curve given by its corners; it is straight between them."""

    background_rate: FloatArray  # background_rate, subgroup_rate, (k,): from 0 to 1
    subgroup_rate: FloatArray
    unsigned_gap: MetricValue  # As in `EqualityCurve`, apart from rounding


def corners(placed: Placed, runs: Runs) -> Corners:
    """Return the corners of a class's curve from its ranks; neither side may be empty.

    Between two scores of the subgroup only the background's share grows, so there is a corner
    above and at each of the subgroup's scores. No score is sorted or searched again.
    """
    above = np.stack((placed.n - placed.right, runs.n - runs.starts[1:]))
    at = np.stack((placed.n - placed.left, runs.n - runs.starts[:-1]))
    between = np.stack((above, at), axis=-1)[:, ::-1].reshape(2, -1)
    counts = np.concatenate(([[0], [0]], between, [[placed.n], [runs.n]]), axis=1)
    x, y = counts / np.array([[placed.n], [runs.n]])
    return Corners(x, y, _areas(x, y)[1])


def _areas(x: FloatArray, y: FloatArray) -> tuple[MetricValue, MetricValue]:
    """Return the signed and the unsigned area between curve and diagonal, by trapezoids."""
    width = np.diff(x)
    start, stop = (y - x)[:-1], (y - x)[1:]
    signed = width * (start + stop) / 2
    # A segment that crosses the diagonal makes two triangles, one on each side.
    crosses = start * stop < 0
    distance = np.abs(start) + np.abs(stop)
    triangles = (start**2 + stop**2) / np.where(crosses, distance, 1)
    unsigned = width * np.where(crosses, triangles, distance) / 2
    total, absolute = (float(area.sum()) for area in (signed, unsigned))
    return MetricValue(min(max(total, -0.5), 0.5)), MetricValue(min(absolute, 0.5))
