"""Results of scoring, with missing scores and truncated texts, and the load on a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bias_metrics.parts import format_count

NO_ANSWER, TOO_LONG = "no_answer", "too_long"
ANSWERED, OTHER = "status ", "other answers"
"""Prefix of a reason that is a service's own answer, and the sum of the rare answers."""
WITHOUT_SCORE = "without a score"
"""Reason for a valid answer with null as its score."""
TRUNCATED = "truncated"
"""Column of shards and evidence that marks truncated texts, if they are known."""
_UNREADABLE = f"{ANSWERED}200"
_WORDS = {
    "language": "in an unsupported language",
    "no_score": "without a score in the file",
    NO_ANSWER: "without a usable answer",
    TOO_LONG: "too long",
    "tokenizer": "not split into tokens",
}


def describe_reasons(reasons: Mapping[str, int]) -> str:
    """Return the number of missing scores by reason, as in `40 refused, 2 too long`."""
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
    """The lack of a score."""

    reason: str
    """A word, or the answer of a service. It never quotes a comment."""


Outcome = float | Missing


@dataclass(frozen=True)
class PartlyScored:
    """Scores of a batch; some may be missing, or may come from truncated texts."""

    scores: np.ndarray
    """NaN for a missing score."""
    reasons: Sequence[str | None] = ()
    """Reasons for missing scores, None for the other rows. Empty if no score is missing."""
    truncated: np.ndarray | None = None
    """True for texts that the model truncated, shape (n,); None if that is unknown."""

    @classmethod
    def from_outcomes(cls, outcomes: Sequence[Outcome]) -> PartlyScored:
        """Split outcomes into scores and reasons."""
        return cls(
            np.array([np.nan if isinstance(outcome, Missing) else outcome for outcome in outcomes]),
            [outcome.reason if isinstance(outcome, Missing) else None for outcome in outcomes],
        )


@dataclass(frozen=True)
class Load:
    """Requests, tokens, time and money that sending texts to a service takes."""

    host: str
    n_requests: int = 0
    n_tokens: int = 0
    """An estimate."""
    seconds: float = 0.0
    """Shortest time within the service's limits."""
    usd: float | None = 0.0
    """Price in US dollars; None if it is not known."""

    def __add__(self, other: Load) -> Load:
        has_price = self.usd is not None and other.usd is not None
        return Load(
            self.host,
            self.n_requests + other.n_requests,
            self.n_tokens + other.n_tokens,
            self.seconds + other.seconds,
            (self.usd or 0.0) + (other.usd or 0.0) if has_price else None,
        )
