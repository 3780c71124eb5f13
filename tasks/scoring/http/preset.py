"""Presets: the form of a service's requests and answers, as a file without code; and its reader.

Each preset is `presets/NAME.yaml`. A test runs it with the documented exchange with the service,
`tests/tasks/scoring/http/exchanges/NAME.yaml`.
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
    compile_path,
    find_values,
)
from biasgate.tasks.scoring.http.templates import fill, list_placeholders, refuse_unknown
from biasgate.tasks.scoring.outcomes import WITHOUT_SCORE, Missing, Outcome

Option = str | int | float | bool | list[str] | None
PRESETS = Path(__file__).parent / "presets"
TEXT_PLACEHOLDERS = frozenset({"text", "texts", "rows", "n"})
"""A single comment, the list of comments, the list with each comment in its own list, and the
number of comments."""
JUDGE_PLACEHOLDERS = frozenset({"messages", "prompt", "max_tokens", "logprobs", "effort"})
"""For a language model: the prompt as messages or as a text, the limit of tokens, whether
log-probabilities are needed, and the amount of reasoning. A key without a value is not sent."""


class Protocol(Settings):
    """Form of a service's requests and answers."""

    secret: Secret = Secret()
    """Place of the secret in a request."""
    query: dict[str, str] = Field(default_factory=dict)
    """Parameters of the address."""
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
    """Headers of requests."""
    content_type: Literal["application/json", "text/plain"] = "application/json"
    """`text/plain` sends the text itself."""
    options: dict[str, Option] = Field(default_factory=dict)
    """Options for users, with defaults. Options with null must be set."""
    categories: tuple[str, ...] = ()
    """Default categories of the score; empty: all categories of an answer."""
    needs_categories: bool = False
    """True if users must name the categories."""
    request: Any
    """The body, as JSON with placeholders: `{{texts}}` is the list of comments, `{{text}}` a single
    comment."""
    table: Any = None
    """The body if the candidate has `column`."""
    reads: Literal["path", "predictions"] = "path"
    """`predictions`: any answer of an MLflow model."""
    rows: JsonPath | None = None
    """JSONPath of the parts of an answer, a part for each text. Default: an answer has a single
    text."""
    tensor: bool = False
    """True if `rows` is a list of numbers, nested or not, with equally many for each text."""
    index: JsonPath | None = None
    """JSONPath of a text's number in its part, if parts may come in any order."""
    score: Named | Spoken | str = "$"
    """Path of the score in a text's part."""
    combine: Combine = "max"
    """Method to combine several categories into a score."""
    scale: Scale | None = None
    """Ends of the scale; scores are moved to [0, 1]. Default: scores are not changed."""
    limits: Limits = Limits()
    """Limits of the service."""
    price: Price | None = None
    """Price of the service. Default: unknown."""
    answers: tuple[AnswerRule, ...] = ()
    """Rules for other answers; the first that fits applies."""

    @field_validator("scale")
    @classmethod
    def _check_scale(cls, value: Scale | None) -> Scale | None:
        if value is not None and not value[0] < value[1]:
            msg = "`scale` must be the lowest and the highest value, as in [0, 7]"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _check_request(self) -> Self:
        options = set(self.options)
        names = options | TEXT_PLACEHOLDERS | JUDGE_PLACEHOLDERS | {"categories"}
        refuse_unknown(self.request, names, "request")
        refuse_unknown(self.table, {"rows", "column"}, "table")
        refuse_unknown([self.query, self.headers], options, "query")
        used = set(list_placeholders(self.request))
        used &= {"text", "texts", "rows", "messages", "prompt"}
        if not used:
            msg = "`request` must hold the comments: {{text}}, or {{texts}} for a list of comments"
            raise ValueError(msg)
        if self.limits.texts > 1 and not used & {"texts", "rows"}:
            msg = "`limits.texts` must be 1 for a request with {{text}}; write {{texts}} for more"
            raise ValueError(msg)
        if isinstance(self.score, str):
            refuse_unknown(self.score, options, "score")
            compile_path(self.score, is_template=True)
        if self.limits.texts > 1 and self.rows is None:
            msg = "`rows` must locate each text's part of an answer, if a request has several texts"
            raise ValueError(msg)
        return self

    @property
    def is_judge(self) -> bool:
        """True if the service is a language model, which answers with a text."""
        return isinstance(self.score, Spoken)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that affects scores."""
        relevant = set(Protocol.model_fields) - {"secret", "price"}
        content = self.model_dump(mode="json", include=relevant)
        for name in ("requests_per_second", "tokens_per_second", "longest_wait_s", "texts"):
            del content["limits"][name]
        return json_digest(content)


class Preset(Protocol):
    """The protocol of a service, with its sources."""

    title: str
    """Name of the service."""
    sources: Annotated[tuple[str, ...], Field(min_length=1)]
    """URLs of the service's documentation or code."""
    read: date
    """Day on which the sources were read."""
    url: str | None = None
    """URL of the service."""
    token_env: str | None = None
    """The environment variable that usually holds the secret; read only for `url`."""


