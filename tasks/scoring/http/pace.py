"""Limits that a service publishes: requests and tokens per second."""

from __future__ import annotations

import time
from asyncio import sleep
from dataclasses import dataclass, field
from functools import cache

_CHARACTERS_A_TOKEN = 3.0


def estimate_tokens(text: str) -> int:
    """Return a high estimate of the number of tokens in a text.

    English has about four bytes per token; three leaves room for other languages and rare words.
    """
    return 1 + int(len(text.encode("utf-8", "replace")) / _CHARACTERS_A_TOKEN)


@dataclass
class Pace:
    """The time of the next request to a service, shared by all senders.

    Requests are spaced evenly, so that every second is within the limits.
    """

    requests_per_second: float | None = None
    tokens_per_second: float | None = None
    _free_at: float = field(default=0.0, init=False)
    _paused_until: float = field(default=0.0, init=False)

    def estimate_seconds(self, n_requests: float, n_tokens: float) -> float:
        """Return the shortest time for requests within the limits."""
        by_requests = n_requests / self.requests_per_second if self.requests_per_second else 0.0
        by_tokens = n_tokens / self.tokens_per_second if self.tokens_per_second else 0.0
        return max(by_requests, by_tokens)

    async def wait_turn(self, n_tokens: int) -> None:
        """Wait until a request of `n_tokens` tokens may be sent."""
        while self._remaining_wait() > 0:  # noqa: ASYNC110 - `pause` may extend the wait
            await sleep(max(self._remaining_wait(), 0.0))
        self._free_at = time.monotonic() + self.estimate_seconds(1, n_tokens)

    def _remaining_wait(self) -> float:
        return max(self._free_at, self._paused_until) - time.monotonic()

    def pause(self, seconds: float) -> None:
        """Delay further requests, since the service got too many. Without limits, do not wait."""
        if self.requests_per_second or self.tokens_per_second:
            self._paused_until = max(self._paused_until, time.monotonic() + seconds)


@cache
def get_pace(url: str, requests_per_second: float | None, tokens_per_second: float | None) -> Pace:
    """Return the pace that all candidates of this process share for a URL."""
    del url  # a part of the cache's key
    return Pace(requests_per_second, tokens_per_second)
