"""What scoring gives and takes: scores of which some may be missing, and the load of a service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PartlyScored:
    """Scores of which some may be missing.

    Attributes
    ----------
    scores : float array of shape (n,)
        NaN where there is no score.
    reasons : sequence of str or None
        Why there is none, in one word that quotes nothing; None where there is a score.
    """

    scores: np.ndarray
    reasons: Sequence[str | None]


@dataclass(frozen=True)
class Load:
    """What it takes to send texts to a service.

    Attributes
    ----------
    host : str
        The service.
    n_requests, n_tokens : int
        Requests, and about how many tokens.
    seconds : float
        At least, by the service's limits.
    usd : float or None
        Price in US dollars; None if it is not known.
    """

    host: str
    n_requests: int = 0
    n_tokens: int = 0
    seconds: float = 0.0
    usd: float | None = 0.0

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
