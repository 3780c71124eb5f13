"""Requests to a served model: retries with back-off, and errors without texts.

An endpoint may be broken or hostile: each try has one deadline, from the connection to the last
byte, and the size of an answer is limited, both as it is sent and unpacked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import math
import random
import zlib
from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal

from bias_metrics.parts import format_count
from biasgate.tasks.common.errors import CandidateStoppedError, InputError, MisreadError
from biasgate.tasks.scoring.http.pace import Pace
from biasgate.tasks.scoring.http.parts import AnswerRule
from biasgate.tasks.scoring.http.sentences import extract_sentence
from biasgate.tasks.scoring.outcomes import ANSWERED, Missing, Outcome

WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
_MIB = 2**20
# An answer of a few numbers per text is shorter than its request, unless the texts are very short.
_MOST_BYTES, _TIMES_THE_REQUEST = 64 * _MIB, 100
_TOO_MANY = 429
_GZIP = 31  # the format, for zlib
# Comments in a row whose answer makes no sense: then it is not the comments.
_MOST_IN_A_ROW = 20
# Of the address, the key or the account, whatever the comment.
_FATAL = frozenset({401, 402, 403, 404, 405, 407})
_KEY = "Check the key or token in `token_env`."
_WHY = {401: _KEY, 403: _KEY, 404: "Check `url`: the server did not find its path."}


def _hide_query(record: logging.LogRecord) -> bool:
    """Log the address of a request without its query, which may hold a secret."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg.copy_with(query=None) if isinstance(arg, httpx.URL) else arg for arg in record.args
        )
    return True


logging.getLogger("httpx").addFilter(_hide_query)


@dataclass(frozen=True)
class _Again:
    """The request may succeed later; the service's own sentence, if it has one."""

    sentence: str


@dataclass(frozen=True)
class Refused:
    """A request that the service will never answer with scores, and why."""

    reason: str
    error: InputError | CandidateStoppedError | None = None
    """What to raise if this happens to many comments in a row; None if it was foreseen."""


@dataclass(frozen=True)
class Request:
    """A request."""

    content: Any
    """JSON, or text if that is the content type."""
    n_tokens: int = 0
    """About how many tokens it has."""
    where: str = ""
    """Which comments it holds, for messages."""
    texts: Sequence[str] = ()
    """These comments, which no message quotes."""
    alone: Sequence[Request] = ()
    """A request for each of several comments, to be sent if they are refused together."""


