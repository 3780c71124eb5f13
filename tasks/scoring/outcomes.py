"""What scoring gives and takes: scores of which some may be missing, and the load of a service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NO_ANSWER, TOO_LONG = "no_answer", "too_long"
ANSWERED = "status "
"""How reasons begin that a service gave by itself."""


@dataclass(frozen=True)
class Missing:
    """No score, and why: one word, or what a service answered instead, which quotes no comment."""

    reason: str


Outcome = float | Missing


@dataclass(frozen=True)
class PartlyScored:
    """Scores of which some may be missing."""

    scores: np.ndarray
    """NaN where there is no score."""
    reasons: Sequence[str | None]
    """Why there is none; None where there is a score."""

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> PartlyScored:
        """Return outcomes as scores and reasons."""
        return cls(
            np.array([np.nan if isinstance(outcome, Missing) else outcome for outcome in outcomes]),
            [outcome.reason if isinstance(outcome, Missing) else None for outcome in outcomes],
        )


@dataclass(frozen=True)
class Load:
    """What it takes to send texts to a service."""

    host: str
    """The service."""
    n_requests: int = 0
    n_tokens: int = 0
    """Requests, and about how many tokens."""
    seconds: float = 0.0
    """At least, by the service's limits."""
    usd: float | None = 0.0
    """Price in US dollars; None if it is not known."""

    def __add__(self, other: Load) -> Load:
        """Return the load of both."""
        known = self.usd is not None and other.usd is not None
        return Load(
            self.host,
            self.n_requests + other.n_requests,
            self.n_tokens + other.n_tokens,
            self.seconds + other.seconds,
            (self.usd or 0.0) + (other.usd or 0.0) if known else None,
        )
