"""The metrics of Borkan et al. (2019), with a function for each, and their aggregates."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy.typing as npt

from bias_metrics._core.cells import compare_classes, measure_pair_auc
from bias_metrics._core.checks import check_mask, check_scores, check_weights
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.ranks import sort_classes
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS

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
    """Call signature of a metric of a subgroup."""

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


def define_metric(described: Callable[[], None]) -> SubgroupFunction:
    """Turn a function that has only a docstring into the function of the metric of its name.

    The docstring gets the shared parameters before `Returns`, and the shared errors before
    `References`.
    """
    metric = described.__name__
    centre = METRICS[metric].centre

    @require_aligned
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
        level = check_confidence(confidence)
        return (
            compare_classes(everyone, own)[metric].measure_auc(centre=centre).compute_value(level)
        )

    text = inspect.cleandoc(described.__doc__ or "")
    text = text.replace("Returns\n", _PARAMETERS, 1).replace("References\n", _ERRORS, 1)
    measure.__name__ = measure.__qualname__ = metric
    measure.__module__, measure.__doc__ = described.__module__, text
    return measure


# ---- A function for each AUC and Average Equality Gap of Borkan et al. (2019).
#
# D+ and D- are the positive and negative rows of the background (all rows outside the subgroup),
# Dg+ and Dg- those of the subgroup. AUC(neg, pos) = P(pos > neg) + P(pos = neg) / 2. To measure
# many subgroups, use `evaluate_bias`, which sorts the scores once for all subgroups


@require_aligned
def roc_auc(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    *,
    sample_weight: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> MetricValue:
    """Probability that a random positive row scores above a random negative row.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive class.
    y_score : float array of shape (n,)
        Finite scores.
    sample_weight : float array of shape (n,), optional
        At least 0; sampling weights, as in `evaluate_bias`.
    confidence : float, default=0.95
        Confidence of the interval.

    Returns
    -------
    MetricValue
        In [0, 1], ideal 1, 0.5 for scores without information; undefined without positives
        or without negatives.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`.

    References
    ----------
    Hanley and McNeil (1982), The Meaning and Use of the Area under a Receiver Operating
    Characteristic (ROC) Curve.

    Examples
    --------
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8]).value
    0.875
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    classes = sort_classes(labels, scores, check_weights(sample_weight, labels.size))
    return measure_pair_auc(classes.negative, classes.positive).compute_value(
        check_confidence(confidence)
    )


@define_metric
def subgroup_auc() -> None:
    """AUC(Dg-, Dg+): separation of toxic and non-toxic rows within the subgroup.

    Low: the model separates badly among rows that mention the identity. Subgroup rows are not
    compared with the background, so a shift of the whole subgroup leaves this AUC unchanged; BPSN,
    BNSP and the AEGs measure such a shift.

    Returns
    -------
    MetricValue
        In [0, 1], ideal 1; undefined without subgroup positives or negatives.

    References
    ----------
    Borkan et al. (2019), equation 1.

    Examples
    --------
    >>> subgroup_auc([0, 1, 0, 1], [0.1, 0.9, 0.7, 0.2], [0, 0, 1, 1]).value
    0.0
    """


@define_metric
def bpsn_auc() -> None:
    """AUC(Dg-, D+), Background Positive Subgroup Negative: is a harmless mention over-flagged?

    Low: non-toxic rows that mention the identity score like toxic rows that do not, so a
    threshold produces false positives for the subgroup. The mirror image is `bnsp_auc`.

    Returns
    -------
    MetricValue
        In [0, 1], ideal 1; undefined without subgroup negatives or background positives.

    References
    ----------
    Borkan et al. (2019), equation 2.

    Examples
    --------
    >>> bpsn_auc([0, 1, 0, 1], [0.1, 0.6, 0.7, 0.8], [0, 0, 1, 1]).value
    0.0
    """


@define_metric
def bnsp_auc() -> None:
    """AUC(D-, Dg+), Background Negative Subgroup Positive: is toxicity with a mention missed?

    Low: toxic rows that mention the identity score like non-toxic rows that do not, so a
    threshold produces false negatives for the subgroup. The mirror image is `bpsn_auc`.

    Returns
    -------
    MetricValue
        In [0, 1], ideal 1; undefined without subgroup positives or background negatives.

    References
    ----------
    Borkan et al. (2019), equation 3.

    Examples
    --------
    >>> bnsp_auc([0, 1, 0, 1], [0.4, 0.6, 0.1, 0.3], [0, 0, 1, 1]).value
    0.0
    """


@define_metric
def positive_aeg() -> None:
    """AUC(D+, Dg+) - 1/2: do toxic rows of the subgroup score higher than toxic others?

    Positive: the subgroup's toxic rows score higher than the background's; negative: lower. The
    sign follows definitions 3 and 4 and Table 2; taken literally, the integral of definition 2 has
    the opposite sign. 0 means P = 1/2, not equal means or equal distributions: a subgroup with only
    a wider spread of scores has an AEG of 0.

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


@define_metric
def negative_aeg() -> None:
    """AUC(D-, Dg-) - 1/2: do non-toxic rows of the subgroup score higher than non-toxic others?

    Positive: harmless mentions of the identity score higher than other harmless rows, which is the
    usual direction of harm. Sign and 0 have the same meaning as in `positive_aeg`.

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


def check_power(power: float) -> float:
    """Return `power` as a float."""
    power = float(power)
    if power == 0 or not math.isfinite(power):
        msg = (
            f"`power` must be a finite number other than 0 (the Jigsaw score uses -5); got {power}."
        )
        raise ValueError(msg)
    return power


def power_mean(values: Iterable[float], power: float = -5.0) -> float:
    """Generalised mean of subgroup metrics: `(mean(m ** p)) ** (1 / p)`.

    A negative power pulls the mean towards the worst subgroup; Jigsaw uses -5. In the arithmetic
    mean (`power=1`), in contrast, a badly treated subgroup is averaged away.

    Parameters
    ----------
    values : iterable of float
        A metric's value per subgroup, each at least 0; must not be empty.
    power : float, default=-5.0
        Exponent, finite and not 0.

    Returns
    -------
    float
        Between the smallest and the largest value; ideal value 1 for AUCs. With a negative
        power, 0 if any value is 0.

    Raises
    ------
    ValueError
        If `values` is empty, a value is negative or not finite, or `power` is 0.

    References
    ----------
    Jigsaw Unintended Bias in Toxicity Classification (2019), evaluation page.

    Examples
    --------
    >>> round(power_mean([0.9, 0.5]), 4)
    0.5685
    >>> power_mean([0.9, 0.0])
    0.0
    """
    power = check_power(power)
    numbers = [float(value) for value in values]
    if not numbers:
        msg = "`values` must hold at least one number; got none."
        raise ValueError(msg)
    for position, number in enumerate(numbers):
        if not (math.isfinite(number) and number >= 0):
            msg = f"`values` must be finite and at least 0; got {number} (position {position})."
            raise ValueError(msg)
    smallest, largest = min(numbers), max(numbers)
    if smallest == 0 and power < 0:
        return 0.0
    if largest == 0:
        return 0.0
    # Scaling by the dominant value prevents overflow and underflow of powers.
    scale = smallest if power < 0 else largest
    mean = math.fsum((number / scale) ** power for number in numbers) / len(numbers)
    return min(max(scale * float(mean ** (1 / power)), smallest), largest)


def compute_power_mean(values: Mapping[str, MetricValue], power: float) -> MetricValue:
    """Return the power mean over named subgroups; undefined if any value is undefined."""
    if not values:
        return make_undefined("no subgroups")
    missing = [name for name, value in values.items() if value.value is None]
    if missing:
        return make_undefined(f"undefined for {', '.join(missing)}")
    return MetricValue(power_mean([v.value for v in values.values() if v.value is not None], power))


def final_score(overall_auc: MetricValue, power_means: Mapping[str, MetricValue]) -> MetricValue:
    """Jigsaw final score: a quarter each of overall AUC and the three power means.

    Parameters
    ----------
    overall_auc : MetricValue
        ROC AUC over all measured rows.
    power_means : mapping of str to MetricValue
        The power means of `subgroup_auc`, `bpsn_auc` and `bnsp_auc`.

    Returns
    -------
    MetricValue
        In [0, 1], ideal 1; undefined, with the reason, if any of the four parts is undefined.

    References
    ----------
    Jigsaw Unintended Bias in Toxicity Classification (2019), evaluation page.

    Examples
    --------
    >>> means = {name: MetricValue(0.5) for name in ("subgroup_auc", "bpsn_auc", "bnsp_auc")}
    >>> final_score(MetricValue(0.9), means).value
    0.6
    """
    parts = {"overall auc": overall_auc}
    parts |= {f"power mean of {name}": power_means[name] for name in FINAL_SCORE_PARTS}
    missing = [f"{name} ({part.reason})" for name, part in parts.items() if part.value is None]
    if missing:
        return make_undefined(f"undefined: {'; '.join(missing)}")
    return MetricValue(
        0.25 * math.fsum(part.value for part in parts.values() if part.value is not None)
    )
