"""Keeping to the limits that a service publishes: requests and tokens per second."""

from __future__ import annotations

import time
from asyncio import sleep
from dataclasses import dataclass, field
from functools import cache

_CHARACTERS_A_TOKEN = 3.0


def estimated_tokens(text: str) -> int:
    """Return how many tokens a text has, at a guess that is rather too high.

    English has about four bytes in a token; three leaves room for other languages and rare words.
    """
    return 1 + int(len(text.encode("utf-8", "replace")) / _CHARACTERS_A_TOKEN)


@dataclass
class Pace:
    """When the next request may be sent; shared by all that go to one service.

    Requests are spaced evenly, so that no second has more than its share.
    """

    requests_per_second: float | None = None
    tokens_per_second: float | None = None
    """The limits."""
    _free_at: float = field(default=0.0, init=False)
    _paused_until: float = field(default=0.0, init=False)

    def seconds(self, n_requests: float, n_tokens: float) -> float:
        """Return how long requests take at these limits, at least."""
        by_requests = n_requests / self.requests_per_second if self.requests_per_second else 0.0
        by_tokens = n_tokens / self.tokens_per_second if self.tokens_per_second else 0.0
        return max(by_requests, by_tokens)

    async def turn(self, n_tokens: int) -> None:
        """Wait until a request of so many tokens may be sent."""
        while self._late() > 0:  # noqa: ASYNC110 - it waits for a time, which may be moved
            await sleep(max(self._late(), 0.0))
        self._free_at = time.monotonic() + self.seconds(1, n_tokens)

    def _late(self) -> float:
        return max(self._free_at, self._paused_until) - time.monotonic()

    def pause(self, seconds: float) -> None:
        """Send nothing for so long, if there are limits: the service has too many requests."""
        if self.requests_per_second or self.tokens_per_second:
            self._paused_until = max(self._paused_until, time.monotonic() + seconds)


@cache
def pace_of(url: str, requests_per_second: float | None, tokens_per_second: float | None) -> Pace:
    """Return the pace of a service in this process, whichever candidate sends to it."""
    del url  # of the service
    return Pace(requests_per_second, tokens_per_second)
