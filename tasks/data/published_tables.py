"""Public test sets in the layouts in which their authors publish them; none is copied here.

They contain abuse. HateCheck (Röttger et al. 2021) and Multilingual HateCheck (Röttger et al. 2022,
ten languages) are CC BY 4.0; ToxiGen (Hartvigsen et al. 2022) has terms of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import reading
from biasgate.tasks.data.mapped import Terms
from biasgate.tasks.data.mapped_columns import LabelValues
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
