"""One score per text from the answer of a service, as its preset says where to look."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgate.tasks.common.errors import InputError, shown_names
from biasgate.tasks.scoring.asking.guard import NO_PROBABILITIES, Guard, Token
from biasgate.tasks.scoring.asking.templates import fill
from biasgate.tasks.scoring.http.parts import AnswerRule, Combine, Named, Spoken
from biasgate.tasks.scoring.http.paths import found
from biasgate.tasks.scoring.http.preset import Protocol
from biasgate.tasks.scoring.outcomes import Outcome


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
    guard: Guard | None
    """How a language model was asked; None if the service is none."""
    of: str
    """The endpoint, for messages."""

    def outcomes(self, answer: Any, n_texts: int) -> list[Outcome]:
        """Return the score of each text, or why it has none."""
        return [self._outcome(part) for part in self._parts(answer, n_texts)]

    def rule(self, status: int, body: Any) -> AnswerRule | None:
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
            self._refuse(f"answer one score per text; got {len(parts)} for {n_texts}")
        if self.preset.index is not None:
            return self._ordered(parts)
        return parts

    def _reshaped(self, parts: list[Any], n_texts: int) -> list[Any]:
        """Return as many numbers for each text, from a tensor that may be flat or nested."""
        try:
            numbers = np.asarray(parts, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            numbers = np.empty(0)
        if not numbers.size or numbers.size % n_texts:
            self._refuse(f"answer as many numbers for each text; got {numbers.size} for {n_texts}")
        rows: list[Any] = numbers.reshape(n_texts, -1).tolist()
        return rows

    def _ordered(self, parts: list[Any]) -> list[Any]:
        assert self.preset.index is not None  # noqa: S101 - checked by the caller
        at = [found(self.preset.index, part) for part in parts]
        by_number = {one[0]: part for one, part in zip(at, parts, strict=True) if _is_number(one)}
        if set(by_number) != set(range(len(parts))):
            self._refuse(f"number its {len(parts)} parts from 0 (`{self.preset.index}`)")
        return [by_number[number] for number in range(len(parts))]

    def _outcome(self, part: Any) -> Outcome:
        score = self.preset.score
        if isinstance(score, Spoken):
            return self._judged(score, part)
        if isinstance(score, Named):
            return self._combined(self._by_category(score, part))
        path = str(fill(score, self.options))
        return self._combined([self._number(found(path, part), path)])

    def _by_category(self, score: Named, part: Any) -> list[float]:
        numbers: dict[str, float] = {}
        if score.name is None:
            for at in found(score.at, part):
                for name, one in at.items() if isinstance(at, dict) else ():
                    self._add(numbers, name, one, score)
        else:
            for one in found(score.at, part):
                names = found(score.name, one)
                if len(names) != 1 or not isinstance(names[0], str):
                    self._refuse(f"name each category (`{score.name}`)")
                self._add(numbers, names[0], one, score)
        wanted = list(self.categories) or list(numbers)
        unknown = [name for name in wanted if name not in numbers]
        if unknown or not wanted:
            which = repr(unknown[0]) if unknown else "any"
            known = shown_names(numbers) or "none"
            msg = (
                f"{self.of} must answer with the category {which} of `categories`; it did not "
                f"(known: {known})."
            )
            raise InputError(msg)
        return [numbers[name] for name in wanted]

    def _add(self, numbers: dict[str, float], name: str, one: Any, score: Named) -> None:
        if self.categories and name not in self.categories:
            return
        if name in numbers:
            self._refuse("name each category once")
        numbers[name] = self._number(found(score.value, one), score.value)

    def _number(self, values: list[Any], path: str) -> float:
        if not _is_number(values):
            self._refuse(f"have one finite number at `{path}`")
        number = float(values[0])
        if self.preset.scale is None:
            return number
        low, high = self.preset.scale
        if not low <= number <= high:
            self._refuse(f"answer with scores from {low:g} to {high:g} (`scale`); one is outside")
        return (number - low) / (high - low)

    def _combined(self, numbers: Sequence[float]) -> float:
        if len(numbers) == 1:
            return numbers[0]
        if self.combine == "max":
            return max(numbers)
        if not all(0 <= number <= 1 for number in numbers):
            self._refuse("answer with probabilities for `combine: noisy_or`; one is outside [0, 1]")
        return 1 - math.prod(1 - number for number in numbers)

    def _judged(self, score: Spoken, part: Any) -> Outcome:
        """Return what the answer of a language model means."""
        assert self.guard is not None  # noqa: S101 - checked with the settings
        text = found(score.text, part)
        if len(text) != 1 or not (text[0] is None or isinstance(text[0], str)):
            self._refuse(f"answer with a text (`{score.text}`)")
        if self.guard.score_as == "level":
            return self.guard.outcome(text[0] or "", counted=self.categories)
        tokens = self._tokens(score, part)
        if text[0] and not tokens:
            self._refuse(f"answer with log-probabilities (`{score.top}`). {NO_PROBABILITIES}")
        return self.guard.outcome(text[0] or "", tokens, self.categories)

    def _tokens(self, score: Spoken, part: Any) -> list[Token]:
        tokens, top = found(score.tokens, part), found(score.top, part)
        if len(tokens) != len(top) or not all(isinstance(token, str) for token in tokens):
            self._refuse(f"answer with log-probabilities of each token (`{score.top}`)")
        return [Token(*both) for both in zip(tokens, map(self._likeliest, top), strict=True)]

    def _likeliest(self, top: Any) -> list[tuple[str, float]]:
        score = self.preset.score
        assert isinstance(score, Spoken)  # noqa: S101 - checked by the caller
        pairs = [([token], [one]) for token, one in top.items()] if isinstance(top, dict) else None
        if pairs is None and isinstance(top, list):
            pairs = [(found(score.token, one), found(score.logprob, one)) for one in top]
        likeliest = []
        for token, logprob in pairs or ():
            if len(token) != 1 or not isinstance(token[0], str) or not _is_number(logprob):
                self._refuse(f"answer with log-probabilities of tokens (`{score.top}`)")
            likeliest.append((token[0], min(float(logprob[0]), 0.0)))
        return likeliest

    def _refuse(self, rule: str) -> None:
        msg = f"{self.of} must {rule}."
        raise InputError(msg)


def _is_number(values: list[Any]) -> bool:
    """Say whether a path found one finite number."""
    if len(values) != 1 or isinstance(values[0], bool) or not isinstance(values[0], int | float):
        return False
    try:
        return math.isfinite(values[0])
    except OverflowError:  # an integer of hundreds of digits
        return False
