"""A served language model as a judge: the question, and the score that its answer gives."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.scoring.http.templates import placeholders, refuse_unknown
from biasgate.tasks.scoring.outcomes import NO_ANSWER, Missing, Outcome

Prompt = str | list[dict[str, str]]
Words = Annotated[tuple[str, ...], Field(min_length=2)]
NO_PROBABILITIES = (
    "The server, and the model, must support `logprobs`. Without them, set `score_as: level`: "
    "scores then have only as many values as there are `words`, and equal scores tie."
)
_LEAST_SHARE = 0.5
_ENOUGH = 10
# Tokenizers write these for a space and for a line break.
_CLEANED = str.maketrans({"\u0120": " ", "\u2581": " ", "\u010a": "\n"})
_AROUND = " \t\r\n\"'.,:;*`"
_SHORTEST_PART = 2


class Token(NamedTuple):
    """A token of an answer, and the likeliest tokens at its place with their log-probabilities."""

    text: str
    likeliest: Sequence[tuple[str, float]]


class Judge(Settings):
    """The options of a candidate that asks a language model."""

    prompt: Prompt | None = None
    """For a judge: the message, or the messages, with `{{text}}` for the comment."""
    words: Words = ("yes", "no")
    """For a judge: the words that it answers with, the most toxic first. Their scores go from 1 to
    0 in equal steps."""
    after: str = ""
    """For a judge: the text before the word in an answer; its last occurrence counts. Default: the
    answer begins with the word."""
    max_tokens: Annotated[int, Field(ge=1)] = 1
    """For a judge: most tokens of an answer, its reasoning included."""
    effort: str | None = None
    """For a judge: how much it reasons, if its server has such an option."""
    score_as: Literal["probability", "level"] = "probability"
    """For a judge. `probability`: the mean of the words' scores, weighted by their probabilities.
    `level`: the score of the word in the answer."""

    def check_judge(self) -> None:
        """Refuse a question or words that cannot work."""
        plain = [_plain(word) for word in self.words]
        if not all(plain) or len(set(plain)) < len(plain):
            msg = "`words` must be different words, the most toxic answer first"
            raise ValueError(msg)
        if self.prompt is None:
            msg = "`prompt` must be given, with {{text}} in place of the comment"
            raise ValueError(msg)
        if "text" not in set(placeholders(self.prompt)):
            msg = "`prompt` must hold {{text}} in place of the comment"
            raise ValueError(msg)
        refuse_unknown(self.prompt, {"text"}, "prompt")

    def read_answer(self, answer: str, tokens: Sequence[Token] = ()) -> Outcome:
        """Return the score that an answer gives, or that it gives none.

        `tokens`: the tokens of the answer, for `score_as: probability`.
        """
        by_level = self.score_as == "level"
        score = self._score_of_text(answer) if by_level else self._mean_score(tokens)
        return Missing(NO_ANSWER) if score is None else score

    def _score_of_text(self, answer: str) -> float | None:
        begin = self._begin(answer)
        if begin is not None:
            rest = answer[begin:].lstrip(_AROUND).casefold()
            for word, score in self._scores.items():
                if re.match(rf"{re.escape(word)}(?!\w)", rest):
                    return score
        return None

    def _mean_score(self, tokens: Sequence[Token]) -> float | None:
        scores = self._scores
        shares = dict.fromkeys(scores, 0.0)
        for part, logprob in self._alternatives(tokens):
            word = self._word_begun_by(part)
            if word is not None:
                shares[word] += math.exp(min(logprob, 0.0))
        known = sum(shares.values())
        if known < _LEAST_SHARE:
            return None
        return sum(share * scores[word] for word, share in shares.items()) / known

    def _alternatives(self, tokens: Sequence[Token]) -> Iterator[tuple[str, float]]:
        """Yield the tokens that may begin the word, at its place, with log-probabilities."""
        texts = [token.text.translate(_CLEANED) for token in tokens]
        begin = self._begin("".join(texts))
        if begin is None or not texts:
            return
        # An answer of a single token may end before its word; the place of the word is known.
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
        """Return where the word may begin; None if `after` is missing from the text."""
        if not self.after:
            return 0
        pattern = r"\s*".join(map(re.escape, self.after.split()))
        ends = [found.end() for found in re.finditer(pattern, text, re.IGNORECASE)]
        return ends[-1] if ends else None

    def _word_begun_by(self, token: str) -> str | None:
        """Return the word that equals a token, or the only word that begins with it."""
        part = _plain(token)
        if part in self._scores:
            return part
        words = [word for word in self._scores if word.startswith(part)]
        return words[0] if len(part) >= _SHORTEST_PART and len(words) == 1 else None

    @property
    def _scores(self) -> dict[str, float]:
        last = len(self.words) - 1
        return {_plain(word): (last - at) / last for at, word in enumerate(self.words)}

    def refuse_unusable(self, outcomes: Collection[Outcome], name: str) -> None:
        """Refuse a model if none of its answers can be used; refusals do not count as answers."""
        n_scores = sum(not isinstance(outcome, Missing) for outcome in outcomes)
        n_unusable = sum(outcome == Missing(NO_ANSWER) for outcome in outcomes)
        if not n_scores and n_unusable >= _ENOUGH:
            words = ", ".join(map(repr, self.words))
            after = f" after {self.after!r}" if self.after else ""
            msg = (
                f"{name} must answer with one of {words}{after}; none of "
                f"{n_unusable} answers does. Check that `prompt` is for this model, and that "
                "`max_tokens` leaves room for the word."
            )
            raise InputError(msg)


def _plain(text: str) -> str:
    return text.strip(_AROUND).casefold()
