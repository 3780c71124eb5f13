"""What scoring gives and takes: scores, some missing or of truncated texts; a service's load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bias_metrics.parts import format_count

NO_ANSWER, TOO_LONG = "no_answer", "too_long"
ANSWERED, OTHER = "status ", "other answers"
"""How reasons begin that a service gave by itself, and the sum of the rare ones."""
WITHOUT_SCORE = "without a score"
"""Of an answer that is as it should be, but for its score, which is null."""
TRUNCATED = "truncated"
"""The column that says whose text was truncated, if that is known, of shards and of evidence."""
_UNREADABLE = f"{ANSWERED}200"
_WORDS = {
    "language": "in an unsupported language",
    "no_score": "without a score in the file",
    NO_ANSWER: "without a usable answer",
    TOO_LONG: "too long",
    "tokenizer": "not split into tokens",
}


def describe_reasons(reasons: Mapping[str, int]) -> str:
    """Return how many scores are missing for each reason, as in `40 refused, 2 too long`."""
    return ", ".join(_describe_reason(reason, n) for reason, n in reasons.items())


def _describe_reason(reason: str, n: int) -> str:
    if reason == OTHER:
        return format_count(n, "other answer")
    if reason.startswith(_UNREADABLE):
        return format_count(n, "answer") + f" {WITHOUT_SCORE}{reason.removeprefix(_UNREADABLE)}"
    if reason.startswith(ANSWERED):
        return format_count(n, "answer") + f" with {reason}"
    return f"{n:,} {_WORDS.get(reason, reason)}"


@dataclass(frozen=True)
class Missing:
    """No score, and why: one word, or what a service answered instead, which quotes no comment."""

    reason: str


Outcome = float | Missing


@dataclass(frozen=True)
class PartlyScored:
    """Scores of which some may be missing, or of truncated texts."""

    scores: np.ndarray
    """NaN where there is no score."""
    reasons: Sequence[str | None] = ()
    """Why there is none; None where there is a score. Empty if all rows have one."""
    truncated: np.ndarray | None = None
    """Which texts the model truncated, shape (n,); None if that is unknown."""

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
