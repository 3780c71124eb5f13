"""The parts of a preset: where scores are, what is accepted, what other answers mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, FiniteFloat, StringConstraints, model_validator

from biasgate.tasks.common.settings import Settings
from biasgate.tasks.scoring.http.paths import compiled
from biasgate.tasks.scoring.http.templates import refuse_unknown


def _path(value: str) -> str:
    compiled(value)
    return value


JsonPath = Annotated[str, AfterValidator(_path)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]*$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Combine = Literal["max", "noisy_or"]
Scale = tuple[FiniteFloat, FiniteFloat]
AUTHORIZATION = "Authorization"


class Named(Settings):
    """Where the numbers of several categories are."""

    at: JsonPath
    """JSONPath of an object with an entry for each category, or of each element of a list."""
    name: JsonPath | None = None
    """JSONPath of the category's name in an element. Default: the key in the object."""
    value: JsonPath = "$"
    """JSONPath of the number in an element."""


class Spoken(Settings):
    """Where the text of an answer is, and the log-probabilities of its tokens."""

    text: JsonPath
    """JSONPath of the text."""
    tokens: JsonPath
    """JSONPath of each of its tokens, as text."""
    top: JsonPath
    """JSONPath, for each of its tokens, of the likeliest ones there: an object of
    log-probabilities by token, or a list."""
    token: JsonPath = "$.token"  # noqa: S105 - a path
    """JSONPath of the token, in an element of such a list."""
    logprob: JsonPath = "$.logprob"
    """JSONPath of its log-probability there."""


class Secret(Settings):
    """Where a request holds the secret: in a header, or in its address."""

    header: HeaderName = AUTHORIZATION
    """The header's name."""
    value: HeaderValue | None = None
    """The header's value, with `{{secret}}` in its place. Default: `Bearer {{secret}}` for
    `Authorization`, and `{{secret}}` for other headers."""
    query: Annotated[str, Field(min_length=1)] | None = None
    """Name of the parameter of the address that holds the secret, instead of a header."""

    @model_validator(mode="after")
    def _is_in_a_single_place(self) -> Self:
        if self.query is not None and self.model_fields_set - {"query"}:
            msg = "`query` must be the only key of `secret`: the secret is not sent in a header too"
            raise ValueError(msg)
        refuse_unknown(self.value, {"secret"}, "secret")
        return self

    @property
    def template(self) -> str:
        """The header's value."""
        is_bearer = self.header.lower() == AUTHORIZATION.lower()
        return self.value or ("Bearer {{secret}}" if is_bearer else "{{secret}}")


class Limits(Settings):
    """What the service accepts."""

    texts: Count = 1
    """Most texts in a request."""
    requests_per_second: Positive | None = None
    """Requests in a second that the service allows."""
    tokens_per_second: Positive | None = None
    """Tokens in a second that it allows."""
    characters: Count | None = None
    """Longest text in characters; a longer one is not sent, and has no score."""
    bytes: Count | None = None
    """The same in bytes."""
    empty: bool = True
    """Whether a text may be empty or blank; otherwise it is not sent, and has no score."""
    longest_wait_s: Positive = 30.0
    """Longest wait that the service may ask for."""


class Price(Settings):
    """What the service asks, in US dollars, on the day that its page was read."""

    usd: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Price of one unit."""
    unit: Literal["request", "characters", "tokens"] = "request"
    """What a unit is; characters and tokens are of each text."""
    size: Count = 1
    """Characters or tokens in a unit; a part of a unit counts as a whole one."""

    def of(
        self, texts: Sequence[str], n_requests: int, tokens: Callable[[list[str]], int]
    ) -> float:
        """Return the price of texts that are sent in so many requests."""
        if self.unit == "request":
            return self.usd * n_requests
        sizes = [len(text) if self.unit == "characters" else tokens([text]) for text in texts]
        return self.usd * sum(-(-size // self.size) for size in sizes)


class AnswerRule(Settings):
    """What an answer means that is no score."""

    status: Annotated[int, Field(ge=100, le=599)]
    """Its status."""
    when: JsonPath | None = None
    """JSONPath that must find something in its body other than null, false and empty."""
    then: Literal["missing", "retry", "stop"]
    """`missing`: the text has no score, for the reason `why`. `retry`: as for 429 and 5xx. `stop`:
    an error that says `why`; without `when` only if the status is 401 to 405, or the answer of 20
    comments in a row."""
    why: str = ""
    """One word for `missing`; else what to do, in a sentence."""

    @model_validator(mode="after")
    def _has_why(self) -> Self:
        if not self.why and self.then != "retry":
            msg = f"`why` must be given for `then: {self.then}`"
            raise ValueError(msg)
        return self
