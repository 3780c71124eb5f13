"""Candidate kind `http`: a served model with the protocol of its preset."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import httpx
import pyarrow as pa
from pydantic import AfterValidator, Field, model_validator

from biasgate.tasks.common.errors import InputError, format_column_names, format_id, format_place
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.secrets import register_secret
from biasgate.tasks.scoring.candidate import CandidateSettings, Version
from biasgate.tasks.scoring.http.judge import Judge
from biasgate.tasks.scoring.http.pace import estimate_tokens, get_pace
from biasgate.tasks.scoring.http.parts import (
    Combine,
    HeaderName,
    HeaderValue,
    Limits,
    Positive,
    Price,
    Secret,
)
from biasgate.tasks.scoring.http.preset import Option, Preset, Protocol, Reader, read_preset
from biasgate.tasks.scoring.http.templates import fill, list_placeholders
from biasgate.tasks.scoring.kinds.http_requests import (
    Request,
    Requests,
    check_url,
    get_host,
    is_loopback,
    refuse_unnamed_host,
)
from biasgate.tasks.scoring.kinds.model_answers import extract_scores
from biasgate.tasks.scoring.outcomes import (
    TOO_LONG,
    Load,
    Missing,
    Outcome,
    PartlyScored,
    describe_reasons,
)
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.store import Workplace

MLFLOW, CUSTOM = "mlflow", "custom"
# Scores that a killed run loses cost time or money if a service has limits.
_ROWS_A_SHARD = 500
# Before the first score, this many answers without a score are unlikely, even if only a tenth of
# the comments get a score.
_MAX_WITHOUT_SCORE = 50


class HttpEndpoint(Judge, CandidateSettings):
    """A served model, called in batches."""

    kind: Literal["http"]
    preset: str = MLFLOW
    """Name of the preset with the form of requests and answers, or `custom`."""
    protocol: Protocol | None = None
    """For `preset: custom`: the form of requests and answers."""
    url: Annotated[str, AfterValidator(check_url)]
    """The full URL, as in `http://127.0.0.1:5000/invocations`, without user, password or query,
    since reports show it. Default: the preset's."""
    sends_text_to: str | None = None
    """The host of the URL, as consent to send comments to it. Not needed for a loopback address.
    Redirects are not followed."""
    options: dict[str, Option] = Field(default_factory=dict)
    """Values for the preset's options."""
    version: Version
    """Version of the served model. Scores are reused while it stays the same. Without a version
    they are never reused."""
    categories: tuple[str, ...] = ()
    """Categories of the score. Default: the preset's."""
    combine: Combine | None = None
    """Method to combine several categories: the largest (`max`), or 1 minus the product of 1 - p
    (`noisy_or`). Default: the preset's."""
    column: str | None = None
    """For MLflow: name of the text column, if the model takes a table. Default: an array."""
    output: str | None = None
    """For MLflow: the column of the score, if the model returns a table."""
    label: str | None = None
    """For MLflow: the toxic label of the two, if the model returns the winning label and its
    score."""
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
    """Further headers, as in `{From: team@example.org}`. Reports show them: a
    secret belongs in `token_env`."""
    token_env: str | None = None
    """Environment variable with the secret, which is never shown. Default: the preset's, if the
    URL is the preset's."""
    secret: Secret | None = None
    """Place of the secret in requests, as in `{header: X-API-Key}` or `{query: key}`. Default: the
    preset's."""
    batch_size: Annotated[int, Field(ge=1)] = 64
    """Texts in a request."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """Parallel requests."""
    requests_per_second: Positive | None = None
    """Limit, kept by spacing requests. It applies to each process: on a cluster, divide it.
    Default: the published limit; none on a loopback address."""
    tokens_per_second: Positive | None = None
    """The same for tokens, estimated as a third of the bytes."""
    price: Price | None = None
    """Price of the service, as in `{usd: 0.5, unit: request}`. Default: the published price."""
    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Seconds for a try of a request, from the connection to the last byte of the answer."""
    tries: Annotated[int, Field(ge=1)] = 6
    """Most tries of a request if the answer is 429, 5xx or missing. The wait doubles from half a
    second to 30 seconds. `Retry-After` is respected up to 30 seconds, or up to two minutes if the
    preset allows that."""

    @model_validator(mode="before")
    @classmethod
    def _add_defaults(cls, value: Any) -> Any:
        """Add the preset's values for missing keys."""
        if not isinstance(value, dict):
            return value
        name = value.get("preset", MLFLOW)
        if name == CUSTOM or not isinstance(name, str):
            return {"batch_size": 1} | value if name == CUSTOM else value
        preset = read_preset(name)
        defaults: dict[str, Any] = {"batch_size": preset.limits.texts}
        if preset.url is not None:
            defaults["url"] = preset.url
        if preset.limits.requests_per_second or preset.price:
            defaults["rows_a_shard"] = _ROWS_A_SHARD
        return defaults | value

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        if (self.protocol is None) == (self.preset == CUSTOM):
            msg = "`protocol` must be given for `preset: custom`, and only then"
            raise ValueError(msg)
        preset = self.used_protocol
        for key in ("column", "output", "label"):
            if preset.reads != "predictions" and getattr(self, key) is not None:
                msg = f"`{key}` is only for MLflow models, not for preset {self.preset}"
                raise ValueError(msg)
        headers = {name.lower() for name in self.headers}
        if "content-type" in headers:
            msg = "`headers` must not set content-type: the preset does"
            raise ValueError(msg)
        place = self.secret_place
        if place.query is None and place.header.lower() in headers:
            msg = f"`headers` must not set {place.header}: it holds the secret of `token_env`"
            raise ValueError(msg)
        if place.query in preset.query:
            msg = f"`secret` must not set {place.query} of the address: the preset does"
            raise ValueError(msg)
        self._check_options(preset)
        self._check_judge_options(preset)
        if self.batch_size > preset.limits.texts and preset.reads != "predictions":
            msg = (
                f"`batch_size` must be at most {preset.limits.texts} for preset {self.preset}; "
                f"got {self.batch_size}"
            )
            if self.preset == CUSTOM:
                limits = f"`limits: {{texts: {self.batch_size}}}`"
                msg += f". If the service accepts this many, write {limits} in `protocol`"
            raise ValueError(msg)
        return self

    def _check_options(self, preset: Protocol) -> None:
        unknown = sorted(set(self.options) - set(preset.options))
        if unknown:
            known = ", ".join(preset.options) or "none"
            msg = (
                f"`options` must be options of preset {self.preset}; got {unknown[0]} "
                f"(known: {known})"
            )
            raise ValueError(msg)
        for name, value in self.filled_options.items():
            if value is None:
                msg = f"`options` must have `{name}` for preset {self.preset}"
                raise ValueError(msg)
        if preset.needs_categories and not self.categories:
            msg = (
                f"`categories` must name the toxic label, or labels, for preset {self.preset}, as "
                "in `categories: [toxic]`"
            )
            raise ValueError(msg)

    def _check_judge_options(self, preset: Protocol) -> None:
        if not preset.is_judge:
            judge_options = set(Judge.model_fields) & self.model_fields_set
            if judge_options:
                msg = f"`{min(judge_options)}` is for judges; preset {self.preset} is not a judge"
                raise ValueError(msg)
            return
        self.check_judge()
        if self.categories:
            msg = f"`categories` is not for judges; preset {self.preset} is a judge"
            raise ValueError(msg)
        if "prompt" in set(list_placeholders(preset.request)) and not isinstance(self.prompt, str):
            msg = f"`prompt` must be a text for preset {self.preset}, which takes no messages"
            raise ValueError(msg)

    @property
    def used_protocol(self) -> Protocol:
        """The preset, or the candidate's own protocol."""
        return self.protocol if self.protocol is not None else read_preset(self.preset)

    @property
    def secret_place(self) -> Secret:
        """Place of the secret in requests."""
        return self.secret or self.used_protocol.secret

    @property
    def has_published_limits(self) -> bool:
        """True if the limits and prices of the preset apply to this URL."""
        published = getattr(self.used_protocol, "url", None)
        is_elsewhere = published is not None and get_host(published) != get_host(self.url)
        return not is_elsewhere and not is_loopback(self.url)

    @property
    def filled_options(self) -> dict[str, Option]:
        """The preset's options, with the candidate's values."""
        return self.used_protocol.options | self.options

    @property
    def has_score_levels(self) -> bool:
        """True if the scores may have as few as two values."""
        in_levels = self.used_protocol.is_judge and self.score_as == "level"
        return in_levels or self.allow_two_valued

    @property
    def digest(self) -> str:
        """SHA-256 of everything that affects the scores."""
        headers = [self.headers] if self.headers else []
        if self.preset == MLFLOW:
            columns = [self.column, self.output, self.label]
            return json_digest(["http", self.url, self.version, *columns, *headers])
        judge_options = self.model_dump(mode="json", include=set(Judge.model_fields))
        judge = [judge_options] if self.used_protocol.is_judge else []
        return json_digest(
            [
                *["http", self.preset, self.used_protocol.digest, self.url, self.version],
                *[self.filled_options, self.categories, self.combine, *judge],
                *headers,
            ]
        )

    def read_secret(self) -> str | None:
        """Return the secret, hidden in all messages; None without a secret."""
        preset, variable = self.used_protocol, self.token_env
        if variable is None and isinstance(preset, Preset) and self.url == preset.url:
            variable = preset.token_env
        if not variable:
            return None
        secret = os.environ.get(variable, "").strip()
        rule = f"environment variable {variable} must hold the token of candidate {self.name!r}"
        if not secret:
            msg = f"{rule}; it is not set."
            raise InputError(msg)
        register_secret(variable, secret)
        if not secret.isascii() or not secret.isprintable():
            msg = (
                f"{rule}: visible ASCII characters on a single line. It holds others; check that "
                "only the token was copied."
            )
            raise InputError(msg)
        return secret

    def check(self) -> None:
        """Refuse a host that is not named, and a missing secret."""
        refuse_unnamed_host(self.url, self.sends_text_to, f"candidate {self.name!r}")
        self.read_secret()

    def open(self, workplace: Workplace) -> EndpointScorer:
        """Check the settings; the first `score` connects."""
        del workplace
        self.check()
        return EndpointScorer(self)


