"""Differences of all metrics between two models, or several candidates and a champion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.differences import Difference
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.masks import Subgroups, get_columns
from bias_metrics._core.tables import Row, Tabular, collect_rows, label_rows
from bias_metrics.families import adjust_differences
from bias_metrics.report.measurement import Measurement, Pairing
from bias_metrics.report.steps import ReportOptions
from bias_metrics.rows import RowOptions, Rows
from bias_metrics.table import BiasTable
from bias_metrics.thresholds.rate_gaps import MeasuredRates


@require_aligned
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
    y_true, subgroups
        As in `evaluate_bias`.
    y_score_a, y_score_b : float array of shape (n,)
        Scores of the first model (the candidate) and the second (the champion), of the same
        rows in the same order.
    thresholds : tuple of two floats, optional
        The score at or above which each model flags a row: for differences of `fpr_gap` and
        `fnr_gap`, and for changed decisions (see `compare_rate_gaps`).
    power : float, default=-5.0
        Exponent of the power means, not 0.
    power_mean_groups : sequence of str, optional
        The subgroups that the power means cover; default all.
    confidence : float, default=0.95
        Confidence of the intervals. For a one-sided test at 5 %, use 0.90.
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
    The variance of a difference is DeLong's, with the covariance of the two estimates. Near an AUC
    of 1 it depends on the few rows that are out of order, and tends to be too small if the
    difference is overestimated. With at least 20 errors in the smaller class, Hall's transformation
    extends the interval on the side of the skew. With fewer errors, or with clusters or weights,
    the interval is computed from the two estimates' own intervals (see `auc_interval`). Intervals
    of aggregates use Student's quantile, with few degrees of freedom if a few rows dominate the
    variance.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44. Hall (1992), Journal of the Royal
    Statistical Society B 54 (skewness). Zou (2007), Psychological Methods 12 (intervals of
    differences from separate limits).

    Examples
    --------
    >>> y_true, gay = [0, 1] * 6, [0, 0, 1, 1] * 3
    >>> first = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.6, 0.5, 0.2, 0.9, 0.4, 0.3]
    >>> second = [0.1, 0.9, 0.8, 0.8, 0.3, 0.7, 0.6, 0.5, 0.9, 0.9, 0.4, 0.3]
    >>> round(compare_bias(y_true, first, second, {"gay": gay}).overall.auc.value, 4)
    0.2361
    """
    rows = Rows.from_arguments(y_true, subgroups, **options)
    report_options = ReportOptions.from_arguments(
        rows, power=power, power_mean_groups=power_mean_groups, confidence=confidence
    )
    scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
    checked = [rows.check_scores(*named) for named in scores.items()]
    return compare_scores(rows, checked, report_options, thresholds)


def compare_scores(
    rows: Rows,
    scores: Sequence[FloatArray],
    options: ReportOptions,
    thresholds: tuple[float, float] | None = None,
) -> BiasTable:
    """Compare two models by their checked scores of the rows."""
    table = Pairing(*(Measurement(rows, model_scores) for model_scores in scores)).compare_models(
        options
    )
    if thresholds is None:
        return table
    if np.ndim(thresholds) != 1 or len(thresholds) != 2:
        msg = f"`thresholds` must be two numbers, one of each model; got {thresholds!r}."
        raise ValueError(msg)
    named = dict(zip(("y_score_a", "y_score_b"), scores, strict=True))
    table = table.add_numbers(MeasuredRates(rows, named, thresholds).compare_gaps(options.level))
    numbers = {
        key: number
        for key, number in table.numbers.items()
        if key.group is not None and isinstance(number, Difference)
    }
    return table.add_numbers(adjust_differences(numbers))


# ---- Several candidates and a champion, with a joint family-wise error rate


class CandidateComparisons(dict[str, BiasTable], Tabular):
    """Comparisons of candidates with the champion, by candidate."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: report.to_dict() for name, report in self.items()}

    def rows(self) -> list[Row]:
        """Return the records of all comparisons, with a `candidate` column."""
        return label_rows("candidate", collect_rows(self))


@require_aligned
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

    Among many candidates that are as good as the champion, some look better by chance. Here the
    probability of any false finding is that of a single comparison, for any number of candidates.

    Parameters
    ----------
    y_true, subgroups
        As in `evaluate_bias`.
    candidates : mapping of str to float array of shape (n,), or data frame
        Names and scores of the candidates, which must not be empty.
    y_score_champion : float array of shape (n,)
        Scores of the champion.
    power, power_mean_groups
        As in `compare_bias`.
    confidence : float, default=0.95
        Joint confidence of the intervals of a number for all candidates. For a one-sided test at
        5 %, use 0.90.
    **options
        As in `compare_bias`.

    Returns
    -------
    CandidateComparisons
        A dict of str to BiasTable (candidate minus champion), in the order given. Each
        interval has the confidence `1 - (1 - confidence) / k` for k candidates (Bonferroni), like
        rules of the gate with `correction: bonferroni`. `p_holm` and `p_bh` are adjusted for all
        cells of all candidates.

    Raises
    ------
    ValueError, TypeError
        As `compare_bias`; or if `candidates` is empty.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6. Dunnett (1955), Journal of the American
    Statistical Association 50 (several treatments and a control; his quantiles, which assume
    normal data, are at most 3 % smaller than Bonferroni's for up to 5 candidates).

    Examples
    --------
    >>> y_true, gay = [0, 1] * 6, [0, 0, 1, 1] * 3
    >>> champion = [0.1, 0.9, 0.8, 0.8, 0.3, 0.7, 0.6, 0.5, 0.9, 0.9, 0.4, 0.3]
    >>> candidates = {"copy": champion, "new": [0.1, 0.9, 0.2, 0.8, *champion[4:]]}
    >>> tables = compare_candidates(y_true, candidates, champion, {"gay": gay})
    >>> {name: round(table.overall.auc.value, 3) for name, table in tables.items()}
    {'copy': 0.0, 'new': 0.097}
    """
    named = {str(name): scores for name, scores in get_columns(candidates, "candidates").items()}
    if not named:
        msg = "`candidates` must hold at least one candidate; got none."
        raise ValueError(msg)
    rows = Rows.from_arguments(y_true, subgroups, **options)
    level = check_confidence(confidence)
    report_options = ReportOptions.from_arguments(
        rows,
        power=power,
        power_mean_groups=power_mean_groups,
        confidence=1 - (1 - level) / len(named),
    )
    y_scores = {f"candidates[{name!r}]": scores for name, scores in named.items()}
    y_scores["y_score_champion"] = y_score_champion
    *firsts, second = (Measurement(rows, rows.check_scores(*item)) for item in y_scores.items())
    pairings = {name: Pairing(first, second) for name, first in zip(named, firsts, strict=True)}
    adjusted = adjust_differences(
        {
            (name, key): difference
            for name, pairing in pairings.items()
            for key, difference in pairing.measure_differences(report_options).items()
        }
    )
    names = list(second.members)
    return CandidateComparisons(
        {
            name: pairing.make_comparison(
                report_options,
                {
                    key: difference
                    for (candidate, key), difference in adjusted.items()
                    if candidate == name
                },
                names,
                level,
            )
            for name, pairing in pairings.items()
        }
    )
