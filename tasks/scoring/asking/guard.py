"""Guards: language models that judge texts, as records without code.

Each is `guards/NAME.yaml`. What a server calls its fields is not here but in its preset: a record
holds for every server, and for a model that is loaded here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, JsonValue, model_validator

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.common.yaml_files import names_in, read_named
from biasgate.tasks.scoring.asking.templates import fill, placeholders, refuse_unknown
from biasgate.tasks.scoring.outcomes import NO_ANSWER, Missing, Outcome

GUARDS = Path(__file__).parent / "guards"
Option = str | int | float | bool | list[str] | None
Prompt = str | list[dict[str, str]]
Words = Annotated[tuple[str, ...], Field(min_length=2)]
ScoreAs = Literal["probability", "level"]
NO_PROBABILITIES = (
    "The server, and the model, must support `logprobs`. Without them, set `score_as: level`: a "
    "score is then one of as many values as there are `words`, and equal ones tie."
)
_LEAST_SHARE = 0.5
_ENOUGH = 10
# What tokenizers write for a space and for a line break.
_CLEANED = str.maketrans({"\u0120": " ", "\u2581": " ", "\u010a": "\n"})
_AROUND = " \t\r\n\"'.,:;*`"
_SHORTEST_PART = 2


class Token(NamedTuple):
    """A token of an answer, and the likeliest tokens at its place with their log-probabilities."""

    text: str
    likeliest: Sequence[tuple[str, float]]


class Guard(Settings):
    """How a language model is asked, and what its answer means."""

    prompt: Prompt | None = None
    """The message, or the messages, with `{{text}}` for the comment. None if users must give it."""
    template: dict[str, JsonValue] | None = None
    """Variables of the model's own chat template."""
    options: dict[str, Option] = Field(default_factory=dict)
    """What users may set, with defaults; null must be set. For `prompt` and `template`."""
    words: Words = ("yes", "no")
    """The words of which the answer is one, the most toxic first. Their scores go from 1 to 0 in
    equal steps."""
    after: str = ""
    """What stands before the word in an answer, the last time that it stands there. Default: the
    word is the first thing in the answer."""
    after_reasoning: str = ""
    """What stands before the word where no server has cut off the reasoning. Default: `after`."""
    categories: tuple[str, ...] = ()
    """What the answer may name as the kind of harm, if it is toxic."""
    categories_after: str = ""
    """What stands before the categories. Default: the word."""
    max_tokens: Annotated[int, Field(ge=1)] = 1
    """Most tokens of an answer, its reasoning included."""
    effort: str | None = None
    """How much the model reasons, if it can be told."""
    score_as: ScoreAs = "probability"
    """`probability`: the mean of the words' scores, weighted by their probabilities. `level`: the
    score of the word that the answer gives."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Refuse what cannot work."""
        plain = [_plain(word) for word in self.words]
        if not all(plain) or len(set(plain)) < len(plain):
            msg = "`words` must be different words, the most toxic answer first"
            raise ValueError(msg)
        if self.prompt is not None:
            if "text" not in set(placeholders(self.prompt)):
                msg = "`prompt` must hold {{text}} where the comment stands"
                raise ValueError(msg)
            refuse_unknown(self.prompt, {"text", "words", *self.options}, "prompt")
        refuse_unknown(self.template, set(self.options), "template")

    def messages(self, text: str) -> list[dict[str, str]]:
        """Return the messages that ask about a text."""
        assert self.prompt is not None  # noqa: S101 - checked with the settings
        prompt = self.prompt
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        filled: list[dict[str, str]] = fill(messages, self._values(text))
        return filled

    def plain_prompt(self, text: str) -> str:
        """Return the only message as a text, for a model without a chat template."""
        assert isinstance(self.prompt, str)  # noqa: S101 - checked with the settings
        return str(fill([self.prompt], self._values(text))[0])

    @property
    def filled_template(self) -> dict[str, JsonValue] | None:
        """The variables of the chat template, with the options."""
        return None if self.template is None else dict(fill(self.template, self.options))

    def _values(self, text: str) -> dict[str, Option | str]:
        return {**self.options, "text": text, "words": ", ".join(self.words)}

    def outcome(
        self, answer: str, tokens: Sequence[Token] = (), counted: Collection[str] = ()
    ) -> Outcome:
        """Return the score of an answer, or that it is none.

        `answer`: its text. `tokens`: its tokens; only read, and needed, for `score_as:
        probability`. `counted`: the categories that count; empty: all. A toxic answer that names
        only others scores 0.
        """
        word, score = self._said(answer) if self.score_as == "level" else self._weighed(tokens)
        if word is None:
            return Missing(NO_ANSWER)
        if counted and word != _plain(self.words[-1]):
            named = self._named(answer)
            if not named:
                return Missing(NO_ANSWER)
            if not named & set(counted):
                return 0.0
        return score

    def _said(self, answer: str) -> tuple[str | None, float]:
        """Return the word that the text of an answer gives, and its score."""
        begin = self._begin(answer)
        if begin is not None:
            rest = answer[begin:].lstrip(_AROUND).casefold()
            for word, score in self._scores.items():
                if re.match(rf"{re.escape(word)}(?!\w)", rest):
                    return word, score
        return None, math.nan

    def _weighed(self, tokens: Sequence[Token]) -> tuple[str | None, float]:
        """Return the likeliest word where the answer gives one, and the mean score there."""
        scores = self._scores
        shares = dict.fromkeys(scores, 0.0)
        for part, logprob in self._alternatives(tokens):
            word = self.begun(part)
            if word is not None:
                shares[word] += math.exp(min(logprob, 0.0))
        known = sum(shares.values())
        if known < _LEAST_SHARE:
            return None, math.nan
        mean = sum(share * scores[word] for word, share in shares.items()) / known
        return max(shares, key=lambda word: shares[word]), mean

    def _alternatives(self, tokens: Sequence[Token]) -> Iterator[tuple[str, float]]:
        """Yield what may begin the word, where the answer begins it, with log-probabilities."""
        texts = [token.text.translate(_CLEANED) for token in tokens]
        begin = self._begin("".join(texts))
        if begin is None or not texts:
            return
        # An answer that ends before its word, as one of a single token may, still has a place.
        at, before, start = 0, "", 0
        for number, text in enumerate(texts):
            inside = max(begin - start, 0)
            if inside < len(text) and _plain(text[inside:]):
                at, before = number, text[:inside]
                break
            start += len(text)
        else:
            if self.after:
                return
        for other, logprob in tokens[at].likeliest:
            cleaned = other.translate(_CLEANED)
            if cleaned.startswith(before):
                yield cleaned[len(before) :], logprob

    def _begin(self, text: str) -> int | None:
        """Return where the word may begin; None if what stands before it is not there."""
        return _end_of_last(self.after, text) if self.after else 0

    def begun(self, token: str) -> str | None:
        """Return the word that a token is, or that only it can begin."""
        part = _plain(token)
        if part in self._scores:
            return part
        words = [word for word in self._scores if word.startswith(part)]
        return words[0] if len(part) >= _SHORTEST_PART and len(words) == 1 else None

    def _named(self, answer: str) -> set[str]:
        begin = _end_of_last(self.categories_after, answer) if self.categories_after else 0
        parts = re.split(r"[,\n]", answer[begin or 0 :])
        return {part.strip() for part in parts} & set(self.categories)

    @property
    def _scores(self) -> dict[str, float]:
        last = len(self.words) - 1
        return {_plain(word): (last - at) / last for at, word in enumerate(self.words)}

    def refuse_other_model(self, outcomes: Collection[Outcome], of: str) -> None:
        """Refuse a model of whose answers none can be used; what it refused is no answer."""
        unusable = Missing(NO_ANSWER)
        answers = [
            outcome
            for outcome in outcomes
            if outcome == unusable or not isinstance(outcome, Missing)
        ]
        if len(answers) >= _ENOUGH and all(answer == unusable for answer in answers):
            after = f" after {self.after!r}" if self.after else ""
            msg = (
                f"{of} must answer with one of {', '.join(map(repr, self.words))}{after}; none of "
                f"{len(answers)} answers does. Is another model behind it than `guard` or "
                "`prompt` is for? Or does the answer end before its word (`max_tokens`)?"
            )
            raise InputError(msg)