EMPTY = "empty"


class EndpointScorer(Scorer):
    """A client of the endpoint."""

    def __init__(self, settings: HttpEndpoint) -> None:
        self._settings, self._preset = settings, settings.used_protocol
        self.not_bound = (
            "The model behind the endpoint is not recorded, only its URL and `version`."
        )
        self.digest = settings.digest
        self._name = f"endpoint {settings.url} of candidate {settings.name!r}"
        self._judge = settings if self._preset.is_judge else None
        # Published limits and prices do not apply to another server.
        is_published = settings.has_published_limits
        limits = self._preset.limits if is_published else Limits()
        self._price = settings.price or (self._preset.price if is_published else None)
        requests_per_second = settings.requests_per_second or limits.requests_per_second
        tokens_per_second = settings.tokens_per_second or limits.tokens_per_second
        self._pace = get_pace(settings.url, requests_per_second, tokens_per_second)
        is_service = self._preset.price or self._preset.limits.requests_per_second
        is_limited = bool(requests_per_second or tokens_per_second or self._price or is_service)
        self.is_metered = not is_loopback(settings.url) and is_limited
        self._reasons = Counter[str]()
        self._has_scores = False
        self._reader = Reader(
            self._preset,
            settings.filled_options,
            settings.categories or self._preset.categories,
            settings.combine or self._preset.combine,
            self._judge,
            self._name,
        )

    def score(self, rows: pa.RecordBatch) -> PartlyScored:
        """Request all batches, a few in parallel; stop at the first failure.

        A comment that the service refuses gets no score.
        """
        texts, ids = rows.column("text").to_pylist(), rows.column("id").to_pylist()
        outcomes: dict[int, Outcome] = {}
        for row, text in enumerate(texts):
            if (reason := self._find_obstacle(text)) is not None:
                outcomes[row] = Missing(reason)
        sent = [row for row in range(len(texts)) if row not in outcomes]
        batches = self._split_batches(sent)

        def make_request(batch: list[int]) -> Request:
            singles = [make_request([row]) for row in batch] if len(batch) > 1 else []
            place = format_place(id=ids[batch[0]])
            if len(batch) > 1:
                place = f"(ids {format_id(ids[batch[0]])} to {format_id(ids[batch[-1]])})"
            request = self._make_request([texts[row] for row in batch])
            return replace(request, place=place, singles=singles)

        answers = self._requests.post(
            [make_request(batch) for batch in batches], self._read_outcomes, self._refuse_silent
        )
        for batch, answer in zip(batches, answers, strict=True):
            outcomes.update(zip(batch, answer, strict=True))
        if self._judge is not None:
            self._judge.refuse_unusable([outcomes[row] for row in sent], self._name)
        return PartlyScored.from_outcomes([outcomes[row] for row in range(len(texts))])

    def _split_batches(self, items: list[Any]) -> list[list[Any]]:
        size = self._settings.batch_size
        return [items[start : start + size] for start in range(0, len(items), size)]

    def _refuse_silent(self, outcomes: Sequence[Outcome]) -> None:
        """Refuse a service if all its first answers lack a score for expected reasons."""
        reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, Missing)]
        self._has_scores = self._has_scores or len(reasons) < len(outcomes)
        self._reasons.update(reasons)
        n_answers = self._reasons.total()
        if self._has_scores or n_answers < _MAX_WITHOUT_SCORE:
            return
        categories = (
            f"; its categories: {format_column_names(self._reader.first_categories)}"
            if self._reader.first_categories
            else ""
        )
        key = "categories" if self._judge is None else "prompt"
        msg = (
            f"{self._name} must give scores; its first {n_answers} answers have none "
            f"({describe_reasons(self._reasons)}{categories}). Check `{key}` and `options`. If it "
            "has scores for other comments, mix the rows of the evaluation set."
        )
        raise InputError(msg)

    def _find_obstacle(self, text: str) -> str | None:
        """Return the reason not to send a text; None if it is sent."""
        limits = self._preset.limits
        if not limits.empty and not text.strip():
            return EMPTY
        too_long = limits.characters is not None and len(text) > limits.characters
        if limits.bytes is not None:
            too_long = too_long or len(text.encode("utf-8", "replace")) > limits.bytes
        return TOO_LONG if too_long else None

    def estimate_load(self, texts: Sequence[str]) -> Load:
        """Estimate the load of scoring texts."""
        sent = [text for text in texts if self._find_obstacle(text) is None]
        batches, price, usd = self._split_batches(sent), self._price, None
        if price is not None:
            usd = price.compute_cost(sent, len(batches), self._estimate_tokens)
        n_tokens = sum(self._estimate_tokens(batch) for batch in batches)
        seconds = self._pace.estimate_seconds(len(batches), n_tokens)
        return Load(get_host(self._settings.url), len(batches), n_tokens, seconds, usd)

    def _make_request(self, texts: list[str]) -> Request:
        settings, preset = self._settings, self._preset
        rows = [[text] for text in texts]
        if settings.column is not None:
            table = fill(preset.table, {"column": settings.column, "rows": rows})
            return Request(table, texts=texts)
        values: dict[str, Any] = {
            **settings.filled_options,
            "text": texts[0],
            "texts": texts,
            "rows": rows,
            "n": len(texts),
            "categories": list(settings.categories or preset.categories),
        }
        n_tokens = self._estimate_tokens(texts)
        if self._judge is None:
            return Request(fill(preset.request, values), n_tokens, texts=texts)
        by_probability, prompt = settings.score_as == "probability", settings.prompt
        is_text = isinstance(prompt, str)
        messages = [{"role": "user", "content": prompt}] if is_text else prompt
        values |= {
            "max_tokens": settings.max_tokens,
            "logprobs": True if by_probability else None,
            "effort": settings.effort,
            "messages": fill(messages, {"text": texts[0]}),
            "prompt": fill(prompt, {"text": texts[0]}) if is_text else None,
        }
        if not by_probability:
            values["top_logprobs"] = None
        filled = fill(preset.request, values)
        body = {key: value for key, value in filled.items() if value is not None}
        return Request(body, n_tokens, texts=texts)

    def _estimate_tokens(self, texts: list[str]) -> int:
        n_prompt = estimate_tokens(str(self._judge.prompt)) if self._judge is not None else 0
        return n_prompt + sum(estimate_tokens(text) for text in texts)

    @cached_property
    def _requests(self) -> Requests:
        settings, preset = self._settings, self._preset
        secret, options = settings.read_secret(), settings.filled_options
        headers = {"Content-Type": preset.content_type, **fill(preset.headers, options)}
        headers |= settings.headers
        if preset.content_type.startswith("text/"):
            headers["Content-Type"] += "; charset=utf-8"
        place, query = settings.secret_place, fill(preset.query, options)
        if secret and place.query is not None:
            query[place.query] = secret
        elif secret:
            headers[place.header] = str(fill(place.template, {"secret": secret}))
        url = httpx.URL(settings.url, params=query or None)
        return Requests(
            str(url),
            self._name,
            settings.timeout_s,
            settings.tries,
            settings.concurrency,
            headers,
            self._pace,
            self._reader.find_rule,
            preset.limits.longest_wait_s,
            direct=is_loopback(settings.url),
        )

    def _read_outcomes(self, answer: Any, n_texts: int) -> list[Outcome]:
        if self._preset.reads != "predictions":
            return self._reader.read_outcomes(answer, n_texts)
        if not isinstance(answer, dict) or "predictions" not in answer:
            msg = f"{self._name} must answer with `predictions`; it did not."
            raise InputError(msg)
        options = {"output": self._settings.output, "label": self._settings.label}
        scores = extract_scores(answer["predictions"], self._name, **options)
        if len(scores) != n_texts:
            msg = (
                f"{self._name} must return as many scores as texts; got {len(scores)} for "
                f"{n_texts}."
            )
            raise InputError(msg)
        return list(scores.tolist())
