"""All error rates at a decision threshold, from a single count of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from bias_metrics._core.checks import (
    check_mask,
    check_power_mean_groups,
    check_scores,
    check_subgroups,
    check_threshold,
)
from bias_metrics._core.index import require_aligned
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.tables import Row, Table, Tabular, collect_rows, label_rows, to_plain_values
from bias_metrics._core.values import MetricValue
from bias_metrics.thresholds.dixon import EqualityDifference
from bias_metrics.thresholds.errors import ErrorRates
from bias_metrics.thresholds.thresholds import threshold_table


@dataclass(frozen=True)
class ThresholdReport(Tabular):
    """Errors at a threshold, overall and by subgroup."""

    threshold: float
    """Decision threshold; scores at or above it are flagged."""
    overall: ErrorRates
    """Errors of all rows."""
    subgroups: dict[str, ErrorRates]
    """Errors by subgroup, in the order given."""
    groups: tuple[str, ...]
    """The subgroups that the two sums cover."""

    @property
    def fped(self) -> MetricValue:
        """False Positive Equality Difference, as by `bias_metrics.fped`."""
        return self._sum_differences("false_positive_rate")

    @property
    def fned(self) -> MetricValue:
        """False Negative Equality Difference, as by `bias_metrics.fned`."""
        return self._sum_differences("false_negative_rate")

    def _sum_differences(self, name: str) -> MetricValue:
        rates = {group: self.subgroups[group].rate(name) for group in self.groups}
        return EqualityDifference(self.overall.rate(name), rates).value

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "threshold": self.threshold,
            "overall": self.overall.to_dict(),
            "subgroups": to_plain_values(self.subgroups),
            "groups": list(self.groups),
            "fped": self.fped.to_dict(),
            "fned": self.fned.to_dict(),
        }

    def rows(self) -> list[Row]:
        """Return a record per subgroup, and a record without a name for all rows."""
        return label_rows("subgroup", collect_rows(self.subgroups, self.overall))

    def _table(self) -> Table:
        return Table.from_records(self.rows(), f"FPED {self.fped}, FNED {self.fned}")


@require_aligned
def threshold_report(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    threshold: float,
    groups: Sequence[str] | None = None,
) -> ThresholdReport:
    """Report all errors at a threshold, by subgroup, with their sums.

    The values equal those of `error_rates`, `fped` and `fned`, from a single count of the rows.

    Parameters
    ----------
    y_true, y_score, subgroups
        As in `evaluate_bias`; `Rows` are not accepted.
    threshold : float
        Finite; a score equal to it is flagged.
    groups : sequence of str, optional
        The subgroups that FPED and FNED sum over; default all. A sum is undefined if a subgroup
        in it lacks the class.

    Returns
    -------
    ThresholdReport
        Rates in [0, 1] with counts; the sums, 0 or more with ideal 0.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if `threshold` is not finite or `groups` names an unknown
        subgroup.

    References
    ----------
    Dixon et al. (2018), equations 1 and 2.

    Examples
    --------
    >>> report = threshold_report(
    ...     [0, 0, 0, 0, 1, 1], [0.1, 0.2, 0.3, 0.7, 0.6, 0.9], {"gay": [0, 0, 1, 1, 0, 1]},
    ...     threshold=0.5,
    ... )
    >>> report.subgroups["gay"].false_positive_rate.value, report.fped.value
    (0.5, 0.25)
    """
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    threshold = check_threshold(threshold)
    summed = check_power_mean_groups(groups, masks, "groups")
    table = threshold_table(labels, scores, masks, thresholds=[threshold])
    rates = {name: curve.get_rates(0) for name, curve in table.subgroups.items()}
    return ThresholdReport(threshold, table.overall.get_rates(0), rates, summed)
