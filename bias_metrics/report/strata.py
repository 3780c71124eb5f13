"""Metrics from pairs of rows within a stratum, such as an article or texts of similar length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import (
    auc_interval,
    check_confidence,
    count_independent_rows,
    explain_few_clusters,
    student_quantile,
)
from bias_metrics._core.ranks import Floats, sum_squares
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.metrics import METRICS, PAIRS
from bias_metrics.rows import Rows

Codes = npt.NDArray[np.integer]


@require_aligned
def measure_within_strata(
    rows: Rows, y_score: npt.ArrayLike, strata: npt.ArrayLike, *, confidence: float = 0.95
) -> dict[str, dict[str, MetricValue]]:
    """Measure the five metrics of Borkan et al. from pairs of rows in the same stratum.

    If comments that mention an identity are on other articles than the rest, a metric also compares
    articles. These numbers only compare comments on the same article, or of similar length.

    The rows have no weights. If strata are parts of clusters, give the clusters: otherwise pairs in
    the same stratum count as independent. Each number is the share of pairs in the right order. All
    pairs have equal weight, so a stratum with many rows of both classes counts most. A number is
    undefined if no stratum has a pair.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; or if rows are weighted, or the length of `strata` differs.

    Notes
    -----
    The influence of a row, or cluster, is the sum over its pairs of the outcome minus the share.
    Rows of both classes contribute to the variance. If each stratum is in a single cluster, only
    the rows x contribute, so that each pair counts once. Intervals are those of other AUCs.

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> y_score = [0.1, 0.2, 0.4, 0.5] * 10 + [0.6, 0.7, 0.8, 0.9] * 10
    >>> rows = Rows(y_true, {"gay": gay})
    >>> print(measure_within_strata(rows, y_score, [0] * 80)["gay"]["bpsn_auc"])
    0.000 [0.000, 0.101]
    >>> articles = [0] * 40 + [1] * 40
    >>> print(measure_within_strata(rows, y_score, articles)["gay"]["bpsn_auc"])
    undefined (no stratum has rows of both sides)
    """
    level = check_confidence(confidence)
    rows.refuse_ignored("measure_within_strata", "sample_weight")
    scores, codes = rows.check_scores("y_score", y_score), np.unique(strata, return_inverse=True)[1]
    if codes.shape != (rows.n,):
        msg = f"`strata` must have one value for each of the {rows.n} rows; got {codes.shape}."
        raise ValueError(msg)
    # Ranks in a later stratum are higher than in all earlier strata.
    ranks = np.unique(scores, return_inverse=True)[1]
    stratified = _StratifiedRows(
        rows, codes, codes * (int(ranks.max(initial=0)) + 1) + ranks, level
    )
    excluded = rows.excluded
    shared: BoolArray | None = None
    if excluded is not None:
        shared = np.ones(rows.n, np.bool_)
        shared[excluded] = False
    values: dict[str, dict[str, MetricValue]] = {name: {} for name in rows.subgroups}
    in_class = {"positive": rows.y_true, "negative": ~rows.y_true}
    for name, cells in values.items():
        own = np.asarray(rows.subgroups[name])
        others = ~own if shared is None else shared
        for metric, pair in PAIRS.items():
            x = own & in_class[pair.x]
            y = (own if pair.inside else others) & in_class[pair.y]
            higher, lower = (y, x) if pair.flip else (x, y)
            cells[metric] = stratified.measure_metric(metric, higher, lower)
    return values


class _StratifiedRows:
    """Rows whose pairs within a stratum are compared."""

    def __init__(self, rows: Rows, strata: Codes, keys: Codes, confidence: float) -> None:
        self._keys, self._strata, self._confidence = keys, strata, confidence
        self._clusters: Codes | None = None
        self._nested = False
        if rows.clusters is not None:
            self._clusters = np.unique(rows.clusters, return_inverse=True)[1]
            n_strata = int(strata.max(initial=-1)) + 1
            pairs = self._clusters.astype(np.int64) * n_strata + strata
            self._nested = np.unique(pairs).size == n_strata

    def measure_metric(self, metric: str, higher: BoolArray, lower: BoolArray) -> MetricValue:
        """Return the share of pairs in which the row of `higher` scores above that of `lower`."""
        above, below = np.flatnonzero(higher), np.flatnonzero(lower)
        wins, n = self._count_below(above, below)
        losses, m = self._count_below(below, above)
        n_pairs = float(n.sum())
        if not n_pairs:
            return make_undefined("no stratum has rows of both sides")
        value = float(wins.sum()) / n_pairs
        own = (wins - value * n) / n_pairs
        other = (m - losses - value * m) / n_pairs
        sizes = int(np.count_nonzero(m)), int(np.count_nonzero(n))
        if min(sizes) < 2:
            return MetricValue(
                value - METRICS[metric].centre, "fewer than 2 rows of a side in the strata"
            )
        by_row, freedom = sum_squares([own, other])
        if self._clusters is None:
            return self._make_value(metric, value, by_row, sizes, freedom)
        places, moves = (above, own)
        if not self._nested:
            places, moves = np.concatenate([above, below]), np.concatenate([own, other])
        sums = np.bincount(self._clusters[places], moves)
        n_clusters = min(
            np.unique(self._clusters[rows[counts > 0]]).size
            for rows, counts in ((above, n), (below, m))
        )
        sums = sums[np.unique(self._clusters[places])]
        variance, freedom = sum_squares([sums * (sums.size / max(sums.size - 1, 1)) ** 0.5])
        effect = variance / by_row if by_row else np.inf  # undefined without variance
        negative, positive = (count_independent_rows(size, effect, n_clusters) for size in sizes)
        n_effective = negative, positive
        return self._make_value(metric, value, variance, n_effective, freedom, n_clusters)

    def _make_value(
        self,
        metric: str,
        value: float,
        variance: float,
        sizes: tuple[float, float],
        freedom: float,
        n_clusters: int | None = None,
    ) -> MetricValue:
        """Return the number with its interval."""
        centre, error = METRICS[metric].centre, float(variance**0.5)
        lack = None if n_clusters is None else explain_few_clusters(n_clusters)
        if lack is not None:
            return MetricValue(value - centre, lack, std_error=error, n_clusters=n_clusters)
        z = student_quantile(self._confidence, np.inf if n_clusters is None else freedom)
        low, high = auc_interval(value, error, *sizes, z, freedom=freedom, n_clusters=n_clusters)
        return MetricValue(
            value - centre,
            std_error=error,
            low=low - centre,
            high=high - centre,
            n_clusters=n_clusters,
        )

    def _count_below(self, rows: Codes, others: Codes) -> tuple[Floats, Floats]:
        """Return the number of lower others in a row's stratum (ties half), and of all others."""
        order = others[np.argsort(self._keys[others])]
        keys, strata = self._keys[order], self._strata[order]
        start, end = (
            np.searchsorted(strata, self._strata[rows], side) for side in ("left", "right")
        )
        low, high = (np.searchsorted(keys, self._keys[rows], side) for side in ("left", "right"))
        return (low + high) / 2 - start, (end - start).astype(np.float64)
