"""Scores of a served model: comments in requests, answers to scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pyarrow as pa

from biasgate.tasks.common.errors import InputError, place, shown_id
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.asking.guard import Guard
from biasgate.tasks.scoring.asking.templates import fill
from biasgate.tasks.scoring.http.answers import Reader
from biasgate.tasks.scoring.http.hosts import host_of, is_loopback
from biasgate.tasks.scoring.http.pace import Pace, estimated_tokens, pace_of
from biasgate.tasks.scoring.http.parts import Limits, Price
from biasgate.tasks.scoring.kinds.http_requests import Refused, Request, Requests
from biasgate.tasks.scoring.kinds.model_answers import positive_scores
from biasgate.tasks.scoring.outcomes import Load, Missing, Outcome, PartlyScored
from biasgate.tasks.scoring.scorer import Scorer

if TYPE_CHECKING:
    from biasgate.tasks.scoring.kinds.http_endpoint import HttpEndpoint

EMPTY, TOO_LONG = "empty", "too_long"


class EndpointScorer(Scorer):
    """The endpoint."""

    def __init__(self, settings: HttpEndpoint) -> None:
        self._settings, self._preset = settings, settings.used
        self.not_bound = (
            "The model behind the endpoint is not recorded, only its URL and `version`."
        )
        self.digest = settings.digest
        self._of = f"endpoint {settings.url} of candidate {settings.name!r}"

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set without text."""
        self._settings.require_text(evaluation_set)

    def score(self, rows: pa.RecordBatch) -> np.ndarray | PartlyScored:
        """Request all batches, a few in parallel; stop at the first failure."""
        texts, ids = rows.column("text").to_pylist(), rows.column("id").to_pylist()
        outcomes: dict[int, Outcome] = {}
        for at, text in enumerate(texts):
            if (reason := self.unsendable(text)) is not None:
                outcomes[at] = Missing(reason)
        places = [at for at in range(len(texts)) if at not in outcomes]
        size = self._settings.batch_size
        batches = [places[start : start + size] for start in range(0, len(places), size)]
        refused = self._ask(batches, texts, ids, outcomes)
        # Which text of a batch the service refused is only known if each is asked alone.
        alone = [[at] for batch in refused if len(batch) > 1 for at in batch]
        self._ask(alone, texts, ids, outcomes)
        if self._guard is not None:
            self._guard.refuse_other_model([outcomes[at] for at in places], self._of)
        found = PartlyScored.of([outcomes[at] for at in range(len(texts))])
        return found if self._preset.may_miss else found.scores

    def unsendable(self, text: str) -> str | None:
        """Return why a text is not sent; None if it is."""
        limits = self._preset.limits
        if not limits.empty and not text.strip():
            return EMPTY
        too_long = limits.characters is not None and len(text) > limits.characters
        if limits.bytes is not None:
            too_long = too_long or len(text.encode("utf-8", "replace")) > limits.bytes
        return TOO_LONG if too_long else None

    @property
    def is_metered(self) -> bool:  # type: ignore[override] # read-only here
        """Whether the service is elsewhere and has a price or limits."""
        limited = self._pace.requests_per_second or self._pace.tokens_per_second
        return not is_loopback(self._settings.url) and bool(limited or self._price)

    def load_of(self, texts: Sequence[str]) -> Load:
        """Return what it takes to score texts."""
        host = host_of(self._settings.url)
        sent = [text for text in texts if self.unsendable(text) is None]
        size = self._settings.batch_size
        batches = [sent[start : start + size] for start in range(0, len(sent), size)]
        n_tokens = sum(self.tokens(batch) for batch in batches)
        usd = None if self._price is None else self._price.of(sent, len(batches), self.tokens)
        seconds = self._pace.seconds(len(batches), n_tokens)
        return Load(host, len(batches), n_tokens, seconds, usd)

    def _ask(
        self,
        batches: list[list[int]],
        texts: list[str],
        ids: list[object],
        outcomes: dict[int, Outcome],
    ) -> list[list[int]]:
        """Add the outcomes of batches; return those that the service refused."""
        asked = [
            replace(
                self._request([texts[at] for at in batch]), where=_where([ids[at] for at in batch])
            )
            for batch in batches
        ]
        answers = self._requests.post(
            asked, lambda answer, number: self._outcomes(answer, len(batches[number]))
        )
        refused = []
        for batch, answer in zip(batches, answers, strict=True):
            if isinstance(answer, Refused):
                refused.append(batch)
                outcomes.update((at, Missing(answer.reason)) for at in batch)
            else:
                outcomes.update(zip(batch, answer, strict=True))
        return refused

    def _request(self, texts: list[str]) -> Request:
        one, preset = self._settings, self._preset
        rows = [[text] for text in texts]
        if one.column is not None:
            return Request(fill(preset.table, {"column": one.column, "rows": rows}))
        values: dict[str, Any] = {
            **one.filled_options,
            "text": texts[0],
            "texts": texts,
            "rows": rows,
            "n": len(texts),
            "categories": list(one.categories or preset.categories),
        }
        asked = self._guard
        if asked is None:
            return Request(fill(preset.request, values), self.tokens(texts))
        by_probability = asked.score_as == "probability"
        values |= {
            "max_tokens": asked.max_tokens,
            "logprobs": True if by_probability else None,
            "template": asked.filled_template,
            "effort": asked.effort,
            "messages": asked.messages(texts[0]),
            "prompt": asked.plain_prompt(texts[0]) if isinstance(asked.prompt, str) else None,
        }
        if not by_probability:
            values["top_logprobs"] = None
        body = {key: one for key, one in fill(preset.request, values).items() if one is not None}
        return Request(body, self.tokens(texts))

    def tokens(self, texts: list[str]) -> int:
        """Return about how many tokens a request with these texts has."""
        prompt = estimated_tokens(str(self._guard.prompt)) if self._guard is not None else 0
        return prompt + sum(estimated_tokens(text) for text in texts)

    @cached_property
    def _guard(self) -> Guard | None:
        return self._settings.asked if self._preset.is_judge else None

    @cached_property
    def _reader(self) -> Reader:
        one = self._settings
        return Reader(
            self._preset,
            one.filled_options,
            one.categories or self._preset.categories,
            one.combine or self._preset.combine,
            self._guard,
            self._of,
        )

    @cached_property
    def _pace(self) -> Pace:
        one = self._settings
        # What a service publishes does not hold for another server, on this machine.
        limits = Limits() if is_loopback(one.url) else self._preset.limits
        return pace_of(
            one.url,
            one.requests_per_second or limits.requests_per_second,
            one.tokens_per_second or limits.tokens_per_second,
        )

    @property
    def _price(self) -> Price | None:
        return self._settings.price or self._preset.price

    @cached_property
    def _requests(self) -> Requests:
        one, preset, limits = self._settings, self._preset, self._preset.limits
        secret, options = one.secret(), one.filled_options
        headers = {"Content-Type": preset.content_type, **fill(preset.headers, options)}
        if preset.content_type.startswith("text/"):
            headers["Content-Type"] += "; charset=utf-8"
        if secret:
            headers[preset.secret.header] = str(fill(preset.secret.value, {"secret": secret}))
        url = httpx.URL(one.url, params=fill(preset.query, options) or None)
        return Requests(
            str(url),
            self._of,
            one.timeout_s,
            one.tries,
            one.concurrency,
            headers,
            self._pace,
            self._reader.rule,
            limits.longest_wait_s,
            direct=is_loopback(one.url),
        )

    def _outcomes(self, answer: Any, n_texts: int) -> list[Outcome]:
        if self._preset.reads != "predictions":
            return self._reader.outcomes(answer, n_texts)
        if not isinstance(answer, dict) or "predictions" not in answer:
            msg = f"{self._of} must answer with `predictions`; it did not."
            raise InputError(msg)
        options = {"output": self._settings.output, "label": self._settings.label}
        scores = positive_scores(answer["predictions"], self._of, **options)
        if len(scores) != n_texts:
            msg = f"{self._of} must answer one score per text; got {len(scores)} for {n_texts}."
            raise InputError(msg)
        return list(scores.tolist())


def _where(ids: list[object]) -> str:
    """Say which comments a request holds, as a few letters: `(id c1)` or `(ids c1 to c32)`."""
    if len(ids) == 1:
        return place(id=ids[0])
    return f"(ids {shown_id(ids[0])} to {shown_id(ids[-1])})"
