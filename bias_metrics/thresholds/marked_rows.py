"""Marked rows by subgroup: missing scores or truncated texts, which AUCs do not show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_mask
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue
from bias_metrics.rows import Background, Rows
from bias_metrics.thresholds.shares import Events, Share


@dataclass(frozen=True)
class MarkedShare(Tabular):
    """The share of marked rows, in a subgroup or in all rows."""

    n: int
    n_marked: int
    """n, n_marked: all rows, and marked rows."""
    rate: MetricValue
    """The share of marked rows."""
    gap: MetricValue | None = None
    """For a subgroup: its share minus that of its background; above 0, its rows are marked more
    often."""


@dataclass(frozen=True)
class MarkedRows(Tabular):
    """Marked rows, overall and by subgroup."""

    overall: MarkedShare
    subgroups: dict[str, MarkedShare]

    def rows(self) -> list[Row]:
        """Return a record per subgroup."""
        return [
            {
                "subgroup": name,
                "n": share.n,
                "n_marked": share.n_marked,
                "rate": share.rate.value,
                "low": share.rate.low,
                "high": share.rate.high,
                "gap": None if share.gap is None else share.gap.value,
            }
            for name, share in self.subgroups.items()
        ]


@require_aligned
def marked_rows(
    marked: npt.ArrayLike,
    subgroups: Mapping[str, npt.ArrayLike],
    *,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> MarkedRows:
    """Count the marked rows, such as rows without a score, overall and by subgroup.

    A model that refuses to score some comments is measured only on the others; a model that
    truncates long comments is measured on their beginnings. If this happens more often to comments
    that mention a subgroup, the treatment is unequal, but neither AUCs nor error rates show it.
    Each row counts once, whatever its weight.

    Parameters
    ----------
    marked : bool array of shape (n,)
        True for a marked row: without a score, or with a truncated text.
    subgroups : mapping of str to bool array of shape (n,)
        Names and memberships of the subgroups; they may overlap.
    confidence : float, default=0.95
        Confidence of the intervals.
    clusters : array of shape (n,), optional
        The rows' articles, threads or templates. Fewer than 20 clusters give no interval.
    background : {"outside_subgroup", "no_identity"}, default="outside_subgroup"
        As in `evaluate_bias`.

    Returns
    -------
    MarkedRows
        `rate` in [0, 1], ideal 0, and `gap` in [-1, 1], ideal 0: above 0, rows of the subgroup
        are marked more often than others.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`.

    Notes
    -----
    Shares have Wilson's interval, gaps that of `rate_gaps`. With clusters, an interval is at least
    as wide as that of the linearised variance with Student's quantile.

    References
    ----------
    Wilson (1927), Journal of the American Statistical Association 22. Newcombe (1998), Statistics
    in Medicine 17, 873-890.

    Examples
    --------
    >>> marked = marked_rows([1, 1, 0, 0, 0, 0, 0, 0], {"gay": [1, 1, 1, 1, 0, 0, 0, 0]})
    >>> marked.overall.n_marked, marked.subgroups["gay"].rate.value
    (2, 0.5)
    >>> print(marked.subgroups["gay"].gap)
    0.500 [-0.166, 0.850]
    """
    is_marked = check_mask("marked", marked)
    # Shares and gaps of marked rows do not depend on labels, so any labels will do.
    rows = Rows(is_marked, subgroups, clusters=clusters, background=background)
    level = check_confidence(confidence)
    events = Events(rows, np.ones_like(is_marked), [is_marked])
    shares = {
        name: replace(_measure_share(gap.own, level), gap=gap.measure(level))
        for name, gap in events.list_gaps()
    }
    return MarkedRows(_measure_share(Share.from_counts(events.count_all()), level), shares)


def _measure_share(share: Share, confidence: float) -> MarkedShare:
    return MarkedShare(share.n, share.events[0], share.measure(confidence))