def list_presets() -> list[str]:
    """Return the names of the presets."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


@cache
def read_preset(name: str) -> Preset:
    """Read the preset with a name, which must exist."""
    names = list_presets()
    if name not in names:
        msg = f"`preset` must be custom or one of {', '.join(names)}; got {name!r}."
        raise ValueError(msg + did_you_mean(name, names))
    return read_settings(PRESETS / f"{name}.yaml", Preset)


@dataclass(frozen=True)
class Reader:
    """A reader of answers."""

    preset: Protocol
    """The protocol with the paths."""
    options: Mapping[str, Any]
    """Values of the placeholders in these paths."""
    categories: Sequence[str]
    """Categories of the score; empty: all."""
    combine: Combine
    """Method to combine several categories into a score."""
    judge: Judge | None
    """Options of a language model; None for another service."""
    name: str
    """The endpoint, for messages."""
    first_categories: dict[str, None] = field(default_factory=dict, init=False)
    """The categories of the first answer with categories."""

    def read_outcomes(self, answer: Any, n_texts: int) -> list[Outcome]:
        """Return a score, or the reason for its lack, for each text."""
        return [self._read_outcome(part) for part in self._split_answer(answer, n_texts)]

    def find_rule(self, status: int, body: Any) -> AnswerRule | None:
        """Return the first of the preset's rules that fits an answer."""
        for rule in self.preset.answers:
            if rule.status == status and (rule.when is None or any(find_values(rule.when, body))):
                return rule
        return None

    def _split_answer(self, answer: Any, n_texts: int) -> list[Any]:
        """Return a part for each text, in the order of the texts."""
        rows = self.preset.rows
        if rows is None:
            return [answer]
        parts = find_values(str(fill(rows, self.options)), answer)
        if self.preset.tensor:
            parts = self._split_tensor(parts, n_texts)
        if len(parts) != n_texts:
            self._refuse(f"return as many scores as texts; got {len(parts)} for {n_texts}")
        index = self.preset.index
        if index is None:
            return parts
        numbers = [find_values(index, part) for part in parts]
        by_number = {
            values[0]: part
            for values, part in zip(numbers, parts, strict=True)
            if _is_number(values)
        }
        if set(by_number) != set(range(len(parts))):
            self._refuse(f"number its {len(parts)} parts from 0 (`{index}`)")
        return [by_number[number] for number in range(len(parts))]

    def _split_tensor(self, parts: list[Any], n_texts: int) -> list[Any]:
        """Return equally many numbers for each text, from a flat or nested tensor."""
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

    def _read_outcome(self, part: Any) -> Outcome:
        score = self.preset.score
        if isinstance(score, Spoken):
            return self._read_judgement(score, part)
        if isinstance(score, Named):
            return self._read_categories(score, part)
        path = str(fill(score, self.options))
        values = find_values(path, part)
        return Missing(WITHOUT_SCORE) if values == [None] else self._read_number(values, path)

    def _read_categories(self, score: Named, part: Any) -> Outcome:
        """Return the score, or `Missing` if the answer lacks a category or its number is null."""
        elements = list(self._iterate_categories(score, part))
        if not self.first_categories:
            self.first_categories.update(dict.fromkeys(name for name, _ in elements))
        numbers = []
        for category in self.categories or [name for name, _ in elements]:
            matches = [element for name, element in elements if name == category]
            if len(matches) > 1:
                self._refuse("name each category once")
            values = find_values(score.value, matches[0]) if matches else [None]
            if values == [None]:
                return Missing(f"without {escape_invisible(category)}")
            numbers.append(self._read_number(values, score.value))
        return self._combine_numbers(numbers) if numbers else Missing(WITHOUT_SCORE)

    def _iterate_categories(self, score: Named, part: Any) -> Iterator[tuple[str, Any]]:
        """Yield the names of categories, with the elements that contain their numbers."""
        containers = find_values(score.at.removesuffix("[*]"), part)
        if not containers or not all(isinstance(item, dict | list) for item in containers):
            self._refuse(f"have its categories at `{score.at}`")
        for element in find_values(score.at, part):
            if score.name is None:
                yield from element.items() if isinstance(element, dict) else ()
                continue
            names = find_values(score.name, element)
            if len(names) != 1 or not isinstance(names[0], str):
                self._refuse(f"name each category (`{score.name}`)")
            yield names[0], element

    def _read_number(self, values: list[Any], path: str) -> float:
        """Return the only value as a number in [0, 1], if the preset has a scale."""
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

    def _combine_numbers(self, numbers: Sequence[float]) -> float:
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

    def _read_judgement(self, score: Spoken, part: Any) -> Outcome:
        """Return the outcome from the answer of a language model."""
        assert self.judge is not None  # noqa: S101 - checked with the settings
        texts = find_values(score.text, part)
        if len(texts) != 1 or not (texts[0] is None or isinstance(texts[0], str)):
            self._refuse(f"answer with a text (`{score.text}`)")
        text = texts[0] or ""
        if self.judge.score_as == "level":
            return self.judge.read_answer(text)
        tokens, top = find_values(score.tokens, part), find_values(score.top, part)
        if len(tokens) != len(top) or not all(isinstance(token, str) for token in tokens):
            self._refuse(
                f"answer with log-probabilities of each token (`{score.top}`)", MisreadError
            )
        if text and not tokens:
            self._refuse(
                f"answer with log-probabilities (`{score.top}`). {NO_PROBABILITIES}", MisreadError
            )
        likeliest = (self._read_likeliest(score, alternatives) for alternatives in top)
        return self.judge.read_answer(text, list(map(Token, tokens, likeliest)))

    def _read_likeliest(self, score: Spoken, top: Any) -> list[tuple[str, float]]:
        pairs: list[tuple[list[Any], list[Any]]] = []
        if isinstance(top, dict):
            pairs = [([token], [logprob]) for token, logprob in top.items()]
        elif isinstance(top, list):
            pairs = [
                (find_values(score.token, item), find_values(score.logprob, item)) for item in top
            ]
        likeliest = []
        for tokens, logprobs in pairs:
            if len(tokens) != 1 or not isinstance(tokens[0], str) or not _is_number(logprobs):
                self._refuse(
                    f"answer with log-probabilities of tokens (`{score.top}`)", MisreadError
                )
            likeliest.append((tokens[0], min(float(logprobs[0]), 0.0)))
        return likeliest

    def _refuse(self, rule: str, kind: type[InputError] = InputError) -> None:
        msg = f"{self.name} must {rule}."
        raise kind(msg)


def _is_number(values: list[Any]) -> bool:
    """Return True if a path found a single finite number."""
    if len(values) != 1 or isinstance(values[0], bool) or not isinstance(values[0], int | float):
        return False
    try:
        return math.isfinite(values[0])
    except OverflowError:  # an integer of hundreds of digits
        return False
