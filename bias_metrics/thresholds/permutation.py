"""How large a sum of absolute differences is when there is no difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    aligned,
    check_mask,
    check_rng,
    check_scores,
    check_share,
    check_subgroups,
)
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.tables import Tabular
from bias_metrics._core.values import MetricValue, undefined


class HasValue(Protocol):
    """A result whose number is its `value`."""

    @property
    def value(self) -> MetricValue:
        """The number."""


@dataclass(frozen=True)
class NullReference(Tabular):
    """A metric, and what chance alone would give."""

    value: MetricValue
    """The metric of the rows as given."""
    mean: MetricValue
    """Its mean over the permutations."""
    quantiles: dict[float, MetricValue]
    """Its quantiles over the permutations."""
    n_permutations: int
    """Number of permutations."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **self.value.to_dict(),
            "mean": self.mean.to_dict(),
            "quantiles": {str(share): value.to_dict() for share, value in self.quantiles.items()},
            "n_permutations": self.n_permutations,
        }


@aligned
def permuted_reference(
    metric: Callable[..., MetricValue | HasValue],
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    rng: np.random.Generator,
    n_permutations: int = 200,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
) -> NullReference:
    """Measure repeatedly with the subgroups' memberships permuted within each label.

    `fped`, `fned` and `pinned_auc_equality_difference` sum absolute values, so in any sample
    they are above 0 however fair the model, especially for small subgroups, and no interval for
    them is valid. Once permuted, membership says nothing beyond the label: a value within the
    quantiles can be explained by chance, a value above them cannot. The reference is not an
    interval of the value and not a gate.

    The memberships of a row stay together, so that subgroups keep their sizes in each class
    and their intersections.

    Parameters
    ----------
    metric : callable
        Called as `metric(y_true, y_score, subgroups)`; returns a MetricValue or a result
        with one as its `value`. Set options with `functools.partial`.
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    rng : numpy.random.Generator
        Source of the permutations.
    n_permutations : int, default=200
        At least 1.
    quantiles : sequence of float
        From 0 to 1; default .05, .5 and .95.

    Returns
    -------
    NullReference
        The value, and mean and quantiles of its permutations, in the metric's range; these
        are undefined if the value is, or if it is for any permutation.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `rng` is not a Generator, `n_permutations` is under 1 or a
        quantile is not from 0 to 1.

    References
    ----------
    Good (2005), Permutation, Parametric and Bootstrap Tests of Hypotheses.

    Examples
    --------
    >>> from functools import partial
    >>> from bias_metrics import fped
    >>> y_true, y_score = [0, 0, 0, 0, 0, 0], [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]
    >>> gay, rng = {"gay": [0, 0, 0, 1, 1, 1]}, np.random.default_rng(0)
    >>> at_half = partial(fped, threshold=0.5)
    >>> found = permuted_reference(at_half, y_true, y_score, gay, rng=rng)
    >>> found.value.value, round(found.quantiles[0.5].value, 3)
    (0.5, 0.167)
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    generator = check_rng(rng)
    shares = [check_share("quantiles", share) for share in quantiles]
    check_n_permutations(n_permutations)
    value = _number(metric(labels, scores, masks))
    found: list[float] = []
    if value.value is not None:
        strata = np.flatnonzero(labels), np.flatnonzero(~labels)
        drawn = (_permuted(scores, strata, generator) for _ in range(n_permutations))
        values = [_number(metric(labels, permuted, masks)).value for permuted in drawn]
        found = [number for number in values if number is not None]
    return summarise_permutations(value, found, shares, n_permutations)


def check_n_permutations(n_permutations: int) -> None:
    """Refuse less than one permutation."""
    if n_permutations < 1:
        msg = f"`n_permutations` must be at least 1; got {n_permutations}."
        raise ValueError(msg)


def summarise_permutations(
    value: MetricValue, found: Sequence[float], quantiles: Sequence[float], n_permutations: int
) -> NullReference:
    """Compare a value with the permutations in which it was defined."""
    # A value without an interval has a reason too.
    reason = value.reason if value.value is None else None
    if reason is None and len(found) < n_permutations:
        reason = f"undefined in {n_permutations - len(found)} of {n_permutations} permutations"
    if reason is not None:
        none = undefined(reason)
        return NullReference(value, none, dict.fromkeys(quantiles, none), n_permutations)
    return NullReference(
        value=value,
        mean=MetricValue(float(np.mean(found))),
        quantiles={share: MetricValue(float(np.quantile(found, share))) for share in quantiles},
        n_permutations=n_permutations,
    )


def _permuted(
    scores: npt.NDArray[np.floating],
    strata: tuple[npt.NDArray[np.intp], ...],
    rng: np.random.Generator,
) -> npt.NDArray[np.floating]:
    """Permute the scores within each label, which is the same as permuting the memberships."""
    permuted = scores.copy()
    for rows in strata:
        permuted[rows] = scores[rng.permutation(rows)]
    return permuted


def _number(result: MetricValue | HasValue) -> MetricValue:
    """Return a result's value; a MetricValue is returned as it is."""
    return result if isinstance(result, MetricValue) else result.value
