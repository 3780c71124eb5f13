"""Presets: how the requests and answers of a service look, as a file without code.

Each is `presets/NAME.yaml`; its exchange with the service, as documented, is
`tests/tasks/scoring/http/exchanges/NAME.yaml`, with which a test runs it.
"""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.common.yaml_files import names_in, read_named
from biasgate.tasks.scoring.asking.guard import Option
from biasgate.tasks.scoring.asking.templates import placeholders, refuse_unknown
from biasgate.tasks.scoring.http.parts import (
    AnswerRule,
    Combine,
    JsonPath,
    Limits,
    Named,
    Price,
    Scale,
    Secret,
    Spoken,
)
from biasgate.tasks.scoring.http.paths import compiled

PRESETS = Path(__file__).parent / "presets"
TEXTS = frozenset({"text", "texts", "rows", "n"})
"""Placeholders of a request: its only comment, their list, a list of lists of one, their number."""
ASKED = frozenset({"messages", "prompt", "max_tokens", "logprobs", "template", "effort"})
"""Those of a request to a language model: what is asked, as messages or as one text; the most
tokens of the answer; whether it needs log-probabilities; variables of the model's chat template;
how much it reasons. A key whose value does not apply is not sent."""


class Protocol(Settings):
    """How the requests and answers of a service look."""

    secret: Secret = Secret()
    """The header that holds it."""
    query: dict[str, str] = Field(default_factory=dict)
    """Sent with each request, in its address."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with each request, as headers."""
    content_type: Literal["application/json", "text/plain"] = "application/json"
    """`text/plain` sends the text itself."""
    options: dict[str, Option] = Field(default_factory=dict)
    """What users may set, with defaults; null must be set."""
    categories: tuple[str, ...] = ()
    """The categories that count, by default; empty: all that are found."""
    needs_categories: bool = False
    """Whether users must name the categories."""
    request: Any
    """The body, as JSON with placeholders: `{{texts}}` is the list of comments, `{{text}}` the only
    one."""
    table: Any = None
    """The body if the candidate has `column`."""
    reads: Literal["path", "predictions"] = "path"
    """`predictions`: whatever an MLflow model answers."""
    rows: JsonPath | None = None
    """JSONPath of each text's part of the answer. Default: the answer is of one text."""
    tensor: bool = False
    """Whether `rows` is a list of numbers, nested or not, as many for each text."""
    index: JsonPath | None = None
    """JSONPath of a text's number in its part, if parts may come in any order."""
    score: Named | Spoken | str = "$"
    """Where the score is, in a text's part."""
    combine: Combine = "max"
    """How several categories become one score."""
    scale: Scale | None = None
    """Ends of the scale; scores are moved to [0, 1]. Default: scores stay as they are."""
    limits: Limits = Limits()
    """What the service accepts."""
    price: Price | None = None
    """What it asks; default unknown."""
    answers: tuple[AnswerRule, ...] = ()
    """What other answers mean; the first that fits counts."""

    @field_validator("scale")
    @classmethod
    def _has_length(cls, value: Scale | None) -> Scale | None:
        if value is not None and not value[0] < value[1]:
            msg = "`scale` must be the lowest and the highest value, as in [0, 7]"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        options = set(self.options)
        known = options | TEXTS | ASKED | {"categories"}
        refuse_unknown(self.request, known, "request")
        refuse_unknown(self.table, {"rows", "column"}, "table")
        refuse_unknown([self.query, self.headers], options, "query")
        used = set(placeholders(self.request)) & {"text", "texts", "rows", "messages", "prompt"}
        if not used:
            msg = "`request` must hold the comments: {{text}}, or {{texts}} for a list of them"
            raise ValueError(msg)
        if self.limits.texts > 1 and not used & {"texts", "rows"}:
            msg = "`limits.texts` must be 1 for a request with {{text}}; write {{texts}} for more"
            raise ValueError(msg)
        refuse_unknown(self.secret.value, {"secret"}, "secret")
        if isinstance(self.score, str):
            refuse_unknown(self.score, options, "score")
            compiled(self.score, loosely=True)
        if self.limits.texts > 1 and self.rows is None:
            msg = "`rows` must say where each text's part of an answer is, if a request has several"
            raise ValueError(msg)
        return self

    @property
    def is_judge(self) -> bool:
        """Whether a language model is asked, and answers with a text."""
        return isinstance(self.score, Spoken)

    @property
    def may_miss(self) -> bool:
        """Whether some texts may stay without a score."""
        limits = self.limits
        return bool(
            limits.characters
            or limits.bytes
            or not limits.empty
            or self.is_judge
            or any(answer.then == "missing" for answer in self.answers)
        )

    @property
    def digest(self) -> str:
        """SHA-256 of what affects scores."""
        shared = set(Protocol.model_fields) - {"secret", "price"}
        content = self.model_dump(mode="json", include=shared)
        for name in ("requests_per_second", "tokens_per_second", "longest_wait_s", "texts"):
            del content["limits"][name]
        return json_digest(content)


class Preset(Protocol):
    """The protocol of a service, with its sources."""

    title: str
    """The service."""
    sources: Annotated[tuple[str, ...], Field(min_length=1)]
    """URLs of its documentation, or of its code."""
    read: date
    """When they were read."""
    url: str | None = None
    """Where the service is."""
    token_env: str | None = None
    """The environment variable that usually holds the secret; read only for `url`."""


def preset_names() -> list[str]:
    """Return the names of the presets."""
    return names_in(PRESETS)


@cache
def read_preset(name: str) -> Preset:
    """Read a preset."""
    return read_named(PRESETS, name, Preset, "preset", "custom or ")
