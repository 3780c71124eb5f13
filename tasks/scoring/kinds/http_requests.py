"""Requests to a served model: retries with back-off, and errors without texts.

An endpoint may be broken or hostile. Each try has a deadline for everything from the connection to
the last byte. The size of an answer is limited, both compressed and unpacked.
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

ReadOutcomes = Callable[[Any, int], list[Outcome]]
CheckOutcomes = Callable[[Sequence[Outcome]], None]
WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
_MIB = 2**20
# An answer of a few numbers per text is shorter than its request, unless the texts are very short.
_MAX_BYTES, _MAX_RATIO = 64 * _MIB, 100
_TOO_MANY = 429
_GZIP = 31  # the format, for zlib
# So many unusable answers in a row are not due to the comments.
_MAX_IN_A_ROW = 20
# Errors of the address, the key or the account, whatever the comment.
_FATAL = frozenset({401, 402, 403, 404, 405, 407})
_KEY = "Check the key or token in `token_env`."
_REMEDIES = {401: _KEY, 403: _KEY, 404: "Check `url`: the server did not find its path."}


def _hide_query(record: logging.LogRecord) -> bool:
    """Remove the query of an address, which may contain a secret, from the log."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg.copy_with(query=None) if isinstance(arg, httpx.URL) else arg for arg in record.args
        )
    return True


logging.getLogger("httpx").addFilter(_hide_query)


@dataclass(frozen=True)
class _Retry:
    """A request that may succeed later, with the service's own sentence or an empty text."""

    sentence: str


@dataclass(frozen=True)
class Refused:
    """A request that the service will never answer with scores."""

    reason: str
    error: InputError | CandidateStoppedError | None = None
    """The error to raise if this happens to many comments in a row; None if a rule expects it."""


@dataclass(frozen=True)
class Request:
    """A request for the scores of some comments."""

    content: Any
    """JSON, or text if that is the content type."""
    n_tokens: int = 0
    """Estimated number of tokens."""
    place: str = ""
    """Place of the comments in the set, for messages."""
    texts: Sequence[str] = ()
    """The comments, which messages may not quote."""
    singles: Sequence[Request] = ()
    """Requests for single comments, to be sent if the comments are refused together."""


