"""Public test sets in the layouts in which their authors publish them; none is copied here.

They contain abuse. HateCheck (Röttger et al. 2021) and Multilingual HateCheck (Röttger et al. 2022,
ten languages) are CC BY 4.0; ToxiGen (Hartvigsen et al. 2022) has terms of its own. In HateXplain
(Mathew et al. 2021) and the Social Bias Inference Corpus (Sap et al. 2020) each post has the
answers of several annotators: the label is the fraction who call the post offensive; an identity's
fraction is that of those who name it as a target.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from biasgate.tasks.common.errors import InputError, place
from biasgate.tasks.common.settings import ConfigPath
from biasgate.tasks.data import reading
from biasgate.tasks.data.evaluation_set import IDENTITY, RATERS
from biasgate.tasks.data.identity_names import named_by_themselves
from biasgate.tasks.data.mapped import Terms
from biasgate.tasks.data.mapped_columns import LabelValues
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.table import FileSource

_ALL: Terms = {"(every name)": ["(every name)"]}  # until the file is read


class _PublishedTable(FileSource):
    """A table whose columns are known; the names in its column of targets are the identities."""

    text: str | None = "text"
    names: Terms = Field(default_factory=lambda: dict(_ALL))
    """Identities, as in `source: table`. Default: every name that the file has."""
    identity_rows: Literal["rated", "all"] = "all"

    def prepare(self, cache: Path) -> Self:
        """Take the names of the file for identities, unless some are given."""
        prepared = super().prepare(cache)
        if self.names != _ALL or self.names_in is None:
            return prepared
        alike: dict[str, list[str]] = {}
        for name in self.values_of(self.names_in):
            alike.setdefault(name.casefold(), []).append(name)
        if not alike:
            msg = f"file {self.path} must name a target in column {self.names_in!r}; it has none."
            raise InputError(msg)
        return prepared.model_copy(update={"names": {same[0]: same for same in alike.values()}})


class HateCheckSource(_PublishedTable):
    """HateCheck in English, or one language of Multilingual HateCheck, as its CSV file.

    Functions are slices, as `functionality.derog_impl_h`; targets are identities; the cases of one
    template are a cluster.
    """

    source: Literal["hatecheck"]
    id: str = "mhc_case_id"
    """In English `case_id`, which is found by itself."""
    label: str = "label_gold"
    label_values: LabelValues | None = Field(
        default_factory=lambda: {"hateful": 1.0, "non-hateful": 0.0}
    )
    text: str | None = "test_case"
    cluster: str | None = "templ_id"
    names_in: str | None = "target_ident"
    slices_in: tuple[str, ...] = ("functionality",)

    def check(self) -> None:
        """Refuse another file."""
        self._of_language().require()

    def prepare(self, cache: Path) -> Self:
        """Choose the column of ids."""
        return super(HateCheckSource, self._of_language()).prepare(cache)

    def require(self) -> None:
        """Refuse a file that is missing or lacks a column."""
        super().check()

    def _of_language(self) -> Self:
        if self.path.is_file() and "case_id" in reading.file_columns(self.path, self.separator):
            return self.model_copy(update={"id": "case_id"})
        return self


class ToxiGenSource(_PublishedTable):
    """The part of ToxiGen that people rated, from 1 to 5, as its table `annotated`.

    The label is 0 at a rating of 1, 1 at 5, and 0.5 at 3.
    """

    source: Literal["toxigen"]
    id: str = "row_number"
    label: str = "toxicity_human"
    text: str | None = "text"
    names_in: str | None = "target_group"

    def _labels(self, chunk: reading.Chunk, ids: pa.Array) -> dict[str, pa.Array]:
        ratings = reading.to_numbers(chunk, self.label, ids)
        known = pc.fill_null(ratings, float("nan"))
        inside = pc.and_(pc.greater_equal(known, 1.0), pc.less_equal(known, 5.0))
        rule = "a rating of ToxiGen must be between 1 and 5"
        reading.refuse_values(chunk, self.label, pc.invert(inside), rule, ids, ratings)
        return {"label": pc.divide(pc.subtract(ratings, 1.0), 4.0)}


_OFFENSIVE = {"hatespeech": 1.0, "offensive": 1.0, "normal": 0.0}
_NO_TARGET = {"", "none", "other"}


@dataclass
class _Post:
    """A post, and what annotators said of it."""

    text: str
    answers: list[float] = field(default_factory=list)
    targets: list[set[str]] = field(default_factory=list)
    """Names in lower case, of each annotator."""


class _RatedPosts(SourceSettings):
    """Posts with one record for each annotator."""

    path: ConfigPath
    """The file, as its authors publish it."""
    names: Terms = Field(default_factory=dict)
    """Identities, and the targets that stand for each, as in `{black: [african, black folks]}`."""

    @field_validator("names", mode="before")
    @classmethod
    def _name_terms(cls, value: Any) -> Any:
        return named_by_themselves(value)

    def files(self) -> list[Path]:
        """Return the file."""
        return [self.path]

    def check(self) -> None:
        """Refuse a file that is missing."""
        if not self.path.is_file():
            msg = f"file {self.path} must exist: download it from its authors."
            raise InputError(msg)

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the posts that somebody rated."""
        posts = {name: post for name, post in self._posts().items() if post.answers}
        names = {name: {word.casefold() for word in words} for name, words in self.names.items()}
        if not names:
            every = sorted(
                {one for post in posts.values() for said in post.targets for one in said}
            )
            names = {name: {name} for name in every}
        shares = {
            IDENTITY + name: [
                float(np.mean([not words.isdisjoint(said) for said in post.targets]))
                for post in posts.values()
            ]
            for name, words in names.items()
        }
        if lacking := [name for name, of in shares.items() if not any(of)]:
            msg = (
                f"an annotator must name each identity of `names`; none names "
                f"{lacking[0].removeprefix(IDENTITY)!r} {place(file=self.path)}."
            )
            raise InputError(msg)
        yield pa.table(
            {
                "id": list(posts),
                "text": pa.array([post.text for post in posts.values()], pa.large_string()),
                "label": [float(np.mean(post.answers)) for post in posts.values()],
                RATERS: [float(len(post.answers)) for post in posts.values()],
                **shares,
            }
        )

    def _posts(self) -> dict[str, _Post]:
        """Return the posts by id."""
        raise NotImplementedError


