"""Presets: how the requests and answers of a service look, as a file without code; and its reader.

Each is `presets/NAME.yaml`; its exchange with the service, as documented, is
`tests/tasks/scoring/http/exchanges/NAME.yaml`, with which a test runs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError, MisreadError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.scoring.http.judge import NO_PROBABILITIES, Judge, Token
from biasgate.tasks.scoring.http.parts import (
    AnswerRule,
    Combine,
    HeaderName,
    HeaderValue,
    JsonPath,
    Limits,
    Named,
    Price,
    Scale,
    Secret,
    Spoken,
)
from biasgate.tasks.scoring.http.paths import compiled, found
from biasgate.tasks.scoring.http.templates import fill, placeholders, refuse_unknown
from biasgate.tasks.scoring.outcomes import WITHOUT_SCORE, Missing, Outcome

Option = str | int | float | bool | list[str] | None
PRESETS = Path(__file__).parent / "presets"
TEXTS = frozenset({"text", "texts", "rows", "n"})
"""Placeholders of a request: its only comment, their list, a list of lists of one, their number."""
ASKED = frozenset({"messages", "prompt", "max_tokens", "logprobs", "effort"})
"""Those of a request to a language model: the question, as messages or as one text; the most tokens
of the answer; whether it needs log-probabilities; how much it reasons. A key whose value does not
apply is not sent."""


class Protocol(Settings):
    """How the requests and answers of a service look."""

    secret: Secret = Secret()
    """Where a request holds it."""
    query: dict[str, str] = Field(default_factory=dict)
    """Sent with each request, in its address."""
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
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
            msg = "`request` must hold the comments: {{text}}, or {{texts}} for a list of comments"
            raise ValueError(msg)
        if self.limits.texts > 1 and not used & {"texts", "rows"}:
            msg = "`limits.texts` must be 1 for a request with {{text}}; write {{texts}} for more"
            raise ValueError(msg)
        if isinstance(self.score, str):
            refuse_unknown(self.score, options, "score")
            compiled(self.score, loosely=True)
        if self.limits.texts > 1 and self.rows is None:
            msg = "`rows` must locate each text's part of an answer, if a request has several texts"
            raise ValueError(msg)
        return self

    @property
    def is_judge(self) -> bool:
        """Whether a language model is asked, and answers with a text."""
        return isinstance(self.score, Spoken)

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
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


@cache
def read_preset(name: str) -> Preset:
    """Read a preset."""
    known = preset_names()
    if name not in known:
        msg = f"`preset` must be custom or one of {', '.join(known)}; got {name!r}."
        raise ValueError(msg + did_you_mean(name, known))
    return read_settings(PRESETS / f"{name}.yaml", Preset)


@dataclass(frozen=True)
class Reader:
    """Reads answers."""

    preset: Protocol
    """Where to look."""
    options: Mapping[str, Any]
    """What `{{...}}` in its paths stand for."""
    categories: Sequence[str]
    """The categories that count; empty: all."""
    combine: Combine
    """How several become one score."""
    judge: Judge | None
    """How a language model was asked; None for another service."""
    name: str
    """The endpoint, for messages."""
    known: dict[str, None] = field(default_factory=dict, init=False)
    """The categories of the first answer that has any."""

    def outcomes(self, answer: Any, n_texts: int) -> list[Outcome]:
        """Return the score of each text, or why it has none."""
        return [self._outcome(part) for part in self._parts(answer, n_texts)]

    def find_rule(self, status: int, body: Any) -> AnswerRule | None:
        """Return the first of the preset's rules that fits an answer."""
        for rule in self.preset.answers:
            if rule.status == status and (rule.when is None or any(found(rule.when, body))):
                return rule
        return None

    def _parts(self, answer: Any, n_texts: int) -> list[Any]:
        rows = self.preset.rows
        if rows is None:
            return [answer]
        parts = found(str(fill(rows, self.options)), answer)
        if self.preset.tensor:
            parts = self._reshaped(parts, n_texts)
        if len(parts) != n_texts:
            self._refuse(f"return as many scores as texts; got {len(parts)} for {n_texts}")
        index = self.preset.index
        if index is None:
            return parts
        numbers = [found(index, part) for part in parts]
        by_number = {
            one[0]: part for one, part in zip(numbers, parts, strict=True) if _is_number(one)
        }
        if set(by_number) != set(range(len(parts))):
            self._refuse(f"number its {len(parts)} parts from 0 (`{index}`)")
        return [by_number[number] for number in range(len(parts))]

    def _reshaped(self, parts: list[Any], n_texts: int) -> list[Any]:
        """Return as many numbers for each text, from a tensor that may be flat or nested."""
        try:
            numbers = np.asarray(parts, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            numbers = np.empty(0)
        if not numbers.size or numbers.size % n_texts:
            self._refuse(
                f"return equally many numbers for each text; got {numbers.size} for {n_texts}"
            )
        rows: list[Any] = numbers.reshape(n_texts, -1).tolist()
        return rows

    def _outcome(self, part: Any) -> Outcome:
        score = self.preset.score
        if isinstance(score, Spoken):
            return self._judged(score, part)
        if isinstance(score, Named):
            return self._score_of_categories(score, part)
        path = str(fill(score, self.options))
        values = found(path, part)
        return Missing(WITHOUT_SCORE) if values == [None] else self._number(values, path)

    def _score_of_categories(self, score: Named, part: Any) -> Outcome:
        """Return the score; none if the answer lacks a category, or its number is null."""
        named = list(self._named(score, part))
        if not self.known:
            self.known.update(dict.fromkeys(name for name, _ in named))
        numbers = []
        for category in self.categories or [name for name, _ in named]:
            places = [place for name, place in named if name == category]
            if len(places) > 1:
                self._refuse("name each category once")
            values = found(score.value, places[0]) if places else [None]
            if values == [None]:
                return Missing(f"without {escape_invisible(category)}")
            numbers.append(self._number(values, score.value))
        return self._combined(numbers) if numbers else Missing(WITHOUT_SCORE)

    def _named(self, score: Named, part: Any) -> Iterator[tuple[str, Any]]:
        """Yield the categories of an answer, with what has their numbers."""
        holders = found(score.at.removesuffix("[*]"), part)
        if not holders or not all(isinstance(holder, dict | list) for holder in holders):
            self._refuse(f"have its categories at `{score.at}`")
        for at in found(score.at, part):
            if score.name is None:
                yield from at.items() if isinstance(at, dict) else ()
                continue
            names = found(score.name, at)
            if len(names) != 1 or not isinstance(names[0], str):
                self._refuse(f"name each category (`{score.name}`)")
            yield names[0], at

    def _number(self, values: list[Any], path: str) -> float:
        if not _is_number(values):
            self._refuse(f"have a single finite number at `{path}`")
        number = float(values[0])
        if self.preset.scale is None:
            return number
        low, high = self.preset.scale
        if not low <= number <= high:
            self._refuse(
                f"answer with scores from {low:g} to {high:g} (`scale`); a score is outside",
                MisreadError,
            )
        return (number - low) / (high - low)

    def _combined(self, numbers: Sequence[float]) -> float:
        if len(numbers) == 1:
            return numbers[0]
        if self.combine == "max":
            return max(numbers)
        if not all(0 <= number <= 1 for number in numbers):
            self._refuse(
                "answer with probabilities for `combine: noisy_or`; a value is outside [0, 1]",
                MisreadError,
            )
        return 1 - math.prod(1 - number for number in numbers)

    def _judged(self, score: Spoken, part: Any) -> Outcome:
        """Return what the answer of a language model means."""
        assert self.judge is not None  # noqa: S101 - checked with the settings
        text = found(score.text, part)
        if len(text) != 1 or not (text[0] is None or isinstance(text[0], str)):
            self._refuse(f"answer with a text (`{score.text}`)")
        if self.judge.score_as == "level":
            return self.judge.read_answer(text[0] or "")
        tokens = self._tokens(score, part)
        if text[0] and not tokens:
            self._refuse(
                f"answer with log-probabilities (`{score.top}`). {NO_PROBABILITIES}", MisreadError
            )
        return self.judge.read_answer(text[0] or "", tokens)

    def _tokens(self, score: Spoken, part: Any) -> list[Token]:
        tokens, top = found(score.tokens, part), found(score.top, part)
        if len(tokens) != len(top) or not all(isinstance(token, str) for token in tokens):
            self._refuse(
                f"answer with log-probabilities of each token (`{score.top}`)", MisreadError
            )
        likeliest = (self._likeliest(score, one) for one in top)
        return [Token(*both) for both in zip(tokens, likeliest, strict=True)]

    def _likeliest(self, score: Spoken, top: Any) -> list[tuple[str, float]]:
        pairs = [([token], [one]) for token, one in top.items()] if isinstance(top, dict) else None
        if pairs is None and isinstance(top, list):
            pairs = [(found(score.token, one), found(score.logprob, one)) for one in top]
        likeliest = []
        for token, logprob in pairs or ():
            if len(token) != 1 or not isinstance(token[0], str) or not _is_number(logprob):
                self._refuse(
                    f"answer with log-probabilities of tokens (`{score.top}`)", MisreadError
                )
            likeliest.append((token[0], min(float(logprob[0]), 0.0)))
        return likeliest

    def _refuse(self, rule: str, kind: type[InputError] = InputError) -> None:
        msg = f"{self.name} must {rule}."
        raise kind(msg)


def _is_number(values: list[Any]) -> bool:
    """Say whether a path found one finite number."""
    if len(values) != 1 or isinstance(values[0], bool) or not isinstance(values[0], int | float):
        return False
    try:
        return math.isfinite(values[0])
    except OverflowError:  # an integer of hundreds of digits
        return False
