"""A served language model as a judge: its prompt, and the score from its answer."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.scoring.http.templates import list_placeholders, refuse_unknown
from biasgate.tasks.scoring.outcomes import NO_ANSWER, Missing, Outcome

Prompt = str | list[dict[str, str]]
Words = Annotated[tuple[str, ...], Field(min_length=2)]
NO_PROBABILITIES = (
    "The server, and the model, must support `logprobs`. Without them, set `score_as: level`: "
    "scores then have only as many values as there are `words`, and equal scores tie."
)
_MIN_PROBABILITY = 0.5
"""Smallest total probability of the words for a score."""
_MIN_ANSWERS = 10
# Tokenizers write these for a space and for a line break.
_WHITESPACE = str.maketrans({"\u0120": " ", "\u2581": " ", "\u010a": "\n"})
_PUNCTUATION = " \t\r\n\"'.,:;*`"
_SHORTEST_PREFIX = 2


class Token(NamedTuple):
    """A token of an answer, and the likeliest alternatives with their log-probabilities."""

    text: str
    likeliest: Sequence[tuple[str, float]]


class Judge(Settings):
    """The options of a judge."""

    prompt: Prompt | None = None
    """For a judge: the message or messages, with `{{text}}` in place of the comment."""
    words: Words = ("yes", "no")
    """For a judge: the words of its answers, the most toxic first. Their scores go from 1 to 0 in
    equal steps."""
    after: str = ""
    """For a judge: the text before the word in an answer. Its last occurrence counts. Default: the
    answer begins with the word."""
    max_tokens: Annotated[int, Field(ge=1)] = 1
    """For a judge: most tokens of an answer, including its reasoning."""
    effort: str | None = None
    """For a judge: amount of reasoning, if its server has such an option."""
    score_as: Literal["probability", "level"] = "probability"
    """For a judge. `probability`: the mean of the words' scores, weighted by their probabilities.
    `level`: the score of the word in the answer."""

    def check_judge(self) -> None:
        """Refuse a prompt or words that cannot work."""
        words = [_normalize(word) for word in self.words]
        if not all(words) or len(set(words)) < len(words):
            msg = "`words` must be different words, the most toxic answer first"
            raise ValueError(msg)
        if self.prompt is None:
            msg = "`prompt` must be given, with {{text}} in place of the comment"
            raise ValueError(msg)
        if "text" not in set(list_placeholders(self.prompt)):
            msg = "`prompt` must hold {{text}} in place of the comment"
            raise ValueError(msg)
        refuse_unknown(self.prompt, {"text"}, "prompt")

    def read_answer(self, answer: str, tokens: Sequence[Token] = ()) -> Outcome:
        """Return the score of an answer, or that it lacks a score.

        `tokens`: the tokens of the answer, for `score_as: probability`.
        """
        by_level = self.score_as == "level"
        score = self._find_score(answer) if by_level else self._compute_mean(tokens)
        return Missing(NO_ANSWER) if score is None else score

    def _find_score(self, answer: str) -> float | None:
        start = self._find_start(answer)
        if start is not None:
            rest = answer[start:].lstrip(_PUNCTUATION).casefold()
            for word, score in self._scores.items():
                if re.match(rf"{re.escape(word)}(?!\w)", rest):
                    return score
        return None

    def _compute_mean(self, tokens: Sequence[Token]) -> float | None:
        scores = self._scores
        probabilities = dict.fromkeys(scores, 0.0)
        for text, logprob in self._list_alternatives(tokens):
            # A token counts for the word that it equals, or for the only word that it begins.
            prefix = _normalize(text)
            words = [word for word in scores if word.startswith(prefix)]
            words = [prefix] if prefix in words else words
            if len(words) == 1 and (len(prefix) >= _SHORTEST_PREFIX or prefix in words):
                probabilities[words[0]] += math.exp(min(logprob, 0.0))
        total = sum(probabilities.values())
        if total < _MIN_PROBABILITY:
            return None
        return sum(p * scores[word] for word, p in probabilities.items()) / total

    def _list_alternatives(self, tokens: Sequence[Token]) -> Iterator[tuple[str, float]]:
        """Yield the tokens that may begin the word, with their log-probabilities."""
        texts = [token.text.translate(_WHITESPACE) for token in tokens]
        word_start = self._find_start("".join(texts))
        if word_start is None or not texts:
            return
        # An answer of a single token may end before its word; the place of the word is known.
        place, before, token_start = 0, "", 0
        for number, text in enumerate(texts):
            inside = max(word_start - token_start, 0)
            if inside < len(text) and _normalize(text[inside:]):
                place, before = number, text[:inside]
                break
            token_start += len(text)
        else:
            if self.after:
                return
        for alternative, logprob in tokens[place].likeliest:
            cleaned = alternative.translate(_WHITESPACE)
            if cleaned.startswith(before):
                yield cleaned[len(before) :], logprob

    def _find_start(self, text: str) -> int | None:
        """Return the earliest start of the word; None if `after` is missing from the text."""
        if not self.after:
            return 0
        pattern = r"\s*".join(map(re.escape, self.after.split()))
        ends = [match.end() for match in re.finditer(pattern, text, re.IGNORECASE)]
        return ends[-1] if ends else None

    @property
    def _scores(self) -> dict[str, float]:
        last = len(self.words) - 1
        return {_normalize(word): (last - at) / last for at, word in enumerate(self.words)}

    def refuse_unusable(self, outcomes: Collection[Outcome], name: str) -> None:
        """Refuse a model without usable answers; refusals do not count as answers."""
        n_scores = sum(not isinstance(outcome, Missing) for outcome in outcomes)
        n_unusable = sum(outcome == Missing(NO_ANSWER) for outcome in outcomes)
        if not n_scores and n_unusable >= _MIN_ANSWERS:
            words = ", ".join(map(repr, self.words))
            after = f" after {self.after!r}" if self.after else ""
            msg = (
                f"{name} must answer with one of {words}{after}; none of "
                f"{n_unusable} answers does. Check that `prompt` is for this model, and that "
                "`max_tokens` leaves room for the word."
            )
            raise InputError(msg)


def _normalize(text: str) -> str:
    return text.strip(_PUNCTUATION).casefold()
