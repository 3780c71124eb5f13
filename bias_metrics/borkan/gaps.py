"""The two Average Equality Gaps of Borkan et al. (2019): is one class of a subgroup shifted?

D+ and D- are the positive and negative rows of the background (all rows outside the
subgroup), Dg+ and Dg- those of the subgroup. AUC(neg, pos) = P(pos > neg) + P(pos = neg) / 2.
To measure many subgroups use `evaluate_bias`, which sorts the scores once for all of them.
"""

from __future__ import annotations

from bias_metrics._core.cells import Cells
from bias_metrics._core.values import MetricValue
from bias_metrics.borkan.of_a_subgroup import of_a_subgroup


@of_a_subgroup
def positive_aeg(cells: Cells) -> MetricValue:
    """AUC(D+, Dg+) - 1/2: do toxic rows of the subgroup score higher than toxic others?

    Positive: the subgroup's toxic rows score higher than the background's; negative: lower.
    The sign is that of definitions 3 and 4 and of Table 2; the integral of definition 2,
    taken literally, has the opposite sign. 0 means P = 1/2, not equal means or equal
    distributions: a subgroup whose scores are only spread wider has an AEG of 0.

    Returns
    -------
    MetricValue
        In [-1/2, 1/2], ideal 0; undefined without subgroup or background positives.

    References
    ----------
    Borkan et al. (2019), definitions 3 and 4.

    Examples
    --------
    >>> positive_aeg([1, 1, 1], [0.5, 0.6, 0.9], [0, 0, 1]).value
    0.5
    """
    return cells.positive_aeg


@of_a_subgroup
def negative_aeg(cells: Cells) -> MetricValue:
    """AUC(D-, Dg-) - 1/2: do non-toxic rows of the subgroup score higher than non-toxic others?

    Positive: harmless mentions of the identity score higher than other harmless rows, the
    usual direction of harm. Sign and meaning of 0 as in `positive_aeg`.

    Returns
    -------
    MetricValue
        In [-1/2, 1/2], ideal 0; undefined without subgroup or background negatives.

    References
    ----------
    Borkan et al. (2019), definitions 3 and 4.

    Examples
    --------
    >>> negative_aeg([0, 0, 0], [0.1, 0.3, 0.2], [0, 0, 1]).value
    0.0
    """
    return cells.negative_aeg