class KnownGuard(Guard):
    """A model, with its sources."""

    title: str
    """The model."""
    sources: Annotated[tuple[str, ...], Field(min_length=1)]
    """URLs of its documentation."""
    read: date
    """When they were read."""


class Asking(Settings):
    """The options of a candidate that asks a language model."""

    guard: str | None = None
    """The model's family, which says how it is asked and what its answers mean. Default: a judge
    that answers `prompt` with one of `words`."""
    prompt: Prompt | None = None
    """The message, or the messages, with `{{text}}` for the comment. Default: the guard's."""
    words: Words | None = None
    """The words of which the answer is one, the most toxic first. Default: the guard's; for a
    judge, yes and no."""
    after: str | None = None
    """What stands before the word in an answer. Default: the guard's."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens of an answer. Default: the guard's; for a judge, one."""
    effort: str | None = None
    """How much the model reasons, if it can be told. Default: the guard's."""
    score_as: ScoreAs | None = None
    """What the score is: a probability, or the level of the answer's word. Default: the guard's."""
    options: dict[str, Option] = Field(default_factory=dict)
    """Values for options."""
    categories: tuple[str, ...] = ()
    """The categories that count. Default: all of the guard."""

    @property
    def asked(self) -> Guard:
        """How the model is asked."""
        known: Guard = read_guard(self.guard) if self.guard is not None else Guard()
        given = {name: getattr(self, name) for name in OF_JUDGES}
        changed = {name: value for name, value in given.items() if value is not None}
        options = {name: self.options.get(name, one) for name, one in known.options.items()}
        content = {name: getattr(known, name) for name in Guard.model_fields}
        return Guard.model_construct(**content | changed | {"options": options})

    def check_asked(self) -> None:
        """Refuse what cannot work."""
        asked = self.asked
        asked.check()
        if asked.prompt is None:
            where = " as the model's documentation writes it" if self.guard else ""
            msg = f"`prompt` must be given{where}, with {{{{text}}}} where the comment stands"
            if self.guard is not None:
                msg += f" ({read_guard(self.guard).sources[0]})"
            raise ValueError(msg)
        for name, value in asked.options.items():
            if value is None:
                msg = f"`options` must have `{name}` for guard {self.guard}"
                raise ValueError(msg)
        unknown = [name for name in self.categories if name not in asked.categories]
        if unknown:
            known = ", ".join(asked.categories) or "none"
            msg = f"`categories` must be those of the guard; got {unknown[0]!r} (known: {known})"
            raise ValueError(msg)


OF_JUDGES = ("prompt", "words", "after", "max_tokens", "effort", "score_as")


def guard_names() -> list[str]:
    """Return the names of the guards."""
    return names_in(GUARDS)


@cache
def read_guard(name: str) -> KnownGuard:
    """Read a guard."""
    return read_named(GUARDS, name, KnownGuard, "guard")


def _plain(text: str) -> str:
    return text.strip(_AROUND).casefold()


def _end_of_last(marker: str, text: str) -> int | None:
    """Return where a marker ends for the last time, whatever its case and spaces."""
    pattern = r"\s*".join(map(re.escape, marker.split()))
    ends = [found.end() for found in re.finditer(pattern, text, re.IGNORECASE)]
    return ends[-1] if ends else None
