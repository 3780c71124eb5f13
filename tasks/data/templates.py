"""Evaluation sets of short sentences about identities, generated from templates.

Every sentence frame is filled with every identity, and equally often with hostile and friendly
words. Any difference in scores between identities is thus due to the classifier.
After Dixon et al. (2018), Measuring and Mitigating Unintended Bias in Text Classification,
section 4; the phrases were written for this project.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import (
    Field,
    JsonValue,
    PrivateAttr,
    StringConstraints,
    field_validator,
    model_validator,
)

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.data import phrases
from biasgate.tasks.data.evaluation_set import IDENTITY, TERMS
from biasgate.tasks.data.identity_names import expand_term_list
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import TermMatcher

TemplatePart = Literal["train", "test", "all"]
Spelling = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
# With 4,000 rows, even the frame with the fewest combinations has enough of them.
RowCount = Annotated[int, Field(ge=0, le=4000, multiple_of=2)]

Terms = Annotated[dict[Name, Annotated[list[Spelling], Field(min_length=1)]], Field(min_length=1)]

_NO_TERM = "-"  # not a possible name


class PlantedBias(Settings):
    """Simulated annotators that mistake mentions of some identities for insults."""

    terms: Annotated[list[Name], Field(min_length=1)]
    """The identities."""
    strength: Annotated[float, Field(ge=0, le=1)]
    """Probability that a non-toxic sentence with such a mention is labelled toxic."""


class TemplatesSource(SourceSettings):
    """Sentences generated from templates; each sentence frame is a cluster."""

    source: Literal["templates"]
    terms: Terms = Field(default_factory=lambda: dict(phrases.DEFAULT_TERMS))
    """The identities, as adjectives; a dict lists the spellings to draw from, as in `{transgender:
    [transgender, trans]}`."""
    part: TemplatePart = "test"
    """Part of the sentences. Parts never share a frame, for any seeds; `test` has further words."""
    rows_per_term: Annotated[RowCount, Field(ge=2)] = 240
    """Number of sentences per identity and part; half are toxic."""
    rows_without_term: RowCount = 480
    """Number of sentences without an identity per part; half are toxic."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the choice among the possible sentences."""
    planted_bias: PlantedBias | None = None
    """Biased labels, for training data only."""
    _matcher: TermMatcher | None = PrivateAttr(default=None)

    @field_validator("terms", mode="before", json_schema_input_type=Terms | list[Name])
    @classmethod
    def _name_terms(cls, value: Any) -> Any:
        return expand_term_list(value)

    @field_validator("terms")
    @classmethod
    def _check_spellings(cls, value: Terms) -> Terms:
        seen: set[str] = set()
        for spelling in (spelling.lower() for words in value.values() for spelling in words):
            if spelling in seen:
                msg = f"`terms` must list each spelling once; got {spelling!r} twice"
                raise ValueError(msg)
            seen.add(spelling)
        return value

    @model_validator(mode="after")
    def _check_planted_bias(self) -> Self:
        if self.planted_bias is None:
            return self
        if self.part != "train":
            msg = (
                f"`planted_bias` must have `part: train`; got `part: {self.part}`. "
                "Biased labels are for training: measured on them, a biased model looks good"
            )
            raise ValueError(msg)
        unknown = sorted(set(self.planted_bias.terms) - set(self.terms))
        if unknown:
            msg = (
                f"`planted_bias.terms` must be among `terms`; got {', '.join(unknown)}, "
                f"and `terms` has {', '.join(self.terms)}.{did_you_mean(unknown[0], self.terms)}"
            )
            raise ValueError(msg)
        return self

    def split_name(self) -> str:
        """Return the part."""
        return self.part

    def chunks(self) -> Iterator[pa.Table]:
        """Yield a table of sentences per part."""
        matcher = self._matcher = self.matcher()
        fillings = {term: (words, self.rows_per_term) for term, words in self.terms.items()}
        fillings[_NO_TERM] = (list(phrases.NEUTRAL), self.rows_without_term)
        for part, frames in (("train", phrases.TRAIN_FRAMES), ("test", phrases.TEST_FRAMES)):
            if self.part not in (part, "all"):
                continue
            sentences: list[_Sentence] = []
            for term, (spellings, n_rows) in fillings.items():
                sentences += _fill_frames(frames, term, spellings, n_rows // 2, self.seed)
            yield self._build_table(sentences, matcher)

    def matcher(self) -> TermMatcher:
        """Return the matcher of the terms."""
        return TermMatcher(self.terms)

    def notes(self) -> dict[str, JsonValue]:
        """Return the terms in order of their numbers, and the terms without a match."""
        if self._matcher is None:
            return {}
        return {
            "unmatched_terms": self._matcher.list_unmatched(),
            TERMS: self._matcher.list_coded_terms(),
        }

    def _build_table(self, sentences: list[_Sentence], matcher: TermMatcher) -> pa.Table:
        texts = [sentence.text for sentence in sentences]
        term_columns = matcher.build_columns(texts)
        labels = np.array([sentence.toxic for sentence in sentences], dtype=np.bool_)
        if self.planted_bias is not None:
            names = [name for name in matcher.identities if name in self.planted_bias.terms]
            mentions = [term_columns[IDENTITY + name].to_numpy() == 1 for name in names]
            draws = np.array(
                [_draw_fraction(self.seed, "label", sentence.id) for sentence in sentences]
            )
            labels |= np.any(mentions, axis=0) & (draws < self.planted_bias.strength)
        columns = {
            "id": pa.array([sentence.id for sentence in sentences], pa.string()),
            "text": pa.array(texts, pa.large_string()),
            "label": pa.array(labels.astype(np.float64)),
            "cluster": pa.array([sentence.frame for sentence in sentences], pa.string()),
        }
        return pa.table(columns | term_columns)


@dataclass(frozen=True)
class _Sentence:
    id: str
    frame: str
    text: str
    toxic: bool


def _fill_frames(
    frames: Sequence[phrases.SentenceFrame], term: str, spellings: list[str], n_each: int, seed: int
) -> Iterator[_Sentence]:
    """Yield `n_each` toxic and as many non-toxic sentences, spread evenly over the frames."""
    shuffled = sorted(frames, key=lambda frame: _draw_fraction(seed, "frame", term, frame.key))
    for position, frame in enumerate(shuffled):
        n_frame = n_each // len(frames) + (position < n_each % len(frames))
        for toxic in (False, True):
            yield from _fill_frame(frame, term, spellings, n_frame, toxic=toxic, seed=seed)


def _fill_frame(
    frame: phrases.SentenceFrame,
    term: str,
    spellings: list[str],
    n_rows: int,
    *,
    toxic: bool,
    seed: int,
) -> Iterator[_Sentence]:
    polarity: phrases.Polarity = "hostile" if toxic != frame.negated else "friendly"
    words = phrases.select_words(frame.kind, polarity, held_out=frame in phrases.TEST_FRAMES)
    shape = (len(spellings), len(words), len(phrases.PEOPLE))
    taken: set[int] = set()
    attempt = 0
    while len(taken) < n_rows:
        draw = _draw_fraction(seed, "fill", frame.key, term, polarity, attempt)
        taken.add(int(draw * math.prod(shape)))
        attempt += 1
    for number in sorted(taken):
        spelling, word, person = (int(index) for index in np.unravel_index(number, shape))
        text = frame.text.format(
            term=spellings[spelling],
            who=phrases.PEOPLE[person],
            group=phrases.PEOPLE[person] + "s",
            **{frame.kind: words[word]},
        )
        yield _Sentence(
            id=f"{frame.key}/{term}.{spelling}/{polarity}.{word}/{person}",
            frame=frame.key,
            text=text[0].upper() + text[1:],
            toxic=toxic,
        )


def _draw_fraction(seed: int, *key: object) -> float:
    """Hash a key to [0, 1), reproducibly on every machine and with every numpy version."""
    content = repr((seed, *key)).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=6).digest()) / 2.0**48
