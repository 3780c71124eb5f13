"""One metric of two models on the same rows, and what its interval shows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from bias_metrics._core.tables import Row, Tabular

_IF_ANY = {"reason", "n_clusters", "size_low", "size_high"}


@dataclass(frozen=True)
class Difference(Tabular):
    """One metric of two models on the same rows, and the first minus the second.

    Attributes
    ----------
    first, second : float or None
        The metric under each model.
    value : float or None
        `first - second`; None if either is undefined.
    std_error, low, high : float or None
        Standard error and confidence interval of `value`, the two models paired.
    p_value : float or None
        Two-sided p-value for no difference.
    reason : str or None
        Why something is None.
    p_holm, p_bh : float or None
        `p_value` adjusted for all cells of the comparison: Holm controls the chance of any
        error, Benjamini and Hochberg the share of errors among the findings.
    n_clusters : int or None
        Number of clusters behind the metric, if the error allows for clusters.
    size_low, size_high : float or None
        For a gap (AEG): bounds on `|first| - |second|`, how much wider the first gap is than the
        second, at the same confidence whatever the signs; 0 or less for identical scores.
    """

    first: float | None
    second: float | None
    value: float | None = None
    std_error: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    reason: str | None = None
    p_holm: float | None = None
    p_bh: float | None = None
    n_clusters: int | None = None
    size_low: float | None = None
    size_high: float | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval, if there is one."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def not_worse_by(self, margin: float) -> bool | None:
        """Say whether the first is shown not to be worse by `margin` (AUCs: higher is better).

        True: shown; False: shown to be worse by more; None: neither.
        """
        if self.low is None or self.high is None:
            return None
        return True if self.low > -margin else False if self.high < -margin else None

    def within(self, margin: float) -> bool | None:
        """Say whether the two are shown to differ by less than `margin`.

        True: the interval lies within the margin on both sides; False: it lies outside;
        None: neither.
        """
        if self.low is None or self.high is None:
            return None
        if -margin < self.low and self.high < margin:
            return True
        return False if self.low > margin or self.high < -margin else None

    def gap_not_wider_by(self, margin: float) -> bool | None:
        """Say whether the first gap is shown not to be wider than the second by `margin`.

        Only for an AEG, where 0 is best and either sign is harm. True: shown, as for any gap
        that clearly shrinks and for identical scores; False: shown to be wider by more; None:
        neither, or not a gap.
        """
        if self.size_low is None or self.size_high is None:
            return None
        return True if self.size_high < margin else False if self.size_low > margin else None

    def shown(self, confidence: float) -> bool:
        """Say whether the two differ, by the p-value adjusted by Holm and by the interval."""
        if self.low is None or self.high is None or self.p_holm is None:
            return False
        return self.p_holm <= 1 - confidence and not self.low <= 0 <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; reason, clusters and sizes only if they exist."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            key: value for key, value in found.items() if key not in _IF_ANY or value is not None
        }

    def rows(self) -> list[Row]:
        """Return one record."""
        return [dict(vars(self))]

    def __str__(self) -> str:
        if self.value is None:
            return f"undefined ({self.reason})"
        if self.low is None or self.high is None:
            return f"{self.value:+.3f}"
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
