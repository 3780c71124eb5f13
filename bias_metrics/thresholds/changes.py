"""Decisions changed by a successor: comments newly flagged or missed, by subgroup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, check_threshold
from bias_metrics._core.cuts import reaches_cut
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.tables import Row, Tabular, get_known_value, label_rows
from bias_metrics.metrics import list_changed_metrics
from bias_metrics.rows import RowOptions, Rows
from bias_metrics.thresholds.shares import CountedShare, Events, Share


@dataclass(frozen=True)
class ChangedDecisions(Tabular):
    """The changed decisions by subgroup."""

    thresholds: tuple[float, float]
    """Thresholds of the first and the second model."""
    subgroups: dict[str, dict[str, CountedShare]]
    """Shares by subgroup and direction (`newly_flagged`, `newly_missed`)."""
    confidence: float
    """Joint confidence of all intervals."""

    def __getitem__(self, key: str | tuple[str, str]) -> Any:
        """Return the changes of a subgroup, also in a single direction: `["newly_flagged", "gay"]`.

        Raises
        ------
        KeyError
            If the subgroup or the direction is unknown; the message lists the known names.
        """
        metric, name = (None, key) if isinstance(key, str) else key
        shares = get_known_value(self.subgroups, name)
        return shares if metric is None else get_known_value(shares, metric)

    def drop_intervals(self) -> ChangedDecisions:
        """Return the same counts without intervals, for rows that are not a sample."""
        return replace(
            self,
            subgroups={
                name: {
                    metric: replace(share, low=None, high=None) for metric, share in shares.items()
                }
                for name, shares in self.subgroups.items()
            },
        )

    def rows(self) -> list[Row]:
        """Return a record per subgroup and direction."""
        return label_rows(
            "subgroup",
            {
                name: [{"metric": metric} | share.rows()[0] for metric, share in shares.items()]
                for name, shares in self.subgroups.items()
            },
        )


@require_aligned
def changed_decisions(
    y_true: npt.ArrayLike | Rows,
    y_score_a: npt.ArrayLike,
    y_score_b: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    threshold_a: float,
    threshold_b: float,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> ChangedDecisions:
    """Count rows that a model flags, or misses, and another does not, by subgroup.

    Unlike in a difference of rates, changes do not cancel: at the same rate, a model may newly flag
    ten harmless rows and no longer flag ten others.

    Parameters
    ----------
    y_true, subgroups
        As in `evaluate_bias`.
    y_score_a, y_score_b : float array of shape (n,)
        Finite scores of the first model (the candidate) and the second (the champion).
    threshold_a, threshold_b : float
        The score at or above which each model flags a row.
    confidence : float, default=0.95
        Joint confidence of the intervals of all subgroups and directions (Bonferroni).
    **options
        `clusters` as in `evaluate_bias`; not with `Rows`.

    Returns
    -------
    ChangedDecisions
        By subgroup, `newly_flagged`: the negative rows that the first model flags and the second
        does not; `newly_missed`: the positive rows that the second flags and the first does not.
        Intervals of their shares are exact. With clusters they use the effective sample size, and
        fewer than 20 clusters give no interval.

    Raises
    ------
    ValueError, TypeError
        If the number of scores or rows differs, a value is not finite, or the rows have weights.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26.

    Examples
    --------
    >>> y_true, gay = [0, 0, 0, 1], {"gay": [1, 1, 0, 1]}
    >>> a, b = [0.9, 0.2, 0.1, 0.4], [0.3, 0.1, 0.2, 0.8]
    >>> changes = changed_decisions(y_true, a, b, gay, threshold_a=0.5, threshold_b=0.5)
    >>> [(share.count, share.n) for share in changes.subgroups["gay"].values()]
    [(1, 2), (1, 1)]
    """
    rows = Rows.from_arguments(y_true, subgroups, **options)
    rows.refuse_ignored("changed_decisions", "sample_weight")
    level = check_confidence(confidence)
    scores = rows.check_scores("y_score_a", y_score_a), rows.check_scores("y_score_b", y_score_b)
    thresholds = check_threshold(threshold_a), check_threshold(threshold_b)
    flags = [reaches_cut(*pair) for pair in zip(scores, thresholds, strict=True)]
    changes = dict(count_changes(rows, flags))
    n_shares = max(sum(map(len, changes.values())), 1)
    joint = 1 - (1 - level) / n_shares
    subgroup_shares = {
        name: {metric: CountedShare.from_share(share, joint) for metric, share in shares.items()}
        for name, shares in changes.items()
    }
    return ChangedDecisions(thresholds, subgroup_shares, level)


def count_changes(
    rows: Rows, flags: Sequence[BoolArray]
) -> Iterator[tuple[str, Mapping[str, Share]]]:
    """Yield each subgroup with its shares of changed decisions, by metric."""
    first, second = flags
    events = {}
    for metric, changed in list_changed_metrics().items():
        counted = rows.y_true if changed.label == "positive" else ~rows.y_true
        is_changed = (first & ~second) if changed.event == "flagged" else (second & ~first)
        events[metric] = Events(rows, counted, [is_changed], f"{changed.label}s")
    for name, mask in rows.subgroups.items():
        places = np.flatnonzero(mask)
        shares = {
            metric: Share.from_counts(changed.count_among(places))
            for metric, changed in events.items()
        }
        yield name, shares
