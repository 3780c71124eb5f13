"""Which threshold to choose so that errors are spread evenly over subgroups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    FloatArray,
    aligned,
    check_choice,
    check_mask,
    check_scores,
    check_share,
    check_subgroups,
    check_weights,
)
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.ranks import SortedClasses, sort_classes
from bias_metrics._core.tables import Row, Table, Tabular
from bias_metrics.thresholds.errors import (
    RATES,
    ErrorCurve,
    distinct_scores,
    error_curve,
    sort_subgroup,
)

# Precision needs flagged rows, which a subgroup lacks at high thresholds.
COMPARED = tuple(name for name in RATES if name != "precision")


@dataclass(frozen=True)
class OperatingPoint:
    """The effect of one threshold."""

    threshold: float
    """Scores at or above it are flagged."""
    recall: float
    precision: float
    """recall, precision: over all rows, from 0 to 1, ideal 1."""
    gap: float
    """Largest abs(rate of a subgroup - rate of all rows), from 0 to 1, ideal 0."""
    subgroup: str
    rate: str
    """subgroup, rate: the subgroup and the rate that have this gap."""


@dataclass(frozen=True)
class ThresholdAdvice(Tabular):
    """The advised threshold, and the alternatives."""

    advised: OperatingPoint | None
    """The smallest gap that meets both minimums; None if nothing does."""
    reason: str | None
    """Why nothing is advised; None otherwise."""
    frontier: tuple[OperatingPoint, ...]
    """Among thresholds with the required recall, those for which no other has a smaller gap without
    less precision, or more precision without a larger gap; from high precision to small gap. Empty
    if the gap is undefined."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "advised": None if self.advised is None else dict(vars(self.advised)),
            "reason": self.reason,
            "frontier": [dict(vars(point)) for point in self.frontier],
        }

    def rows(self) -> list[Row]:
        """Return one record per point of the frontier, and whether it is advised."""
        return [{"advised": point == self.advised} | vars(point) for point in self.frontier]

    def _table(self) -> Table:
        return Table.of(self.rows(), "" if self.reason is None else f"no advice: {self.reason}")


