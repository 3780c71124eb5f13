"""A number with its uncertainty, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

NOT_ASKED = "intervals were not asked for"


@dataclass(frozen=True)
class MetricValue:
    """One metric's value and confidence interval, or null with the reason why.

    Attributes
    ----------
    value : float or None
        None when the metric is undefined; never NaN or infinite.
    reason : str or None
        Why `value`, or else the interval, is None.
    std_error : float or None
        Standard error of `value`.
    low, high : float or None
        Confidence interval; both None where there is none.
    row_std_error : float or None
        Where `std_error` allows for clusters: what it would be if rows were independent.
    n_clusters : int or None
        Where it does: how many clusters the rows fall into.
    """

    value: float | None
    reason: str | None = None
    std_error: float | None = None
    low: float | None = None
    high: float | None = None
    row_std_error: float | None = None
    n_clusters: int | None = None

    def to_dict(self, *, interval: bool = False) -> dict[str, float | str | None]:
        """Return `value`, with `interval` also its uncertainty; `reason` where there is one."""
        if not interval:
            short: dict[str, float | str | None] = {"value": self.value}
            return short if self.reason is None else short | {"reason": self.reason}
        numbers: dict[str, float | str | None] = {
            "value": self.value,
            "std_error": self.std_error,
            "low": self.low,
            "high": self.high,
        }
        if self.row_std_error is not None:
            numbers["row_std_error"] = self.row_std_error
        if self.n_clusters is not None:
            numbers["n_clusters"] = self.n_clusters
        reason = self.reason or (NOT_ASKED if self.low is None else None)
        return numbers if reason is None else numbers | {"reason": reason}


def undefined(reason: str) -> MetricValue:
    """Return the undefined value with its reason."""
    return MetricValue(None, reason=reason)
