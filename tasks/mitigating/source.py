"""Source `mitigated`: a training set as changed by a method, frozen with its own digest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, JsonValue, PrivateAttr, model_validator

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import WEIGHT
from biasgate.tasks.data.freezing import Source
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import TermMatcher
from biasgate.tasks.mitigating.methods.catalogue import AnyMethod, list_method_code
from biasgate.tasks.mitigating.methods.method import Method, TrainingChange
from biasgate.tasks.mitigating.rows import TrainingRows, read_rows


class MitigatedSource(SourceSettings):
    """The rows of another source, with rows or weights that a method adds."""

    not_frozen: ClassVar[frozenset[str]] = SourceSettings.not_frozen | {"base", "pool"}

    source: Literal["mitigated"]
    base: Source
    """The training set."""
    method: AnyMethod
    """What changes the training set, such as `reweight`."""
    pool: Source | None = None
    """Comments that are assumed to be non-toxic."""
    only: tuple[str, ...] | None = None
    """The identities to balance. Default: all of the training set."""
    seed: Annotated[int, Field(ge=0)] = 0
    """The same seed gives the same rows."""
    _change: TrainingChange | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_coherence(self) -> Self:
        for key in ("label_threshold", "identity_threshold"):
            if getattr(self, key) != getattr(self.base, key):
                msg = (
                    f"`{key}` must be that of `base`, {getattr(self.base, key)}; got "
                    f"{getattr(self, key)}"
                )
                raise ValueError(msg)
        if self.method.needs_pool and self.pool is None:
            msg = f"method {self.method.called} needs a `pool` of non-toxic comments"
            raise ValueError(msg)
        return self

    @property
    def has_text(self) -> bool:
        """True if the rows have text."""
        return self.base.has_text

    def prepare(self, cache: Path) -> Self:
        """Download missing files of the training set and of the pool."""
        prepared = {"base": self.base.prepare(cache)}
        if self.pool is not None:
            prepared["pool"] = self.pool.prepare(cache)
        return self.model_copy(update=prepared)

    def files(self) -> list[Path]:
        """Return the files of the training set and of the pool."""
        return [*self.base.files(), *(self.pool.files() if self.pool else [])]

    def check(self) -> None:
        """Refuse missing files, and files without required columns."""
        self.base.check()
        if self.pool is not None:
            self.pool.check()

    def split_name(self) -> str:
        """Return the split of the training set."""
        return self.base.split_name()

    def provenance(self) -> dict[str, JsonValue]:
        """Return the settings, files and code that the frozen rows depend on."""
        options = super().provenance()
        options |= {"files": {}, "code": [*list_method_code(self.method)]}
        for key, source in (("base", self.base), ("pool", self.pool)):
            if source is not None:
                options[key] = {**source.provenance(), "split": source.split_name()}
        return options

    def matcher(self) -> TermMatcher | None:
        """Return the matcher of the training set."""
        return self.base.matcher()

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the training set as changed by the method, in a single chunk."""
        rows = TrainingRows.from_table(self.base, read_rows(self.base), self.only)
        pool = None
        if self.pool is not None:
            pool = TrainingRows.from_table(self.pool, read_rows(self.pool))
        table, self._change = change_rows(self.method, rows, pool, self.seed)
        yield table

    def notes(self) -> dict[str, JsonValue]:
        """Return the report of the method's change, in numbers and in words."""
        if self._change is None:
            return {}
        return {
            "mitigation": {
                "method": self.method.called,
                "report": dict(self._change.report),
                "sentences": list(self._change.sentences),
            }
        }


def change_rows(
    method: Method, rows: TrainingRows, pool: TrainingRows | None, seed: int
) -> tuple[pa.Table, TrainingChange]:
    """Apply a method to rows; return the new rows and the change."""
    change = method.change(rows, pool, np.random.default_rng([seed, 17]))
    table = rows.table
    if change.added is not None:
        table = pa.concat_tables([table, change.added])
    if change.weights is not None:
        if WEIGHT in table.column_names:
            msg = (
                f"training set {rows.name!r} must not have `weight` for method {method.called}, "
                "which computes weights; it does."
            )
            raise InputError(msg)
        table = table.append_column(WEIGHT, pa.array(np.asarray(change.weights, float)))
    return table, change
