"""Comments without a score, by subgroup: refusals and failures that no AUC can see."""

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
class MissingShare(Tabular):
    """How many rows of a subgroup, or of all, have no score."""

    n: int
    n_missing: int
    """n, n_missing: rows, and those without a score."""
    missing_rate: MetricValue
    """The share of rows without a score."""
    missing_gap: MetricValue | None = None
    """For a subgroup: its share minus that of its background; above 0, its rows are left out more
    often."""


@dataclass(frozen=True)
class MissingScores(Tabular):
    """Rows without a score."""

    overall: MissingShare
    """Of all rows."""
    subgroups: dict[str, MissingShare]
    """Of each subgroup."""

    def rows(self) -> list[Row]:
        """Return one record per subgroup."""
        return [
            {
                "subgroup": name,
                "n": one.n,
                "n_missing": one.n_missing,
                "missing_rate": one.missing_rate.value,
                "low": one.missing_rate.low,
                "high": one.missing_rate.high,
                "missing_gap": None if one.missing_gap is None else one.missing_gap.value,
            }
            for name, one in self.subgroups.items()
        ]


@aligned
def missing_scores(
    missing: npt.ArrayLike,
    subgroups: Mapping[str, npt.ArrayLike],
    *,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> MissingScores:
    """Count the rows without a score, in all and in each subgroup.

    A model that refuses to score some comments is measured on the others alone. If it refuses
    more of those that mention a subgroup, it treats them differently, and neither AUCs nor error
    rates can show it. Each row counts once, whatever its weight.

    Parameters
    ----------
    missing : bool array of shape (n,)
        True for a row without a score.
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
    MissingScores
        `missing_rate` in [0, 1], ideal 0, and `missing_gap` in [-1, 1], ideal 0: above 0, rows of
        the subgroup are left out more often than others.

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
    >>> found = missing_scores([1, 1, 0, 0, 0, 0, 0, 0], {"gay": [1, 1, 1, 1, 0, 0, 0, 0]})
    >>> found.overall.n_missing, found.subgroups["gay"].missing_rate.value
    (2, 0.5)
    >>> print(found.subgroups["gay"].missing_gap)
    0.500 [-0.166, 0.850]
    """
    absent = check_mask("missing", missing)
    # Whatever the labels: neither shares nor gaps of missing scores look at them.
    rows = Rows(absent, subgroups, clusters=clusters, background=background)
    level = check_confidence(confidence)
    events = Events(rows, np.ones_like(absent), [absent])
    found = {
        name: replace(_share(gap.own, level), missing_gap=gap.measure(level))
        for name, gap in events.gaps()
    }
    return MissingScores(_share(Share.of(events.everywhere()), level), found)


def _share(share: Share, confidence: float) -> MissingShare:
    return MissingShare(share.n, share.events[0], share.measure(confidence))
