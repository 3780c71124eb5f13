"""One function per metric of one subgroup: what the five have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Protocol

import numpy.typing as npt

from bias_metrics._core.cells import Cells, comparisons, measure_cells
from bias_metrics._core.checks import aligned, check_mask, check_scores, check_weights
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.ranks import sort_classes
from bias_metrics._core.values import MetricValue

_PARAMETERS = """Parameters
----------
y_true : bool array of shape (n,)
    True for the positive class.
y_score : float array of shape (n,)
    Finite scores.
in_subgroup : bool array of shape (n,)
    True for the subgroup's rows.
sample_weight : float array of shape (n,), optional
    At least 0; sampling weights, as in `evaluate_bias`.
confidence : float, default=0.95
    Confidence of the interval.

Returns
"""
_ERRORS = """Raises
------
ValueError, TypeError
    As `evaluate_bias`.

References
"""


class SubgroupFunction(Protocol):
    """The call signature of a metric of one subgroup."""

    def __call__(
        self,
        y_true: npt.ArrayLike,
        y_score: npt.ArrayLike,
        in_subgroup: npt.ArrayLike,
        *,
        sample_weight: npt.ArrayLike | None = None,
        confidence: float = 0.95,
    ) -> MetricValue:
        """Measure the metric."""


def of_a_subgroup(pick: Callable[[Cells], MetricValue]) -> SubgroupFunction:
    """Make the function of one metric, given the cell to pick.

    The shared parameters and errors are inserted into the docstring before `Returns` and
    `References`.
    """

    @aligned
    def measure(
        y_true: npt.ArrayLike,
        y_score: npt.ArrayLike,
        in_subgroup: npt.ArrayLike,
        *,
        sample_weight: npt.ArrayLike | None = None,
        confidence: float = 0.95,
    ) -> MetricValue:
        labels = check_mask("y_true", y_true)
        scores = check_scores("y_score", y_score, labels.size)
        mask = check_mask("in_subgroup", in_subgroup, labels.size)
        weights = check_weights(sample_weight, labels.size)
        own_weights = None if weights is None else weights[mask]
        everyone = sort_classes(labels, scores, weights)
        own = sort_classes(labels[mask], scores[mask], own_weights)
        return pick(measure_cells(comparisons(everyone, own), check_confidence(confidence)))

    text = inspect.cleandoc(pick.__doc__ or "")
    text = text.replace("Returns\n", _PARAMETERS, 1).replace("References\n", _ERRORS, 1)
    measure.__name__ = measure.__qualname__ = pick.__name__
    measure.__module__, measure.__doc__ = pick.__module__, text
    return measure