@dataclass(frozen=True)
class Requests:
    """A client of a URL."""

    url: str = field(repr=False)
    """With a query, which may contain the secret."""
    name: str
    """The endpoint, for messages."""
    timeout_s: float
    """Seconds for a try: connection, request and answer, up to the last byte."""
    tries: int
    """Most tries."""
    connections: int
    """Most parallel requests."""
    headers: Mapping[str, str] = field(repr=False)
    """Headers of requests, which may contain the secret."""
    pace: Pace
    find_rule: Callable[[int, Any], AnswerRule | None]
    """Function that returns the rule for the status and JSON of an answer, if a rule fits."""
    longest_wait_s: float
    """Longest wait between tries."""
    direct: bool
    """True to ignore a proxy that the environment names."""

    def post(
        self, requests: Sequence[Request], read: ReadOutcomes, check: CheckOutcomes
    ) -> list[list[Outcome]]:
        """Send all requests, a few in parallel; stop at the first failure.

        `read` turns the JSON of an answer and its number of comments into outcomes. A comment that
        the service refuses gets no score. Twenty answers in a row that neither a rule nor `read`
        can interpret are a failure. `check` gets all other outcomes, and may raise an error.
        """
        if not requests:
            return []
        with start_blocking_portal() as portal:  # a loop may already run in this thread
            return portal.call(self._post_all, requests, read, check)

    async def _post_all(
        self, requests: Sequence[Request], read: ReadOutcomes, check: CheckOutcomes
    ) -> list[list[Outcome]]:
        connections = asyncio.Semaphore(self.connections)
        n_unusable = 0

        async def score(request: Request) -> list[Outcome]:
            nonlocal n_unusable
            answer = await self._post(client, request)
            is_refused = isinstance(answer, Refused)
            outcomes = answer if is_refused else self._read(answer, request.texts, read)
            if not isinstance(outcomes, Refused):
                n_unusable = 0
                check(outcomes)
                return outcomes
            if request.singles:  # finds the comment that was refused
                return [outcome for single in request.singles for outcome in await score(single)]
            missing: list[Outcome] = [Missing(outcomes.reason)]
            if outcomes.error is None:
                check(missing)
                return missing
            n_unusable += 1
            if n_unusable >= _MAX_IN_A_ROW:
                n = format_count(n_unusable, "comment")
                msg = f"{outcomes.error} This happened for {n} in a row."
                raise type(outcomes.error)(msg)
            return missing

        async def score_in_turn(request: Request) -> list[Outcome]:
            async with connections:
                try:
                    return await score(request)
                except (InputError, CandidateStoppedError) as error:
                    error.args = (f"{error} {request.place}".rstrip(),)
                    raise

        # Requested uncompressed, since an answer is short. Gzip is read, too.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        mounts = dict.fromkeys(("all://", "http://", "https://")) if self.direct else None
        async with httpx.AsyncClient(
            headers=headers | dict(self.headers),
            timeout=None,  # noqa: S113 - each try has a timeout
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
        max_bytes = min(_MAX_BYTES, _MIB + _MAX_RATIO * len(body))
        for number in range(self.tries):
            await sleep(wait)
            await self.pace.wait_turn(request.n_tokens)
            wait = min(LONGEST_WAIT_S, WAIT_S * 2**number) * random.uniform(0.5, 1)  # noqa: S311
            is_internal = is_limited = False
            try:
                async with asyncio.timeout(self.timeout_s):
                    response, answer = await self._send(client, body, max_bytes)
            except TimeoutError:
                failure = f"without a complete answer in {self.timeout_s:g} s (`timeout_s`)"
                continue
            except httpx.TransportError as error:
                failure = f"with {type(error).__name__}"
                continue
            result = self._interpret(response, answer, max_bytes, request.texts)
            if not isinstance(result, _Retry):
                return result
            reason = _describe(response.status_code, result.sentence)
            failure = f"with {reason}"
            is_internal = response.status_code == httpx.codes.INTERNAL_SERVER_ERROR
            wait = max(wait, min(_read_wait(response), self.longest_wait_s))
            is_limited = response.status_code == _TOO_MANY
            if is_limited:
                self.pace.pause(wait)
        msg = f"{self.name} failed {format_count(self.tries, 'time')}, the last time {failure}."
        if is_limited:
            msg += " Set `requests_per_second` to the quota of your account."
        if is_internal:  # a model may fail for a certain comment at every try
            return Refused(reason, CandidateStoppedError(msg))
        raise CandidateStoppedError(msg)

    def _interpret(
        self, response: httpx.Response, answer: bytes, max_bytes: int, texts: Sequence[str]
    ) -> Any:
        """Return the JSON of an answer, `Refused` or `_Retry`."""
        status = response.status_code
        is_ok = status == httpx.codes.OK
        content, body = b"", None
        with suppress(*(() if is_ok else (InputError,))):
            content = self._unpack(response, answer, max_bytes)
        with suppress(ValueError, RecursionError):
            body = json.loads(content)
        sentence = "" if is_ok and body is not None else extract_sentence(body, content, texts)
        rule = self.find_rule(status, body)
        if rule is None and is_ok:
            if body is not None:
                return body
            msg = f"{self.name} must answer with JSON; it did not ({len(content)} bytes)."
            return Refused(_describe(status, sentence), InputError(msg))
        is_temporary = status == _TOO_MANY or status >= httpx.codes.INTERNAL_SERVER_ERROR
        if rule.then == "retry" if rule else is_temporary:
            return _Retry(sentence)
        if rule is not None and rule.then == "missing":
            return Refused(rule.why)
        remedy = rule.why if rule else _REMEDIES.get(status, "See the server's log.")
        if rule is None and response.has_redirect_location:
            remedy += " Redirects are not followed: they may lead to another host."
        error = InputError(
            f"{self.name} must answer 200; got {_describe(status, sentence)}. {remedy}"
        )
        is_certain = rule is not None and rule.when is not None
        if status in _FATAL or status < httpx.codes.BAD_REQUEST or is_certain:
            raise error
        return Refused(_describe(status, sentence), error)

    def _read(
        self, answer: Any, texts: Sequence[str], read: ReadOutcomes
    ) -> list[Outcome] | Refused:
        """Return the outcomes of an answer, or `Refused` if `read` fails."""
        try:
            outcomes = read(answer, len(texts))
        except MisreadError:
            raise
        except InputError as error:
            sentence = extract_sentence(answer, b"", texts)
            return Refused(_describe(httpx.codes.OK, sentence), error)
        if any(isinstance(score, float) and not math.isfinite(score) for score in outcomes):
            msg = f"{self.name} must answer with finite scores; it did not."
            return Refused(_describe(httpx.codes.OK, ""), InputError(msg))
        return outcomes

    async def _send(
        self, client: httpx.AsyncClient, body: bytes, max_bytes: int
    ) -> tuple[httpx.Response, bytes]:
        """Return the response, and its body as it was sent."""
        async with client.stream("POST", self.url, content=body) as response:
            answer = bytearray()
            async for chunk in response.aiter_raw():
                answer += chunk
                self._refuse_longer(answer, max_bytes)
            return response, bytes(answer)

    def _unpack(self, response: httpx.Response, answer: bytes, max_bytes: int) -> bytes:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding == "identity":
            return answer
        if encoding == "gzip":
            with suppress(zlib.error):
                # Not by httpx, which unpacks chunks of any size.
                content = zlib.decompressobj(wbits=_GZIP).decompress(answer, max_bytes + 1)
                self._refuse_longer(content, max_bytes)
                return content
        msg = f"{self.name} must answer uncompressed, or in gzip; it did not."
        raise InputError(msg)

    def _refuse_longer(self, answer: bytes | bytearray, max_bytes: int) -> None:
        if len(answer) > max_bytes:
            msg = f"{self.name} must answer at most {max_bytes} bytes; it sent more."
            raise InputError(msg)


def _describe(status: int, sentence: str) -> str:
    """Return a reason for a missing score: the status of an answer, with its sentence."""
    return f"{ANSWERED}{status} ({sentence})" if sentence else f"{ANSWERED}{status}"


def _read_wait(response: httpx.Response) -> float:
    """Return the seconds to wait that the server requests, as a number or a date."""
    requested = response.headers.get("Retry-After", "")
    if requested.isdecimal():
        return float(requested)
    until = _parse_date(requested)
    if until is None:
        return 0.0
    # By the server's own clock, if the answer has its time.
    now = _parse_date(response.headers.get("Date", "")) or datetime.now(UTC)
    return max((until - now).total_seconds(), 0.0)


def _parse_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def check_url(url: str) -> str:
    """Refuse a URL that reports may not show."""
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


def get_host(url: str) -> str:
    """Return the host of a URL, in lower case."""
    return httpx.URL(url).host


def is_loopback(url: str) -> bool:
    """Return True if a URL is this machine's own."""
    host = get_host(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def refuse_unnamed_host(url: str, sends_text_to: str | None, sender: str) -> None:
    """Refuse to send comments to a host that the configuration does not name."""
    host = get_host(url)
    if sends_text_to is not None and sends_text_to.strip("[]").lower() != host:
        rule = f"`sends_text_to` of {sender} must be the host of its `url`, {host}"
        msg = f"{rule}; got {sends_text_to}."
        raise InputError(msg)
    if sends_text_to is None and not is_loopback(url):
        msg = (
            f"{sender} sends the comments to {host}, another machine. If that is allowed, add "
            f"`sends_text_to: {host}` to the candidate."
        )
        raise InputError(msg)
