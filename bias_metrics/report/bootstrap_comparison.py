"""Two models on the same resampled rows: every difference of `compare_bias`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import aligned
from bias_metrics._core.packed import Subgroups
from bias_metrics.report.bases import bases_of_differences
from bias_metrics.report.bootstrap import check_draws, report_of
from bias_metrics.report.comparison import checked_scores, models_of
from bias_metrics.report.pairing import Pairing
from bias_metrics.report.replicates import Key, Resampling, draw_rows
from bias_metrics.report.resampled import BootstrapReport
from bias_metrics.report.steps import Options
from bias_metrics.rows import Background, Rows


@aligned
def bootstrap_comparison(
    y_true: npt.ArrayLike,
    y_score_a: npt.ArrayLike,
    y_score_b: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    rng: np.random.Generator,
    n_replicates: int = 1000,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> BootstrapReport:
    """Resample rows to see how much every difference of `compare_bias` varies.

    The models are paired: in each replicate both are measured on the same rows, drawn as
    `bootstrap_bias` draws them. Every number is the first model's value minus the second's.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    y_score_a, y_score_b : float array of shape (n,)
        Scores of the first model (the candidate) and the second (the champion), of the same
        rows in the same order.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    rng : numpy.random.Generator
        Source of the draws; a generator in the same state gives the same report.
    n_replicates : int, default=1000
        Number of replicates, at least 2.
    power, power_mean_groups, clusters, background
        As in `compare_bias`.
    confidence : float, default=0.95
        Confidence of each interval. For a one-sided test at 5 %, use 0.90.

    Returns
    -------
    BootstrapReport
        Standard errors and BCa intervals of the differences, in [-1, 1]. Where `compare_bias` has
        no interval, there is none here, with the same reason; nor if a number is undefined in any
        replicate. For identical scores the interval has zero width.

    Raises
    ------
    ValueError, TypeError
        As `bootstrap_bias`.

    Notes
    -----
    See `bootstrap_bias`. If a number of either model rests on few errors, or rows are clustered,
    the interval reaches at least as far as that of `compare_bias`.

    References
    ----------
    Efron (1987), Journal of the American Statistical Association 82 (BCa).

    Examples
    --------
    >>> y_true, gay = [0, 1] * 6, [0, 0, 1, 1] * 3
    >>> first = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.6, 0.5, 0.2, 0.9, 0.4, 0.3]
    >>> rng = np.random.default_rng(0)
    >>> found = bootstrap_comparison(y_true, first, first, {"gay": gay}, rng=rng, n_replicates=50)
    >>> found.overall.auc.low, found.overall.auc.high
    (0.0, 0.0)
    """
    check_draws(rng, n_replicates)
    rows = Rows(y_true, subgroups, clusters=clusters, background=background)
    options = Options.of(
        rows, power=power, power_mean_groups=power_mean_groups, confidence=confidence
    )
    scores = checked_scores(rows, {"y_score_a": y_score_a, "y_score_b": y_score_b})
    models, codes, level = models_of(rows, list(scores), options)
    resamplings = [Resampling.of(model, codes) for model in models]

    def replicate() -> Iterator[tuple[Key, float]]:
        rows = draw_rows(rng, models[0].ranked.y_true, codes)
        first, second = (dict(one.of_rows(rows)) for one in resamplings)
        return ((key, value - second[key]) for key, value in first.items())

    replicates = (replicate() for _ in range(n_replicates))
    bases = bases_of_differences(Pairing(models, codes, level), codes)
    return report_of(replicates, bases, n_replicates, level)