@dataclass(frozen=True)
class Requests:
    """A client of one URL."""

    url: str = field(repr=False)
    """Its query may hold the secret."""
    name: str
    """The endpoint, for messages."""
    timeout_s: float
    """Limit in seconds for one try: connection, request and answer, up to the last byte."""
    tries: int
    """Most tries."""
    connections: int
    """Most parallel requests."""
    headers: Mapping[str, str] = field(repr=False)
    """Sent with each request; with the secret."""
    pace: Pace
    """When requests may be sent."""
    find_rule: Callable[[int, Any], AnswerRule | None]
    """Returns what an answer means by its status and its JSON, or None."""
    longest_wait_s: float
    """Longest wait between tries."""
    direct: bool
    """Whether to ignore a proxy that the environment names."""

    def post(
        self,
        requests: Sequence[Request],
        read: Callable[[Any, int], list[Outcome]],
        check: Callable[[Sequence[Outcome]], None],
    ) -> list[list[Outcome]]:
        """Send each request, a few at once; stop at the first failure.

        Returns what `read` makes of the JSON of each answer and its number of comments. A comment
        that the service refuses, or answers without a score, has none. Twenty answers in a row
        that neither the protocol foresees nor `read` understands are a failure. `check` gets the
        outcomes of every other answer, and raises an error if it has seen enough of them.
        """
        if not requests:
            return []
        with start_blocking_portal() as portal:  # a loop may already run in this thread
            return portal.call(self._post_all, requests, read, check)

    async def _post_all(
        self,
        requests: Sequence[Request],
        read: Callable[[Any, int], list[Outcome]],
        check: Callable[[Sequence[Outcome]], None],
    ) -> list[list[Outcome]]:
        at_once = asyncio.Semaphore(self.connections)
        in_a_row = 0

        async def score(request: Request) -> list[Outcome]:
            nonlocal in_a_row
            answer = await self._post(client, request)
            refused = isinstance(answer, Refused)
            outcomes = answer if refused else self._read(answer, request.texts, read)
            if not isinstance(outcomes, Refused):
                in_a_row = 0
                check(outcomes)
                return outcomes
            if request.alone:  # which of them was refused is only known so
                return [outcome for each in request.alone for outcome in await score(each)]
            missing: list[Outcome] = [Missing(outcomes.reason)]
            if outcomes.error is None:
                check(missing)
                return missing
            in_a_row += 1
            if in_a_row >= _MOST_IN_A_ROW:
                n = format_count(in_a_row, "comment")
                msg = f"{outcomes.error} This happened for {n} in a row."
                raise type(outcomes.error)(msg)
            return missing

        async def score_in_turn(request: Request) -> list[Outcome]:
            async with at_once:
                try:
                    return await score(request)
                except (InputError, CandidateStoppedError) as error:
                    error.args = (f"{error} {request.where}".rstrip(),)
                    raise

        # Not packed: an answer is short. A server that packs it all the same is understood.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        mounts = dict.fromkeys(("all://", "http://", "https://")) if self.direct else None
        async with httpx.AsyncClient(
            headers=headers | dict(self.headers),
            timeout=None,  # noqa: S113 - each try has one
            mounts=mounts,
            verify=self.url.startswith("https:"),  # reading the certificates takes time
        ) as client:
            try:
                async with asyncio.TaskGroup() as group:
                    posts = [group.create_task(score_in_turn(request)) for request in requests]
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
            await self.pace.wait_turn(request.n_tokens)
            wait = min(LONGEST_WAIT_S, WAIT_S * 2**number) * random.uniform(0.5, 1)  # noqa: S311
            fails_inside = is_limited = False
            try:
                async with asyncio.timeout(self.timeout_s):
                    response, answer = await self._try(client, body, most)
            except TimeoutError:
                failure = f"without a complete answer in {self.timeout_s:g} s (`timeout_s`)"
                continue
            except httpx.TransportError as error:
                failure = f"with {type(error).__name__}"
                continue
            meaning = self._meaning(response, answer, most, request.texts)
            if not isinstance(meaning, _Again):
                return meaning
            reason = _describe(response.status_code, meaning.sentence)
            failure = f"with {reason}"
            fails_inside = response.status_code == httpx.codes.INTERNAL_SERVER_ERROR
            wait = max(wait, min(_requested_wait(response), self.longest_wait_s))
            is_limited = response.status_code == _TOO_MANY
            if is_limited:
                self.pace.pause(wait)
        msg = f"{self.name} failed {format_count(self.tries, 'time')}, the last time {failure}."
        if is_limited:
            msg += " Set `requests_per_second` to the quota of your account."
        if fails_inside:  # a model may fail for one comment whenever it is asked
            return Refused(reason, CandidateStoppedError(msg))
        raise CandidateStoppedError(msg)

    def _meaning(
        self, response: httpx.Response, answer: bytes, most: int, texts: Sequence[str]
    ) -> Any:
        """Return the JSON of an answer, that the service refused it, or that it may pass later."""
        status = response.status_code
        is_good = status == httpx.codes.OK
        content, body = b"", None
        with suppress(*(() if is_good else (InputError,))):
            content = self._unpacked(response, answer, most)
        with suppress(ValueError, RecursionError):
            body = json.loads(content)
        sentence = "" if is_good and body is not None else extract_sentence(body, content, texts)
        rule = self.find_rule(status, body)
        if rule is None and is_good:
            if body is not None:
                return body
            msg = f"{self.name} must answer with JSON; it did not ({len(content)} bytes)."
            return Refused(_describe(status, sentence), InputError(msg))
        passes = status == _TOO_MANY or status >= httpx.codes.INTERNAL_SERVER_ERROR
        if rule.then == "retry" if rule else passes:
            return _Again(sentence)
        if rule is not None and rule.then == "missing":
            return Refused(rule.why)
        why = rule.why if rule else _WHY.get(status, "See the server's log.")
        if rule is None and response.has_redirect_location:
            why += " Redirects are not followed: they may lead to another host."
        error = InputError(f"{self.name} must answer 200; got {_describe(status, sentence)}. {why}")
        is_certain = rule is not None and rule.when is not None
        if status in _FATAL or status < httpx.codes.BAD_REQUEST or is_certain:
            raise error
        return Refused(_describe(status, sentence), error)

    def _read(
        self, answer: Any, texts: Sequence[str], read: Callable[[Any, int], list[Outcome]]
    ) -> list[Outcome] | Refused:
        """Return the outcomes that an answer gives, or that it has no score."""
        try:
            outcomes = read(answer, len(texts))
        except MisreadError:
            raise
        except InputError as error:
            sentence = extract_sentence(answer, b"", texts)
            return Refused(_describe(httpx.codes.OK, sentence), error)
        if any(isinstance(each, float) and not math.isfinite(each) for each in outcomes):
            msg = f"{self.name} must answer with finite scores; it did not."
            return Refused(_describe(httpx.codes.OK, ""), InputError(msg))
        return outcomes

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
        msg = f"{self.name} must answer uncompressed, or in gzip; it did not."
        raise InputError(msg)

    def _refuse_longer(self, answer: bytes | bytearray, most: int) -> None:
        if len(answer) > most:
            msg = f"{self.name} must answer at most {most} bytes; it sent more."
            raise InputError(msg)


def _describe(status: int, sentence: str) -> str:
    """Return what a service answered instead of a score."""
    return f"{ANSWERED}{status} ({sentence})" if sentence else f"{ANSWERED}{status}"


def _requested_wait(response: httpx.Response) -> float:
    """Return the seconds to wait as the server asked, by number or by date."""
    requested = response.headers.get("Retry-After", "")
    if requested.isdecimal():
        return float(requested)
    until = _date(requested)
    if until is None:
        return 0.0
    # By the server's own clock, if it tells the time.
    now = _date(response.headers.get("Date", "")) or datetime.now(UTC)
    return max((until - now).total_seconds(), 0.0)


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


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
        msg = (
            "must not contain user, password or query, since reports show it; use `token_env` "
            "(`secret: {query: NAME}` for a key in the address)"
        )
        raise ValueError(msg)
    return url


def host_of(url: str) -> str:
    """Return the host of a URL, in lower case."""
    return httpx.URL(url).host


def is_loopback(url: str) -> bool:
    """Whether a URL is this machine's own."""
    host = host_of(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def refuse_unnamed_host(url: str, named: str | None, sender: str) -> None:
    """Refuse to send comments to a host that the configuration does not name."""
    host = host_of(url)
    if named is not None and named.strip("[]").lower() != host:
        msg = f"`sends_text_to` of {sender} must be the host of its `url`, {host}; got {named}."
        raise InputError(msg)
    if named is None and not is_loopback(url):
        msg = (
            f"{sender} sends the comments to {host}, another machine. If that is allowed, add "
            f"`sends_text_to: {host}` to the candidate."
        )
        raise InputError(msg)
