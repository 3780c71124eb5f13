"""The parts of a preset: paths of scores, limits and prices, and rules for other answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from jsonpath import CompoundJSONPath, JSONPath, JSONPathEnvironment
from jsonpath.exceptions import JSONPathError
from pydantic import AfterValidator, Field, FiniteFloat, StringConstraints, model_validator

from biasgate.tasks.common.settings import Settings
from biasgate.tasks.scoring.http.templates import refuse_unknown

_ENVIRONMENT = JSONPathEnvironment(strict=True)
_PLACEHOLDER = re.compile(r"\{\{[^}]*\}\}")


@lru_cache(maxsize=256)
def compile_path(path: str, *, is_template: bool = False) -> JSONPath | CompoundJSONPath:
    """Compile a JSONPath (RFC 9535). In a template, placeholders count as numbers."""
    try:
        return _ENVIRONMENT.compile(_PLACEHOLDER.sub("0", path) if is_template else path)
    except (JSONPathError, ValueError, RecursionError):
        msg = f"must be a JSONPath as in RFC 9535, for example $.results[*].score; got {path!r}"
    raise ValueError(msg)  # without the library's error, which may fail when it is shown


def find_values(path: str, content: Any) -> list[Any]:
    """Return the values at a path; empty if the content is nested too deeply."""
    if isinstance(content, str):  # which the library would read as JSON
        return [content] if path == "$" else []
    try:
        return list(compile_path(path).findall(content))
    except (JSONPathError, RecursionError, TypeError):
        return []


def _check_path(value: str) -> str:
    compile_path(value)
    return value


JsonPath = Annotated[str, AfterValidator(_check_path)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]*$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Combine = Literal["max", "noisy_or"]
Scale = tuple[FiniteFloat, FiniteFloat]
AUTHORIZATION = "Authorization"


class Named(Settings):
    """Paths of the numbers of several categories."""

    at: JsonPath
    """JSONPath of an object with an entry for each category, or of the elements of a list."""
    name: JsonPath | None = None
    """JSONPath of the category's name in an element. Default: the key in the object."""
    value: JsonPath = "$"
    """JSONPath of the number in an element."""


class Spoken(Settings):
    """Paths of the text of an answer and the log-probabilities of its tokens."""

    text: JsonPath
    """JSONPath of the text."""
    tokens: JsonPath
    """JSONPath of the text's tokens."""
    top: JsonPath
    """JSONPath, for every token, of its likeliest alternatives: an object of log-probabilities by
    token, or a list."""
    token: JsonPath = "$.token"  # noqa: S105 - a path
    """JSONPath of the token in an element of this list."""
    logprob: JsonPath = "$.logprob"
    """JSONPath of the log-probability in an element of this list."""


class Secret(Settings):
    """Place of the secret in a request: a header, or a parameter of the address."""

    header: HeaderName = AUTHORIZATION
    """The header's name."""
    value: HeaderValue | None = None
    """The header's value, with the placeholder `{{secret}}`. Default: `Bearer {{secret}}` for
    `Authorization`, and `{{secret}}` for other headers."""
    query: Annotated[str, Field(min_length=1)] | None = None
    """Name of the address's parameter for the secret, instead of a header."""

    @model_validator(mode="after")
    def _require_single_place(self) -> Self:
        if self.query is not None and self.model_fields_set - {"query"}:
            msg = "`query` must be the only key of `secret`: the secret is not sent in a header too"
            raise ValueError(msg)
        refuse_unknown(self.value, {"secret"}, "secret")
        return self

    @property
    def template(self) -> str:
        """The header's value, with the placeholder."""
        is_bearer = self.header.lower() == AUTHORIZATION.lower()
        return self.value or ("Bearer {{secret}}" if is_bearer else "{{secret}}")


class Limits(Settings):
    """Limits of the service."""

    texts: Count = 1
    """Most texts in a request."""
    requests_per_second: Positive | None = None
    """Most requests per second."""
    tokens_per_second: Positive | None = None
    """Most tokens per second."""
    characters: Count | None = None
    """Longest text in characters. Longer texts are not sent, and get no score."""
    bytes: Count | None = None
    """Longest text in bytes."""
    empty: bool = True
    """True if a text may be empty or blank. Otherwise it is not sent, and gets no score."""
    longest_wait_s: Positive = 30.0
    """Longest wait that the service may request."""


class Price(Settings):
    """Price of the service in US dollars, when its page was read."""

    usd: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Price per unit."""
    unit: Literal["request", "characters", "tokens"] = "request"
    """The unit: a request, or characters or tokens of a text."""
    size: Count = 1
    """Characters or tokens in a unit. For every text, units are rounded up."""

    def compute_cost(
        self, texts: Sequence[str], n_requests: int, count_tokens: Callable[[list[str]], int]
    ) -> float:
        """Return the cost of texts that are sent in `n_requests` requests."""
        if self.unit == "request":
            return self.usd * n_requests
        by_length = self.unit == "characters"
        sizes = (len(text) if by_length else count_tokens([text]) for text in texts)
        return self.usd * sum(-(-size // self.size) for size in sizes)


class AnswerRule(Settings):
    """Meaning of an answer without a score."""

    status: Annotated[int, Field(ge=100, le=599)]
    """Status of the answer."""
    when: JsonPath | None = None
    """JSONPath that must find a value in the body, other than null, false and empty values."""
    then: Literal["missing", "retry", "stop"]
    """`missing`: the text gets no score, for the reason `why`. `retry`: as for 429 and 5xx. `stop`:
    an error with the text `why`. Without `when`, it needs a status of 401 to 405, or 20 such
    answers in a row."""
    why: str = ""
    """A word for `missing`, and for `stop` a sentence with the remedy."""

    @model_validator(mode="after")
    def _require_why(self) -> Self:
        if not self.why and self.then != "retry":
            msg = f"`why` must be given for `then: {self.then}`"
            raise ValueError(msg)
        return self
