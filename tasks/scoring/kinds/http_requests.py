"""Requests to a served model: retries with back-off, time limits, errors without texts."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import httpx

from biasgate.tasks.common.errors import CandidateError, InputError

WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
_MOST_BYTES = 64 * 2**20
_TOO_MANY = 429


class Requests:
    """A client of one URL; several threads may share it.

    Parameters
    ----------
    url, of : str
        The URL; its name in messages.
    token : str or None
        Bearer token.
    timeout_s : float
        Limit in seconds for one try, up to the last byte.
    tries : int
        Most tries.
    connections : int
        Most parallel connections.
    """

    def __init__(
        self, url: str, of: str, token: str | None, timeout_s: float, tries: int, connections: int
    ) -> None:
        self._url, self._of, self._timeout_s, self._tries = url, of, timeout_s, tries
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=connections),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def post(self, content: Any) -> Any:
        """Send JSON, return the JSON of the answer.

        Raises
        ------
        InputError
            If the answer is another error than 429 or 5xx, or not JSON.
        CandidateError
            If all tries failed.
        """
        body, failure, wait = json.dumps(content).encode(), "", 0.0
        for number in range(self._tries):
            time.sleep(wait)
            wait = min(LONGEST_WAIT_S, WAIT_S * 2**number) * random.uniform(0.5, 1)  # noqa: S311
            try:
                status, asked_wait, answer = self._try(body)
            except (httpx.TransportError, httpx.DecodingError) as error:
                failure = type(error).__name__
                continue
            if status == httpx.codes.OK:
                return self._parsed(answer)
            failure = f"status {status}"
            if status != _TOO_MANY and status < httpx.codes.INTERNAL_SERVER_ERROR:
                msg = f"{self._of} must answer 200; got {failure}. Its server's log says why."
                raise InputError(msg)
            wait = max(wait, asked_wait)
        msg = f"{self._of} failed {self._tries} times, the last time with {failure}."
        raise CandidateError(msg)

    def _try(self, body: bytes) -> tuple[int, float, bytes]:
        """Return status, seconds to wait as the server asked, and body."""
        deadline = time.monotonic() + self._timeout_s
        headers = {"Content-Type": "application/json"}
        with self._client.stream("POST", self._url, content=body, headers=headers) as response:
            answer = bytearray()
            for chunk in response.iter_bytes():
                answer += chunk
                # httpx limits each wait, not their sum: a very slow answer would never end.
                if time.monotonic() > deadline:
                    msg = "the answer took too long"
                    raise httpx.ReadTimeout(msg)
                if len(answer) > _MOST_BYTES:
                    msg = f"{self._of} must answer at most {_MOST_BYTES} bytes; it sent more."
                    raise InputError(msg)
            asked = response.headers.get("Retry-After", "")
            seconds = float(asked) if asked.isdecimal() else 0.0
            return response.status_code, min(seconds, LONGEST_WAIT_S), bytes(answer)

    def _parsed(self, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except ValueError:
            pass
        msg = f"{self._of} must answer with JSON; it did not ({len(answer)} bytes)."
        raise InputError(msg)
