"""Two models on the same rows: differences of every metric, and what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from bias_metrics._checks import (
    aligned,
    check_clusters,
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_subgroups,
)
from bias_metrics._options import check_choice
from bias_metrics._pairing import Model, Pairing
from bias_metrics._request import Background
from bias_metrics.adjustment import adjust_differences
from bias_metrics.aggregates import check_power
from bias_metrics.differences import Difference
from bias_metrics.intervals import check_confidence
from bias_metrics.report import BACKGROUNDS, BiasReport


@dataclass(frozen=True)
class BiasComparison:
    """Every difference of one comparison.

    Attributes
    ----------
    first, second : BiasReport
        The two models' reports on the same rows.
    overall_auc, final_score : Difference
        Over all rows.
    subgroups : dict of str to dict of str to Difference
        By subgroup and metric.
    power_means : dict of str to Difference
        By metric.
    confidence : float
        Of each interval.
    """

    first: BiasReport
    second: BiasReport
    overall_auc: Difference
    subgroups: dict[str, dict[str, Difference]]
    power_means: dict[str, Difference]
    final_score: Difference
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values in the shape of `BiasReport.to_dict()`."""
        return {
            "confidence": self.confidence,
            "overall": {
                "n": self.first.n,
                "n_positive": self.first.n_positive,
                "auc": self.overall_auc.to_dict(),
            },
            "subgroups": {
                name: {metric: one.to_dict() for metric, one in cells.items()}
                for name, cells in self.subgroups.items()
            },
            "power_mean": {name: one.to_dict() for name, one in self.power_means.items()},
            "final_score": self.final_score.to_dict(),
        }


@aligned
def compare_bias(
    y_true: npt.ArrayLike,
    score_a: npt.ArrayLike,
    score_b: npt.ArrayLike,
    subgroups: Mapping[str, npt.ArrayLike],
    *,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> BiasComparison:
    """Compare the bias of two models' scores on the same rows.

    Every metric of `evaluate_bias` as the first model's less the second's. The models are
    paired: what makes a row hard for both does not widen the interval.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    score_a, score_b : float array of shape (n,)
        Scores of the first model (the candidate) and the second (the champion), of the same
        rows in the same order.
    subgroups : mapping of str to bool array of shape (n,)
        Name and membership of each subgroup.
    power : float, default=-5.0
        Exponent of the power means, not 0.
    power_mean_groups : sequence of str, optional
        The subgroups that the power means cover; default all.
    confidence : float, default=0.95
        Of each interval. For a one-sided statement at 5 % take 0.90.
    clusters : array of shape (n,), optional
        As in `evaluate_bias`.
    background : {"outside_subgroup", "no_identity"}, default="outside_subgroup"
        As in `evaluate_bias`, for both models.

    Returns
    -------
    BiasComparison
        Differences with paired intervals and p-values. Identical scores differ by 0 with
        zero width.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`.

    Notes
    -----
    The variance of a difference is DeLong's, with the covariance of the two estimates. Near an
    AUC of 1 it rests on the few rows that are out of order, and is too small most often when
    the difference is overestimated. So in classes of at least 200 rows the interval reaches
    farther on the side to which the difference is skewed, as far as Hall's transformation
    says; in smaller ones it is made of the two estimates' own intervals (see
    `auc_interval`). Intervals of aggregates use Student's quantile; the degrees of freedom are
    few where few rows make up the variance.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44. Hall (1992), Journal of the Royal
    Statistical Society B 54 (skewness). Zou (2007), Psychological Methods 12 (intervals of
    differences from the limits of each).

    Examples
    --------
    >>> y_true, gay = [0, 1] * 6, [0, 0, 1, 1] * 3
    >>> first = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.6, 0.5, 0.2, 0.9, 0.4, 0.3]
    >>> second = [0.1, 0.9, 0.8, 0.8, 0.3, 0.7, 0.6, 0.5, 0.9, 0.9, 0.4, 0.3]
    >>> round(compare_bias(y_true, first, second, {"gay": gay}).overall_auc.value, 4)
    0.2361
    """
    labels = check_mask("y_true", y_true)
    scores = [
        check_scores(name, given, labels.size)
        for name, given in (("score_a", score_a), ("score_b", score_b))
    ]
    masks = check_subgroups(subgroups, labels.size)
    check_power(power)
    groups = check_power_mean_groups(power_mean_groups, masks)
    level = check_confidence(confidence)
    codes = check_clusters(clusters, labels.size)
    check_choice("background", background, BACKGROUNDS)
    options: dict[str, Any] = {"power": power, "groups": groups, "confidence": level}
    models = [Model.of(labels, given, masks, background=background, **options) for given in scores]
    pairing = Pairing(models, codes, level)
    first, second, aggregates = pairing.aggregates()
    return BiasComparison(
        first=first,
        second=second,
        overall_auc=aggregates.pop("overall"),
        final_score=aggregates.pop("final_score"),
        power_means=aggregates,
        subgroups=adjust_differences(pairing.cells()),
        confidence=level,
    )
