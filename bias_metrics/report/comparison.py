"""Two models on the same rows: the difference in every metric, and what it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.differences import Difference
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.packed import Subgroups, by_name
from bias_metrics._core.tables import Row, Tabular, labelled, rows_of
from bias_metrics.families import adjust_differences
from bias_metrics.report.measurement import Measurement, Pairing
from bias_metrics.report.steps import Options
from bias_metrics.rows import RowOptions, Rows
from bias_metrics.table import BiasTable
from bias_metrics.thresholds.rate_gaps import MeasuredRates


@aligned
def compare_bias(
    y_true: npt.ArrayLike | Rows,
    y_score_a: npt.ArrayLike,
    y_score_b: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    thresholds: tuple[float, float] | None = None,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> BiasTable:
    """Compare the bias of two models' scores on the same rows.

    Every metric of `evaluate_bias`, as the first model's value minus the second's. The models
    are paired: rows that are hard for both do not widen the interval.

    Parameters
    ----------
    y_true : bool array of shape (n,), or Rows
        True for the positive (toxic) class. `Rows` have the subgroups too.
    y_score_a, y_score_b : float array of shape (n,)
        Scores of the first model (the candidate) and the second (the champion), of the same
        rows in the same order.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Name and membership of each subgroup; not with `Rows`.
    thresholds : tuple of two floats, optional
        The score at or above which each model flags a row: for differences of `fpr_gap` and
        `fnr_gap`, and for changed decisions (see `compare_rate_gaps`).
    power : float, default=-5.0
        Exponent of the power means, not 0.
    power_mean_groups : sequence of str, optional
        The subgroups that the power means cover; default all.
    confidence : float, default=0.95
        Confidence of each interval. For a one-sided test at 5 %, use 0.90.
    **options
        `sample_weight`, `weight_kind`, `clusters`, `background` as in `evaluate_bias`, for both
        models; not with `Rows`.

    Returns
    -------
    BiasTable
        Differences with paired intervals and p-values. For identical scores the difference is 0
        and its interval has zero width.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`.

    Notes
    -----
    The variance of a difference is DeLong's, with the covariance of the two estimates. Near an
    AUC of 1 it depends on the few rows that are out of order, and tends to be too small when
    the difference is overestimated. With at least 20 errors in the smaller class, the interval
    therefore reaches farther on the side to which the difference is skewed, by Hall's
    transformation; with fewer errors, or with clusters or weights, it is computed from the two
    estimates' own intervals (see `auc_interval`).
    Intervals of aggregates use Student's quantile, with few degrees of freedom if a few rows
    dominate the variance.

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
    >>> round(compare_bias(y_true, first, second, {"gay": gay}).overall.auc.value, 4)
    0.2361
    """
    rows = Rows.of(y_true, subgroups, **options)
    asked = Options.of(
        rows, power=power, power_mean_groups=power_mean_groups, confidence=confidence
    )
    scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
    return compared(rows, list(checked_scores(rows, scores)), asked, thresholds)


def compared(
    rows: Rows,
    scores: Sequence[FloatArray],
    options: Options,
    thresholds: tuple[float, float] | None = None,
) -> BiasTable:
    """Compare two models' checked scores of the rows."""
    table = Pairing(*(Measurement(rows, of_model) for of_model in scores)).comparison(options)
    if thresholds is None:
        return table
    if np.ndim(thresholds) != 1 or len(thresholds) != 2:
        msg = f"`thresholds` must be two numbers, one of each model; got {thresholds!r}."
        raise ValueError(msg)
    named = dict(zip(("y_score_a", "y_score_b"), scores, strict=True))
    table = table.with_numbers(MeasuredRates(rows, named, thresholds).compare_gaps(options.level))
    numbers = {
        key: one
        for key, one in table.numbers.items()
        if key.group is not None and isinstance(one, Difference)
    }
    return table.with_numbers(adjust_differences(numbers))


def checked_scores(rows: Rows, given: Mapping[str, npt.ArrayLike]) -> Iterator[FloatArray]:
    """Yield checked scores, given by the name that errors give them."""
    for name, scores in given.items():
        yield rows.scores(name, scores)


# ---- Several candidates against one champion, with one family-wise error rate


class CandidateComparisons(dict[str, BiasTable], Tabular):
    """The comparison of each candidate with the champion, by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: report.to_dict() for name, report in self.items()}

    def rows(self) -> list[Row]:
        """Return the records of every comparison, each with its candidate."""
        return labelled("candidate", rows_of(self))


@aligned
def compare_candidates(
    y_true: npt.ArrayLike | Rows,
    candidates: Subgroups,
    y_score_champion: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> CandidateComparisons:
    """Compare the bias of several candidates with the champion's on the same rows.

    Of many candidates that are as good as the champion, one looks better by chance. Here the
    chance of any wrong finding is that of one comparison, however many candidates there are.

    Parameters
    ----------
    y_true : bool array of shape (n,), or Rows
        True for the positive (toxic) class. `Rows` have the subgroups too.
    candidates : mapping of str to float array of shape (n,), or data frame
        Name and scores of each candidate; at least one.
    y_score_champion : float array of shape (n,)
        Scores of the champion.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Name and membership of each subgroup; not with `Rows`.
    power, power_mean_groups
        As in `compare_bias`.
    confidence : float, default=0.95
        Confidence of the intervals of one number for all candidates together. For a one-sided
        test at 5 %, use 0.90.
    **options
        As in `compare_bias`.

    Returns
    -------
    CandidateComparisons
        A dict of str to BiasTable (candidate minus champion), in the order given. Each
        interval has the confidence `1 - (1 - confidence) / k` for k candidates (Bonferroni), as
        rules of the gate have with `correction: bonferroni`; `p_holm` and `p_bh` are adjusted for
        all cells of all candidates.

    Raises
    ------
    ValueError, TypeError
        As `compare_bias`; and if there is no candidate.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6. Dunnett (1955), Journal of the American
    Statistical Association 50, on several treatments and one control; his quantiles, which need
    normal data, are at most 3 % smaller than Bonferroni's for up to 5 candidates.

    Examples
    --------
    >>> y_true, gay = [0, 1] * 6, [0, 0, 1, 1] * 3
    >>> champion = [0.1, 0.9, 0.8, 0.8, 0.3, 0.7, 0.6, 0.5, 0.9, 0.9, 0.4, 0.3]
    >>> candidates = {"copy": champion, "new": [0.1, 0.9, 0.2, 0.8, *champion[4:]]}
    >>> found = compare_candidates(y_true, candidates, champion, {"gay": gay})
    >>> {name: round(one.overall.auc.value, 3) for name, one in found.items()}
    {'copy': 0.0, 'new': 0.097}
    """
    given = {str(name): scores for name, scores in by_name(candidates, "candidates").items()}
    if not given:
        msg = "`candidates` must hold at least one candidate; got none."
        raise ValueError(msg)
    rows = Rows.of(y_true, subgroups, **options)
    level = check_confidence(confidence)
    asked = Options.of(
        rows,
        power=power,
        power_mean_groups=power_mean_groups,
        confidence=1 - (1 - level) / len(given),
    )
    y_scores = {f"candidates[{name!r}]": scores for name, scores in given.items()}
    scores = checked_scores(rows, y_scores | {"y_score_champion": y_score_champion})
    *firsts, second = (Measurement(rows, of_model) for of_model in scores)
    pairings = {name: Pairing(first, second) for name, first in zip(given, firsts, strict=True)}
    adjusted = adjust_differences(
        {
            (name, key): difference
            for name, pairing in pairings.items()
            for key, difference in pairing.differences(asked).items()
        }
    )
    names = list(second.members)
    return CandidateComparisons(
        {
            name: pairing.comparison_of(
                asked,
                {key: difference for (of, key), difference in adjusted.items() if of == name},
                names,
                level,
            )
            for name, pairing in pairings.items()
        }
    )