class HateXplainSource(_RatedPosts):
    """`dataset.json` of HateXplain: hate speech and offensive posts count as offensive."""

    source: Literal["hatexplain"]

    def _posts(self) -> dict[str, _Post]:
        posts, known = {}, "its records"
        try:
            for known, record in json.loads(self.path.read_text("utf-8")).items():
                post = posts[known] = _Post(" ".join(record["post_tokens"]))
                for annotator in record["annotators"]:
                    post.answers.append(_OFFENSIVE[annotator["label"]])
                    named = {name.casefold() for name in annotator["target"]}
                    post.targets.append(named - _NO_TARGET)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = (
                "a record of HateXplain must have `post_tokens` and `annotators` with `label` and "
                f"`target`; got {type(error).__name__} {place(file=self.path, id=known)}."
            )
            raise InputError(msg) from None
        return posts


class SbicSource(_RatedPosts):
    """A table of the Social Bias Inference Corpus, with one row for each annotator.

    Identities must be given by `names`, because annotators wrote targets in their own words.
    """

    source: Literal["sbic"]
    names: Terms = Field(min_length=1)

    def check(self) -> None:
        """Refuse a file that lacks a column."""
        super().check()
        reading.require_columns(self.path, _COLUMNS)

    def _posts(self) -> dict[str, _Post]:
        posts: dict[str, _Post] = {}
        for chunk in reading.read_chunks(self.path, _COLUMNS):
            numbers = reading.to_numbers(chunk, "offensiveYN").to_pylist()
            texts, targets = (
                chunk.table.column(one).to_pylist() for one in ("post", "targetMinority")
            )
            for text, answer, target in zip(texts, numbers, targets, strict=True):
                known = blake2b(str(text).encode(), digest_size=12).hexdigest()
                post = posts.setdefault(known, _Post(str(text)))
                if answer is not None:
                    post.answers.append(float(answer))
                    post.targets.append({str(target or "").strip().casefold()} - _NO_TARGET)
        return posts


_COLUMNS = ["post", "offensiveYN", "targetMinority"]
