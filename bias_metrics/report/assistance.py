"""What term matching added to the human labels of one cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Assistance:
    """What term matching added to the human labels of one cell.

    Attributes
    ----------
    weight : float
        How much of the terms' error is removed, from 0 to 1; 0 if terms are not used.
    gain : float
        How many times as many labelled rows would give the same precision without terms, less
        about one standard error of that, since few rows tell how well terms work; 1 if terms are
        not used.
    reason : str or None
        Why terms are not used.
    """

    weight: float = 0.0
    gain: float = 1.0
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the reason only if there is one."""
        found = {"weight": self.weight, "gain": self.gain}
        return found if self.reason is None else found | {"reason": self.reason}
