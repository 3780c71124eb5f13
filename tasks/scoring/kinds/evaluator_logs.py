"""Candidate kinds `inspect_log` and `lm_eval_samples`: runs of other evaluators, as scores.

Labels, identities and clusters come from an evaluation set, which may be the same file: `source:
table` reads a sample's metadata by dotted names, as in `metadata.gay` or `doc.gay`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

import pandas as pd
from pydantic import Field, JsonValue, model_validator

from bias_metrics.parts import counted
from biasgate.tasks.common.errors import InputError, place, shown_id
from biasgate.tasks.common.printable import printable
from biasgate.tasks.data import reading
from biasgate.tasks.data.json_lines import JsonLinesError, json_rows, value_of
from biasgate.tasks.scoring.kinds.score_file import ScoreFile
from biasgate.tasks.wording import first_names

_MOST, _LONGEST = 8, 60  # names, and letters of each, in an error
_NO_REGISTER = "`register` is for `kind: scores`: write the scores of the log to a file"


class _Log(ScoreFile):
    """Samples of a run, each with an id and what its score is made of."""

    opened_with = None

    @model_validator(mode="after")
    def _is_no_version(self) -> Self:
        if self.register_as is not None or self.separator is not None:
            raise ValueError(_NO_REGISTER)
        return self

    def check(self) -> None:
        """Refuse a file that is missing, is no such log, or lacks the ids."""
        reading.require_columns(self.path, [self.id])

    def opened_as(self) -> dict[str, JsonValue]:
        """Return nothing to open again: a log is no version of a registered model."""
        return {}

    def scores(self) -> pd.Series[float]:
        """Return the mean score of each sample; of several epochs, if there are."""
        found: dict[str, list[float]] = {}
        lacking, there = "", ""
        for number, row in self._rows():
            there = there or self._there(row)
            given = value_of(row, self.id)
            where = place(file=self.path, row=number)
            if given is None or isinstance(given, bool | dict | list):
                msg = f"every sample must have an id in {self.id!r}; one has none {where}."
                raise InputError(msg)
            score = self._score(row)
            if score is None:
                lacking = lacking or f"the one with id {shown_id(given)} has none {where}"
            found.setdefault(str(given), []).append(math.nan if score is None else score)
        if not found:
            msg = f"file {self.path} must have samples; it has none."
            raise InputError(msg)
        if all(math.isnan(value) for values in found.values() for value in values):
            msg = f"samples of {self.path} must have {self._what}; none has one. {there}".strip()
            raise InputError(msg)
        if lacking and not self.allow_missing:
            msg = (
                f"every sample must have {self._what}; {lacking}. Set `allow_missing: true` if the "
                "model refused it."
            )
            raise InputError(msg)
        self._check_times(found)
        means = {key: sum(values) / len(values) for key, values in found.items()}
        return pd.Series(means, dtype=float)

    def _rows(self) -> Iterator[tuple[int, dict[str, JsonValue]]]:
        try:
            yield from enumerate(json_rows(self.path))
        except (JsonLinesError, OSError, UnicodeDecodeError) as error:
            told = str(error) if isinstance(error, JsonLinesError) else "cannot be read."
            msg = f"file {self.path} {told}"
            raise InputError(msg) from None

    @property
    def _what(self) -> str:
        raise NotImplementedError

    def _score(self, row: Mapping[str, JsonValue]) -> float | None:
        raise NotImplementedError

    def _there(self, row: Mapping[str, JsonValue]) -> str:
        """Say what a sample has instead; empty if nothing is known of it."""
        raise NotImplementedError

    def _check_times(self, found: Mapping[str, list[float]]) -> None:
        """Refuse samples that are there in different numbers."""
        times = {len(values) for values in found.values()}
        if len(times) > 1:
            msg = (
                f"every sample of {self.path} must be there equally often, once for each epoch; "
                f"some are there {min(times)} times and some {max(times)} times."
            )
            raise InputError(msg)


class InspectLog(_Log):
    """A log of inspect_ai in JSON: `inspect eval ... --log-format json`."""

    kind: Literal["inspect_log"]  # type: ignore[assignment]
    scorer: str
    """The scorer whose value is the score of toxicity."""
    score: str = "value"
    """What of it: its `value`, or its `answer`, if `answers` says what that means."""
    answers: dict[str, float] = Field(default_factory=dict)
    """What values mean, as in `{toxic: 1, harmless: 0}`, where they are no numbers. C and I say
    whether an answer was correct, not whether it was toxic: take `score: answer` then."""

    @property
    def columns(self) -> list[str]:
        """What of the file is read."""
        return [self.id, self.scorer, self.score, *(f"{k}={v}" for k, v in self.answers.items())]

    @property
    def _what(self) -> str:
        return f"a number in `scores.{self.scorer}.{self.score}`, or one of `answers`"

    def _score(self, row: Mapping[str, JsonValue]) -> float | None:
        if row.get("error") is not None:
            return None
        found = value_of(row, f"scores.{self.scorer}.{self.score}")
        if isinstance(found, str) and found in self.answers:
            return self.answers[found]
        return _number(found)

    def _there(self, row: Mapping[str, JsonValue]) -> str:
        parts = value_of(row, f"scores.{self.scorer}")
        if isinstance(parts, dict):
            has = _names(list(parts))
            return f"The scorer has {has}; what words mean is said in `answers`."
        scores = row.get("scores")
        names = list(scores) if isinstance(scores, dict) else []
        return f"Its scorers are {_names(names)}." if names else ""


class LmEvalSamples(_Log):
    """Samples of lm-evaluation-harness: `lm_eval ... --log_samples`."""

    kind: Literal["lm_eval_samples"]  # type: ignore[assignment]
    id: str = "doc_id"
    score: str = ""
    """A number of each sample, as in `acc`, or `doc.score`."""
    choice: int | None = Field(default=None, ge=0)
    """Or which choice of a multiple-choice task says toxic, from 0: the score is its probability
    among the choices."""
    filter: str = "none"
    """Which of a task's filters counts."""

    @model_validator(mode="after")
    def _one_score(self) -> Self:
        if bool(self.score) == (self.choice is not None):
            msg = "give `choice`, the choice that says toxic, or `score`, a number of each sample"
            raise ValueError(msg)
        return self

    @property
    def columns(self) -> list[str]:
        """What of the file is read."""
        return [self.id, self.score or f"choice {self.choice}", self.filter]

    @property
    def _what(self) -> str:
        return f"a number in `{self.score}`" if self.score else "a likelihood of each choice"

    def _rows(self) -> Iterator[tuple[int, dict[str, JsonValue]]]:
        others: set[str] = set()
        n = 0
        for number, row in super()._rows():
            given = row.get("filter", self.filter)
            if given == self.filter:
                n += 1
                yield number, row
            else:
                others.add(str(given))
        if others and not n:
            msg = (
                f"`filter` must be one of those in {self.path}: {_names(sorted(others))}; got "
                f"{self.filter!r}."
            )
            raise InputError(msg)

    def _score(self, row: Mapping[str, JsonValue]) -> float | None:
        if self.choice is None:
            return _number(value_of(row, self.score))
        answers = row.get("filtered_resps")
        if not isinstance(answers, list) or not self.choice < len(answers):
            return None
        logs = [
            _number(answer[0] if isinstance(answer, list) and answer else answer)
            for answer in answers
        ]
        known = [log for log in logs if log is not None]
        if len(known) < len(logs):
            return None
        top = max(known)
        shares = [math.exp(one - top) for one in known]
        return shares[self.choice] / sum(shares)

    def _there(self, row: Mapping[str, JsonValue]) -> str:
        if self.choice is None:
            return f"A sample has {_names(list(row))}."
        answers = row.get("filtered_resps")
        n = len(answers) if isinstance(answers, list) else 0
        return f"A sample has {counted(n, 'choice')}, of which 0 is the first."


def _names(names: Sequence[str]) -> str:
    return printable(first_names([str(name)[:_LONGEST] for name in names], _MOST))


def _number(value: Any) -> float | None:
    """Return a finite number, also one that is written as text."""
    if isinstance(value, bool):
        return float(value)
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None
