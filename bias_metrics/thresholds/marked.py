"""Rows with a mark, by subgroup: no score, or a truncated text, which no AUC can see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_mask
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.values import MetricValue
from bias_metrics.rows import Background, Rows
from bias_metrics.thresholds.shares import Events, Share


@dataclass(frozen=True)
class MarkedShare(Tabular):
    """How many rows of a subgroup, or of all, are marked."""

    n: int
    n_marked: int
    """n, n_marked: rows, and those that are marked."""
    rate: MetricValue
    """The share of marked rows."""
    gap: MetricValue | None = None
    """For a subgroup: its share minus that of its background; above 0, its rows are marked more
    often."""


@dataclass(frozen=True)
class MarkedRows(Tabular):
    """Marked rows."""

    overall: MarkedShare
    """Of all rows."""
    subgroups: dict[str, MarkedShare]
    """Of each subgroup."""

    def rows(self) -> list[Row]:
        """Return one record per subgroup."""
        return [
            {
                "subgroup": name,
                "n": one.n,
                "n_marked": one.n_marked,
                "rate": one.rate.value,
                "low": one.rate.low,
                "high": one.rate.high,
                "gap": None if one.gap is None else one.gap.value,
            }
            for name, one in self.subgroups.items()
        ]


@aligned
def marked_rows(
    marked: npt.ArrayLike,
    subgroups: Mapping[str, npt.ArrayLike],
    *,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> MarkedRows:
    """Count the marked rows, such as those without a score, in all and in each subgroup.

    A model that refuses to score some comments is measured on the others alone, and a model that
    truncates long comments on their beginnings. If this happens more often to comments that
    mention a subgroup, the model treats them differently, and neither AUCs nor error rates can
    show it. Each row counts once, whatever its weight.

    Parameters
    ----------
    marked : bool array of shape (n,)
        True for a marked row: without a score, or with a truncated text.
    subgroups : mapping of str to bool array of shape (n,)
        Name and membership of each subgroup; they may overlap.
    confidence : float, default=0.95
        Confidence of each interval.
    clusters : array of shape (n,), optional
        Article, thread or template of each row. There is no interval with fewer than 20 clusters.
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
    Intervals of shares are Wilson's, those of gaps as in `rate_gaps`; with clusters they reach at
    least as far as the linearised variance requires, with Student's quantile.

    References
    ----------
    Wilson (1927), Journal of the American Statistical Association 22. Newcombe (1998), Statistics
    in Medicine 17, 873-890.

    Examples
    --------
    >>> found = marked_rows([1, 1, 0, 0, 0, 0, 0, 0], {"gay": [1, 1, 1, 1, 0, 0, 0, 0]})
    >>> found.overall.n_marked, found.subgroups["gay"].rate.value
    (2, 0.5)
    >>> print(found.subgroups["gay"].gap)
    0.500 [-0.166, 0.850]
    """
    chosen = check_mask("marked", marked)
    # Whatever the labels: neither shares nor gaps of marked rows look at them.
    rows = Rows(chosen, subgroups, clusters=clusters, background=background)
    level = check_confidence(confidence)
    events = Events(rows, np.ones_like(chosen), [chosen])
    found = {
        name: replace(_share(gap.own, level), gap=gap.measure(level)) for name, gap in events.gaps()
    }
    return MarkedRows(_share(Share.of(events.everywhere()), level), found)


def _share(share: Share, confidence: float) -> MarkedShare:
    return MarkedShare(share.n, share.events[0], share.measure(confidence))