@aligned
def advise_threshold(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    min_recall: float,
    min_precision: float,
    rates: Sequence[str] = ("false_positive_rate", "false_negative_rate"),
    sample_weight: npt.ArrayLike | None = None,
) -> ThresholdAdvice:
    """Find the threshold with the smallest gap between subgroups among those good enough.

    The gap of a threshold is the largest abs(rate of a subgroup - rate of all rows), over
    subgroups and over `rates`: the largest term of `fped` and `fned`. Every distinct score
    is tried; a row is flagged if its score >= the threshold.

    Both minimums are needed: flagging every row gives recall 1 and gap 0, and flagging almost
    none gives high precision and almost no gap, so with one minimum alone the advice would be
    useless. A minimum of 0 turns it off.

    The threshold is chosen on these rows, so its gap on other rows is usually larger.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup; rows may belong to several or to none.
    min_recall, min_precision : float
        Required of all rows together, from 0 to 1.
    rates : sequence of str
        Rates to compare; default false positive and false negative rate. Also `recall` and
        `accuracy`.
    sample_weight : float array of shape (n,), optional
        At least 0.

    Returns
    -------
    ThresholdAdvice
        The threshold with its recall, precision and gap (among equal gaps the highest
        precision, then the lowest threshold), and the frontier of precision against gap.
        None, with a reason, if no threshold meets both minimums or if a rate is undefined
        for all rows or for a subgroup.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if a minimum is not from 0 to 1 or a rate is unknown.

    References
    ----------
    Hardt et al. (2016), Equality of Opportunity in Supervised Learning (one threshold
    against several); the gap is a term of Dixon et al. (2018), equations 1 and 2.

    Examples
    --------
    >>> y_true, y_score = [0, 0, 1, 1, 0, 0, 1, 1], [0.1, 0.2, 0.6, 0.9, 0.3, 0.7, 0.8, 0.9]
    >>> muslim = {"muslim": [0, 0, 0, 0, 1, 1, 1, 1]}
    >>> found = advise_threshold(y_true, y_score, muslim, min_recall=0.7, min_precision=0.7)
    >>> found.advised.threshold, found.advised.precision, found.advised.gap
    (0.8, 1.0, 0.25)
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    weights = check_weights(sample_weight, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    demands = check_share("min_recall", min_recall), check_share("min_precision", min_precision)
    names = _check_rates(rates)
    everyone = sort_classes(labels, scores, weights)
    groups = {name: sort_subgroup(labels, scores, mask, weights) for name, mask in masks.items()}
    if reason := _why_undefined(everyone, groups, names):
        return ThresholdAdvice(None, reason, ())
    overall = error_curve(everyone, distinct_scores(everyone))
    gaps, widest = _gaps(overall, groups, names)
    places = [(subgroup, rate) for subgroup in groups for rate in names]
    recall, precision = (overall.rate(name).filled(0) for name in ("recall", "precision"))
    frontier = tuple(
        OperatingPoint(
            threshold=float(overall.thresholds[i]),
            recall=float(recall[i]),
            precision=float(precision[i]),
            gap=float(gaps[i]),
            subgroup=places[widest[i]][0],
            rate=places[widest[i]][1],
        )
        for i in _frontier(np.flatnonzero(recall >= demands[0]), precision, gaps)
    )
    good = [point for point in frontier if point.precision >= demands[1]]
    if good:
        return ThresholdAdvice(good[-1], None, frontier)
    reason = (
        f"no threshold has recall {demands[0]:g} and precision {demands[1]:g}: "
        f"at that recall, precision is {frontier[0].precision:.4g} at most"
    )
    return ThresholdAdvice(None, reason, frontier)


def _check_rates(rates: Sequence[str]) -> tuple[str, ...]:
    if isinstance(rates, str) or not rates:
        msg = f"`rates` must be a list of names ({', '.join(COMPARED)}); got {rates!r}."
        raise ValueError(msg)
    return tuple(check_choice("rates", name, COMPARED) for name in rates)


def _why_undefined(
    everyone: SortedClasses, groups: Mapping[str, SortedClasses], names: tuple[str, ...]
) -> str | None:
    """List who lacks the rows that a rate needs, which then are lacking at every threshold."""
    if not groups:
        return "no subgroups"
    missing = []
    for group, classes, asked in [
        ("all rows", everyone, ("recall", *names)),
        *((group, classes, names) for group, classes in groups.items()),
    ]:
        errors = error_curve(classes, np.zeros(1)).at(0)
        rates = (errors.rate(name) for name in asked)
        reasons = dict.fromkeys(str(rate.reason) for rate in rates if rate.value is None)
        missing += [f"{group} ({', '.join(reasons)})"] if reasons else []
    return f"undefined for {', '.join(missing)}" if missing else None


def _gaps(
    overall: ErrorCurve, groups: Mapping[str, SortedClasses], names: tuple[str, ...]
) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Return the largest gap at each threshold, and the index of its subgroup and rate."""
    gaps: FloatArray = np.full(overall.thresholds.size, -1.0)
    widest = np.zeros(overall.thresholds.size, dtype=np.intp)
    base = {name: overall.rate(name).filled(0) for name in names}
    place = 0
    for classes in groups.values():  # one curve at a time: there may be millions of thresholds
        curve = error_curve(classes, overall.thresholds)
        for name in names:
            gap = np.abs(curve.rate(name).filled(0) - base[name])
            wider = gap > gaps
            gaps[wider], widest[wider] = gap[wider], place
            place += 1
    return gaps, widest


def _frontier(
    candidates: npt.NDArray[np.intp], precision: FloatArray, gaps: FloatArray
) -> npt.NDArray[np.intp]:
    """Return the candidates that no other dominates, from high precision to small gap."""
    order = candidates[np.lexsort((candidates, gaps[candidates], -precision[candidates]))]
    before = np.concatenate(([np.inf], np.minimum.accumulate(gaps[order])[:-1]))
    return order[gaps[order] < before]
