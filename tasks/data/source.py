"""The base class of evaluation set sources, with the choices that apply when measuring.

To add a source, subclass `SourceSettings`. It is named in `SOURCE_KINDS` of
`biasgate.tasks.data.freezing`, or by an installed package in its entry point group
`biasgate.sources` (see docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import Field, JsonValue, model_validator

from bias_metrics.rows import WeightKind
from biasgate.tasks.common.files import file_digest
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.data.terms import TermMatcher

# Increase this when the same files give other rows than before: sets are then frozen again.
CONVERSION = 4

Threshold = Annotated[float, Field(gt=0, le=1)]


class SourceSettings(Settings):
    """One evaluation set of a configuration; each source adds its own options."""

    not_frozen: ClassVar[frozenset[str]] = frozenset(
        {
            "name",
            "label_threshold",
            "identity_threshold",
            "identity_rows",
            "background",
            "weight_kind",
            "power_mean_groups",
            "population",
            "required",
            "path",
        }
    )
    """Options that do not change the frozen rows (files count by content, not by path)."""

    conversion: ClassVar[int | str] = CONVERSION
    """Part of the set's digest. A source of another package sets the package's version here, so
    that sets are frozen again after an upgrade."""

    name: Name
    """Name of the set, its folder in the output, its name in MLflow: at most 100 ASCII letters,
    digits, spaces and characters of `_.-`, starting with a letter or digit."""
    source: str
    label_threshold: Threshold = 0.5
    """A row is positive if its label is at least this."""
    identity_threshold: Threshold = 0.5
    """A row mentions an identity if its fraction is at least this."""
    identity_rows: Literal["rated", "all"] = "rated"
    """`rated` measures only rows whose measured identities were all rated; `all` counts an unrated
    identity as not mentioned. The first line that the command prints says how many rows are left
    out. Results of the two cannot be compared."""
    background: Literal["outside_subgroup", "no_identity"] = "outside_subgroup"
    """What an identity's rows are compared with: all rows outside it, other identities included, or
    the rows with none of the measured identities. Results of the two cannot be compared."""
    weight_kind: WeightKind = "probability"
    """What the weights of a set that has any mean: sampling weights, or the number of identical
    rows that a row stands for."""
    power_mean_groups: list[str] | None = None
    """The identities in the power means and the final score. Default: all measured ones."""
    population: Literal["sampled", "these_rows"] = "sampled"
    """What verdicts are about. `sampled`: comments like these, so bounds decide. `these_rows`:
    exactly these phrases, so values decide, whatever support a rule asks for. Only for phrases made
    from templates (`templates`, or a table with `cluster`); a model is promoted only if another
    required set is a sample."""
    required: bool = True
    """Whether a candidate must pass on this set to be promoted."""
    sample: Annotated[int, Field(ge=1)] | None = None
    """Use a fixed random part of about this many rows, with whole clusters, the same on every
    machine. A verdict on a sample says so, and does not replace a champion that was judged on more.
    `--sample` of a command sets it for all sets, and replaces no champion."""

    @model_validator(mode="after")
    def _check_population(self) -> Self:
        listed = self.source == "templates" or getattr(self, "cluster", None) is not None
        if self.population == "these_rows" and not listed:
            msg = (
                "`population: these_rows` is for phrases made from templates: set `cluster` to the "
                "column of their template. Comments are a sample of more comments"
            )
            raise ValueError(msg)
        if self.population == "these_rows" and self.sample is not None:
            msg = "`sample` and `population: these_rows` must not be set together: remove either"
            raise ValueError(msg)
        return self

    @property
    def is_weighted(self) -> bool:
        """Whether options say that rows have weights."""
        return False

    @property
    def has_text(self) -> bool:
        """Whether the rows have text."""
        return True

    def downloads(self, cache: Path) -> dict[str, int | None]:  # noqa: ARG002 - for sources that do
        """Return the files that `prepare` will download, and their sizes in bytes if known."""
        return {}

    def prepare(self, cache: Path) -> Self:  # noqa: ARG002 - for sources that download
        """Download missing files into `cache`; return the source of local files.

        Idempotent: complete and verified files are not downloaded again.
        """
        return self

    def files(self) -> list[Path]:
        """Return the local files that the set is built from."""
        return []

    def check(self) -> None:
        """Raise an error, before any work starts, for missing files or columns."""

    def split_name(self) -> str:
        """Return the split of the source; it is part of the set's digest."""
        return "all"

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the checked rows, in the columns of `biasgate.tasks.data.evaluation_set`."""
        raise NotImplementedError

    def notes(self) -> dict[str, JsonValue]:
        """Return remarks on the rows for the set's record; called after `chunks` is exhausted."""
        return {}

    def matcher(self) -> TermMatcher | None:
        """Return the matcher that finds identities in the text, or None."""
        return None

    def measured_identities(self, available: list[str]) -> list[str]:
        """Return which of the frozen set's identities to measure."""
        return available

    def provenance(self) -> dict[str, JsonValue]:
        """Return what the frozen rows depend on: options that are set, and files by content."""
        options = self.model_dump(mode="json", exclude=set(self.not_frozen))
        # Options added later must not change the digests of sets that do not use them.
        unset = [key for key, value in options.items() if value in ([], {}, None) or value is False]
        return {key: value for key, value in options.items() if key not in unset} | {
            "conversion": self.conversion,
            "files": {path.name: file_digest(path) for path in self.files()},
        }
