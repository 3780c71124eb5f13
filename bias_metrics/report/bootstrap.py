"""The joint bootstrap: every number of `evaluate_bias` from resampled rows or clusters.

An alternative to the intervals of `evaluate_bias` that needs no asymptotic argument. The scores
are ranked once; a replicate only counts how often each row was drawn, so that no replicate sorts
or searches anything. For Python users: no command calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import aligned
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.values import Named
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report.bases import bases_of
from bias_metrics.report.bca import Basis, summary_of
from bias_metrics.report.comparison import models_of
from bias_metrics.report.replicates import FINAL, OVERALL, RESAMPLED, Key, Resampling
from bias_metrics.report.resampled import BootstrapReport
from bias_metrics.report.steps import Options
from bias_metrics.rows import Background, Rows


@aligned
def bootstrap_bias(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
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
    """Resample rows to see how much every number of `evaluate_bias` varies.

    Rows are drawn with replacement within each label, for all subgroups together, so that a row
    counts equally often in each number of a replicate. With `clusters`, whole clusters are
    drawn instead, whatever their labels.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class.
    y_score : float array of shape (n,)
        Finite scores.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    rng : numpy.random.Generator
        Source of the draws; a generator in the same state gives the same report.
    n_replicates : int, default=1000
        Number of replicates, at least 2.
    power, power_mean_groups
        As in `evaluate_bias`.
    confidence : float, default=0.95
        Confidence of each interval.
    clusters : array of shape (n,), optional
        Article, thread or template of each row.
    background : {"outside_subgroup", "no_identity"}, default="outside_subgroup"
        As in `evaluate_bias`.

    Returns
    -------
    BootstrapReport
        Standard errors and BCa intervals. Where `evaluate_bias` has no interval, as with fewer
        than 20 clusters with rows of a compared class, there is none here, with the same reason;
        nor if the number is undefined in any replicate.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `n_replicates` is below 2 or `rng` is not a Generator.

    Notes
    -----
    BCa intervals take other percentiles of the replicates than 2.5 and 97.5, for bias and
    skewness; these are farther out by the quantile of Student's distribution for few rows or
    clusters. Replicates cannot show errors of a kind that the sample has none of. So an interval
    reaches at least as far as Newcombe's does wherever that is part of the interval of
    `evaluate_bias` (see `auc_interval`), and one of an aggregate as far as its cells' do.

    References
    ----------
    Efron (1987), Journal of the American Statistical Association 82 (BCa). Hesterberg (2015),
    The American Statistician 69 (expanded percentiles).

    Examples
    --------
    >>> y_true, gay = [0, 1] * 20, [0, 0, 1, 1] * 10
    >>> y_score = [0.1, 0.6, 0.3, 0.7, 0.5, 0.4, 0.2, 0.9] * 5
    >>> rng = np.random.default_rng(0)
    >>> spread = bootstrap_bias(y_true, y_score, {"gay": gay}, rng=rng, n_replicates=200)
    >>> spread.overall.auc.low < 0.9375 < spread.overall.auc.high
    True
    """
    check_draws(rng, n_replicates)
    rows = Rows(y_true, subgroups, clusters=clusters, background=background)
    options = Options.of(
        rows, power=power, power_mean_groups=power_mean_groups, confidence=confidence
    )
    [model], codes, level = models_of(rows, [rows.scores("y_score", y_score)], options)
    resampling = Resampling.of(model, codes)
    replicates = (resampling.draw(rng) for _ in range(n_replicates))
    return report_of(replicates, bases_of(model, codes, level), n_replicates, level)


def check_draws(rng: object, n_replicates: int) -> None:
    """Refuse another source of draws than a Generator, and fewer than two replicates."""
    if not isinstance(rng, np.random.Generator):
        msg = f"`rng` must be a numpy Generator, as in default_rng(0); got {type(rng).__name__}."
        raise TypeError(msg)
    if n_replicates < 2:
        msg = f"`n_replicates` must be at least 2; got {n_replicates}."
        raise ValueError(msg)


def report_of(
    replicates: Iterable[Iterable[tuple[Key, float]]],
    bases: Mapping[Key, Basis],
    n_replicates: int,
    confidence: float,
) -> BootstrapReport:
    """Summarise the replicates of every number."""
    drawn: dict[Key, list[float]] = {key: [] for key in bases}
    for one in replicates:
        for key, value in one:
            drawn[key].append(value)
    found = {key: summary_of(drawn[key], n_replicates, basis) for key, basis in bases.items()}
    groups = dict.fromkeys(name for name, _ in bases if name is not None)
    return BootstrapReport(
        overall=Named(auc=found[OVERALL]),
        subgroups={
            name: Named({metric: found[name, metric] for metric in RESAMPLED}) for name in groups
        },
        power_mean=Named({metric: found[None, metric] for metric in FINAL_SCORE_PARTS}),
        final_score=found[FINAL],
        n_replicates=n_replicates,
        confidence=confidence,
    )
