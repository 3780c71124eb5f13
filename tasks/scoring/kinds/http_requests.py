"""Requests to a served model: retries with back-off, and errors without texts.

An endpoint may be broken or hostile: each try has one deadline, from the connection to the last
byte, and the size of an answer is limited, both as it is sent and unpacked.
"""

from __future__ import annotations

import asyncio
import json
import random
import zlib
from asyncio import sleep
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import httpx
from anyio.from_thread import start_blocking_portal

from biasgate.tasks.common.errors import CandidateStoppedError, InputError

Result = TypeVar("Result")
WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
_MIB = 2**20
# An answer of a few numbers per text is shorter than its request, unless the texts are very short.
_MOST_BYTES, _TIMES_THE_REQUEST = 64 * _MIB, 100
_TOO_MANY = 429
_GZIP = 31  # the format, for zlib


class Requests:
    """A client of one URL.

    Parameters
    ----------
    url, of : str
        The URL; its name in messages.
    token : str or None
        Bearer token.
    timeout_s : float
        Limit in seconds for one try: connection, request and answer, up to the last byte.
    tries : int
        Most tries.
    connections : int
        Most parallel requests.
    """

    def __init__(
        self, url: str, of: str, token: str | None, timeout_s: float, tries: int, connections: int
    ) -> None:
        self._url, self._of, self._timeout_s, self._tries = url, of, timeout_s, tries
        # Not packed: an answer is short. A server that packs it all the same is understood.
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connections = connections

    def post(self, contents: Sequence[Any], read: Callable[[Any, int], Result]) -> list[Result]:
        """Send each content as JSON, a few at once; stop at the first failure.

        Returns what `read` makes of the JSON of each answer and the number of its request.

        Raises
        ------
        InputError
            If an answer is another error than 429 or 5xx, too long, or not JSON.
        CandidateStoppedError
            If all tries of one request failed.
        """
        with start_blocking_portal() as portal:  # a loop may already run in this thread
            return portal.call(self._post_all, contents, read)

    async def _post_all(
        self, contents: Sequence[Any], read: Callable[[Any, int], Result]
    ) -> list[Result]:
        at_once = asyncio.Semaphore(self._connections)

        async def one(number: int, content: Any) -> Result:
            async with at_once:
                return read(await self._post(client, json.dumps(content).encode()), number)

        async with httpx.AsyncClient(headers=self._headers, timeout=None) as client:  # noqa: S113
            try:
                async with asyncio.TaskGroup() as group:
                    posts = [group.create_task(one(*content)) for content in enumerate(contents)]
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
        return [post.result() for post in posts]

    async def _post(self, client: httpx.AsyncClient, body: bytes) -> Any:
        failure, wait = "", 0.0
        most = min(_MOST_BYTES, _MIB + _TIMES_THE_REQUEST * len(body))
        for number in range(self._tries):
            await sleep(wait)
            wait = min(LONGEST_WAIT_S, WAIT_S * 2**number) * random.uniform(0.5, 1)  # noqa: S311
            try:
                async with asyncio.timeout(self._timeout_s):
                    response, answer = await self._try(client, body, most)
            except TimeoutError:
                failure = f"without a whole answer in {self._timeout_s:g} s (`timeout_s`)"
                continue
            except httpx.TransportError as error:
                failure = f"with {type(error).__name__}"
                continue
            status = response.status_code
            if status == httpx.codes.OK:
                return self._parsed(self._unpacked(response, answer, most))
            failure = f"with status {status}"
            if status != _TOO_MANY and status < httpx.codes.INTERNAL_SERVER_ERROR:
                msg = f"{self._of} must answer 200; got status {status}. Its server's log says why."
                raise InputError(msg)
            wait = max(wait, _asked_wait(response))
        msg = f"{self._of} failed {self._tries} times, the last time {failure}."
        raise CandidateStoppedError(msg)

    async def _try(
        self, client: httpx.AsyncClient, body: bytes, most: int
    ) -> tuple[httpx.Response, bytes]:
        """Return the response, and its body as it was sent."""
        async with client.stream("POST", self._url, content=body) as response:
            answer = bytearray()
            async for chunk in response.aiter_raw():
                answer += chunk
                self._refuse_longer(answer, most)
            return response, bytes(answer)

    def _unpacked(self, response: httpx.Response, answer: bytes, most: int) -> bytes:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding == "identity":
            return answer
        if encoding == "gzip":
            with suppress(zlib.error):
                # Not by httpx, which unpacks a chunk whatever its size.
                content = zlib.decompressobj(wbits=_GZIP).decompress(answer, most + 1)
                self._refuse_longer(content, most)
                return content
        msg = f"{self._of} must answer uncompressed, or in gzip; it did not."
        raise InputError(msg)

    def _refuse_longer(self, answer: bytes | bytearray, most: int) -> None:
        if len(answer) > most:
            msg = f"{self._of} must answer at most {most} bytes; it sent more."
            raise InputError(msg)

    def _parsed(self, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            pass
        msg = f"{self._of} must answer with JSON; it did not ({len(answer)} bytes)."
        raise InputError(msg)


def _asked_wait(response: httpx.Response) -> float:
    """Return the seconds to wait as the server asked."""
    asked = response.headers.get("Retry-After", "")
    return min(float(asked) if asked.isdecimal() else 0.0, LONGEST_WAIT_S)
