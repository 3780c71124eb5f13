"""Candidate kind `http`: a model behind an MLflow `/invocations` endpoint."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Annotated, Any, Literal

import httpx
import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, Field

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.secrets import remember
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.candidate import CandidateSettings, Scorer, Version
from biasgate.tasks.scoring.kinds.http_requests import Requests
from biasgate.tasks.scoring.kinds.model_answers import positive_scores
from biasgate.tasks.store import Workplace


def _plain(url: str) -> str:
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


class HttpEndpoint(CandidateSettings):
    """A served model, called in batches.

    Attributes
    ----------
    url : str
        The full URL, as in `http://127.0.0.1:5000/invocations`.
    version : str
        Version of the model behind it. Scores are reused while it stays the same; without it
        they never are.
    column : str, optional
        Name of the text column, if the model takes a table. Default: an array.
    output : str, optional
        The column of the score, if the model returns a table.
    label : str, optional
        The toxic one of two labels, if the model returns the winning label and its score.
    token_env : str, optional
        Environment variable with a bearer token.
    batch_size, concurrency : int
        Texts per request; number of parallel requests.
    timeout_s : float
        Limit for one try of a request, from the connection to the last byte of the answer.
    tries : int
        Most tries of a request whose answer is 429, 5xx or missing.
    """

    kind: Literal["http"]
    url: Annotated[str, AfterValidator(_plain)]
    version: Version
    column: str | None = None
    output: str | None = None
    label: str | None = None
    token_env: str | None = None
    batch_size: Annotated[int, Field(ge=1)] = 64
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    tries: Annotated[int, Field(ge=1)] = 6

    def check(self) -> None:
        """Raise an error if the token is not set."""
        if self.token_env and not os.environ.get(self.token_env):
            msg = (
                f"environment variable {self.token_env} must hold the token of candidate "
                f"{self.name!r}; it is not set."
            )
            raise InputError(msg)

    def open(self, workplace: Workplace) -> EndpointScorer:
        """Open lazily: nothing is connected yet."""
        del workplace
        self.check()
        return EndpointScorer(self)


class EndpointScorer(Scorer):
    """The endpoint."""

    def __init__(self, settings: HttpEndpoint) -> None:
        self._settings = settings
        chosen = [settings.column, settings.output, settings.label]
        self.not_bound = (
            "The model behind the endpoint is not recorded, only its URL and `version`."
        )
        self.digest = json_digest(["http", settings.url, settings.version, *chosen])
        self._of = f"endpoint {settings.url} of candidate {settings.name!r}"

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Refuse a set without text."""
        self._settings.require_text(evaluation_set)

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Request all batches, a few in parallel; stop at the first failure."""
        texts, size = rows.column("text").to_pylist(), self._settings.batch_size
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        return np.concatenate(
            self._requests.post(
                [self._asked(batch) for batch in batches],
                lambda answer, number: self._scores(answer, len(batches[number])),
            )
        )

    @cached_property
    def _requests(self) -> Requests:
        one = self._settings
        token = os.environ[one.token_env] if one.token_env else None
        if one.token_env and token:
            remember(one.token_env, token)
        return Requests(one.url, self._of, token, one.timeout_s, one.tries, one.concurrency)

    def _asked(self, texts: list[str]) -> dict[str, Any]:
        column = self._settings.column
        if column is None:
            return {"inputs": texts}
        return {"dataframe_split": {"columns": [column], "data": [[text] for text in texts]}}

    def _scores(self, answer: Any, n_texts: int) -> np.ndarray:
        if not isinstance(answer, dict) or "predictions" not in answer:
            msg = f"{self._of} must answer with `predictions`; it did not."
            raise InputError(msg)
        options = {"output": self._settings.output, "label": self._settings.label}
        scores = positive_scores(answer["predictions"], self._of, **options)
        if len(scores) != n_texts:
            msg = f"{self._of} must answer one score per text; got {len(scores)} for {n_texts}."
            raise InputError(msg)
        return scores
