"""Requests to a served model: retries with back-off, and errors without texts.

An endpoint may be broken or hostile: each try has one deadline, from the connection to the last
byte, and the size of an answer is limited, both as it is sent and unpacked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import random
import zlib
from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar

import httpx
from anyio.from_thread import start_blocking_portal

from bias_metrics.parts import counted
from biasgate.tasks.common.errors import CandidateStoppedError, InputError
from biasgate.tasks.scoring.http.pace import Pace

Result = TypeVar("Result")
WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
_MIB = 2**20
# An answer of a few numbers per text is shorter than its request, unless the texts are very short.
_MOST_BYTES, _TIMES_THE_REQUEST = 64 * _MIB, 100
_TOO_MANY = 429
_GZIP = 31  # the format, for zlib
_KEY = "Check the key or token in `token_env`."
_WHY = {401: _KEY, 403: _KEY, 404: "Check `url`: nothing answers at its path."}


class Rule(Protocol):
    """What an answer means: `then` is `missing`, `retry` or `stop`; `why` is a word or sentence."""

    @property
    def then(self) -> str: ...  # noqa: D102
    @property
    def why(self) -> str: ...  # noqa: D102


class _Again:
    """The request may succeed later."""


@dataclass(frozen=True)
class Refused:
    """A request that the service will never answer, and why, in one word."""

    reason: str


@dataclass(frozen=True)
class Request:
    """A request."""

    content: Any
    """JSON, or text if that is the content type."""
    n_tokens: int = 0
    """About how many tokens it has."""
    where: str = ""
    """Which comments it holds, for messages."""


@dataclass(frozen=True)
class Requests:
    """A client of one URL."""

    url: str
    of: str
    """The URL; its name in messages."""
    timeout_s: float
    """Limit in seconds for one try: connection, request and answer, up to the last byte."""
    tries: int
    """Most tries."""
    connections: int
    """Most parallel requests."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request; with the secret."""
    pace: Pace = field(default_factory=Pace)
    """When requests may be sent."""
    rule: Callable[[int, Any], Rule | None] = lambda *_: None
    """Returns what an answer means by its status and its JSON, or None."""
    longest_wait_s: float = LONGEST_WAIT_S
    """Longest wait between tries."""
    direct: bool = False
    """Whether to ignore a proxy that the environment names."""

    def post(
        self, requests: Sequence[Request], read: Callable[[Any, int], Result]
    ) -> list[Result | Refused]:
        """Send each request, a few at once; stop at the first failure.

        Returns what `read` makes of the JSON of each answer and the number of its request, or
        that the service refused it.
        """
        if not requests:
            return []
        with start_blocking_portal() as portal:  # a loop may already run in this thread
            return portal.call(self._post_all, requests, read)

    async def _post_all(
        self, requests: Sequence[Request], read: Callable[[Any, int], Result]
    ) -> list[Result | Refused]:
        at_once = asyncio.Semaphore(self.connections)

        async def one(number: int, request: Request) -> Result | Refused:
            async with at_once:
                try:
                    answer = await self._post(client, request)
                    return answer if isinstance(answer, Refused) else read(answer, number)
                except (InputError, CandidateStoppedError) as error:
                    error.args = (f"{error} {request.where}".rstrip(),)
                    raise

        # Not packed: an answer is short. A server that packs it all the same is understood.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        around = dict.fromkeys(("all://", "http://", "https://")) if self.direct else None
        async with httpx.AsyncClient(
            headers=headers | dict(self.headers),
            timeout=None,  # noqa: S113 - each try has one
            mounts=around,
            verify=self.url.startswith("https:"),  # reading the certificates takes time
        ) as client:
            try:
                async with asyncio.TaskGroup() as group:
                    posts = [group.create_task(one(*numbered)) for numbered in enumerate(requests)]
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
        return [post.result() for post in posts]

    async def _post(self, client: httpx.AsyncClient, request: Request) -> Any:
        content, failure, wait = request.content, "", 0.0
        is_text = client.headers["Content-Type"].startswith("text/")
        body = content.encode("utf-8", "replace") if is_text else json.dumps(content).encode()
        most = min(_MOST_BYTES, _MIB + _TIMES_THE_REQUEST * len(body))
        for number in range(self.tries):
            await sleep(wait)
            await self.pace.turn(request.n_tokens)
            wait = min(LONGEST_WAIT_S, WAIT_S * 2**number) * random.uniform(0.5, 1)  # noqa: S311
            try:
                async with asyncio.timeout(self.timeout_s):
                    response, answer = await self._try(client, body, most)
            except TimeoutError:
                failure = f"without a whole answer in {self.timeout_s:g} s (`timeout_s`)"
                continue
            except httpx.TransportError as error:
                failure = f"with {type(error).__name__}"
                continue
            meant = self._meaning(response, answer, most)
            if not isinstance(meant, _Again):
                return meant
            failure = f"with status {response.status_code}"
            wait = max(wait, min(_asked_wait(response), self.longest_wait_s))
            if response.status_code == _TOO_MANY:
                self.pace.pause(wait)
        msg = f"{self.of} failed {counted(self.tries, 'time')}, the last time {failure}."
        raise CandidateStoppedError(msg)

    def _meaning(self, response: httpx.Response, answer: bytes, most: int) -> Any:
        """Return the JSON of an answer, that the service refused it, or that it may pass later."""
        status = response.status_code
        is_good = status == httpx.codes.OK
        body = None
        with suppress(*(() if is_good else (InputError,))):
            body = self._parsed(self._unpacked(response, answer, most))
        rule = self.rule(status, body)
        if rule is None and is_good:
            return body
        passes = status == _TOO_MANY or status >= httpx.codes.INTERNAL_SERVER_ERROR
        if rule.then == "retry" if rule else passes:
            return _Again()
        if rule is not None and rule.then == "missing":
            return Refused(rule.why)
        why = rule.why if rule else _WHY.get(status, "Its server's log says why.")
        if rule is None and response.has_redirect_location:
            why += " Redirects are not followed: they may lead to another host."
        msg = f"{self.of} must answer 200; got status {status}. {why}"
        raise InputError(msg)

    async def _try(
        self, client: httpx.AsyncClient, body: bytes, most: int
    ) -> tuple[httpx.Response, bytes]:
        """Return the response, and its body as it was sent."""
        async with client.stream("POST", self.url, content=body) as response:
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
        msg = f"{self.of} must answer uncompressed, or in gzip; it did not."
        raise InputError(msg)

    def _refuse_longer(self, answer: bytes | bytearray, most: int) -> None:
        if len(answer) > most:
            msg = f"{self.of} must answer at most {most} bytes; it sent more."
            raise InputError(msg)

    def _parsed(self, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            pass
        msg = f"{self.of} must answer with JSON; it did not ({len(answer)} bytes)."
        raise InputError(msg)


def _asked_wait(response: httpx.Response) -> float:
    """Return the seconds to wait as the server asked, by number or by date."""
    asked = response.headers.get("Retry-After", "")
    if asked.isdecimal():
        return float(asked)
    until = _date(asked)
    if until is None:
        return 0.0
    # By the server's own clock, if it tells the time.
    now = _date(response.headers.get("Date", "")) or datetime.now(UTC)
    return max((until - now).total_seconds(), 0.0)


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def plain_url(url: str) -> str:
    """Return a URL that reports may show."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL()
    if parts.scheme not in {"http", "https"} or not parts.host:
        msg = "must be an http or https URL"
        raise ValueError(msg)
    if parts.userinfo or parts.query:
        msg = "must not contain user, password or query, since reports show it; use `token_env`"
        raise ValueError(msg)
    return url


def host_of(url: str) -> str:
    """Return the host of a URL, in lower case."""
    return httpx.URL(url).host


def is_loopback(url: str) -> bool:
    """Say whether a URL is this machine's own."""
    host = host_of(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def refuse_unnamed_host(url: str, named: str | None, of: str) -> None:
    """Refuse to send comments to a host that the configuration does not name."""
    host = host_of(url)
    if named is not None and named.strip("[]").lower() != host:
        msg = f"`sends_text_to` of {of} must be the host of its `url`, {host}; got {named}."
        raise InputError(msg)
    if named is None and not is_loopback(url):
        msg = (
            f"{of} sends the comments to {host}, another machine. If that is allowed, add "
            f"`sends_text_to: {host}` to the candidate."
        )
        raise InputError(msg)
