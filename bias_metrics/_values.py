"""A number, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MetricValue:
    """One metric's value, or null with the reason why it is undefined.

    Attributes
    ----------
    value : float or None
        None when the metric is undefined; never NaN or infinite.
    reason : str or None
        Why `value` is None; None otherwise.
    """

    value: float | None
    reason: str | None = None

    def to_dict(self) -> dict[str, float | str | None]:
        """Return `{"value": ...}`, with `"reason"` only where there is one."""
        if self.reason is None:
            return {"value": self.value}
        return {"value": self.value, "reason": self.reason}


def undefined(reason: str) -> MetricValue:
    """Return the undefined value with its reason."""
    return MetricValue(None, reason)
