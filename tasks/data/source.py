"""Base class of evaluation set sources, with the options that apply when measuring.

To add a source, subclass `SourceSettings`. Register the subclass in `SOURCE_KINDS` of
`biasgate.tasks.data.freezing`, or in the entry point group `biasgate.sources` of an installed
package (see docs/extending.md).
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

# Increase this number when the same files give different rows, so that sets are frozen again.
CONVERSION = 4

Threshold = Annotated[float, Field(gt=0, le=1)]


class SourceSettings(Settings):
    """An evaluation set of a configuration; each source adds its own options."""

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
    """Options that do not change the frozen rows (files are identified by content, not path)."""

    conversion: ClassVar[int | str] = CONVERSION
    """Version of the conversion, part of the set's digest. A source in another package sets the
    package's version, so that sets are frozen again after an upgrade."""

    name: Name
    """Name of the set, also in MLflow and of its folder in the output: at most 100 ASCII letters,
    digits, spaces and characters of `_.-`, starting with a letter or digit."""
    source: str
    label_threshold: Threshold = 0.5
    """A row is positive if its label is at least this."""
    identity_threshold: Threshold = 0.5
    """A row mentions an identity if its fraction is at least this."""
    identity_rows: Literal["rated", "all"] = "rated"
    """`rated` measures only rows with ratings of all measured identities; `all` counts an unrated
    identity as not mentioned. The command's first line reports the number of excluded rows. Results
    of the two settings are not comparable."""
    background: Literal["outside_subgroup", "no_identity"] = "outside_subgroup"
    """Rows that an identity is compared with: all rows outside it, including other identities, or
    rows without any measured identity. Results of the two settings are not comparable."""
    weight_kind: WeightKind = "probability"
    """Meaning of the weights, if the set has any: sampling weights, or the number of identical rows
    that a row represents."""
    power_mean_groups: list[str] | None = None
    """Identities in the power means and the final score. Default: all measured identities."""
    population: Literal["sampled", "these_rows"] = "sampled"
    """Population of the verdicts. `sampled`: comments like these, so confidence bounds decide.
    `these_rows`: exactly these phrases, so values decide and the support that a rule requires is
    ignored. Only for phrases from templates (`templates`, or a table with `cluster`); a model is
    promoted only if another required set is a sample."""
    required: bool = True
    """If true, a candidate must pass on this set to be promoted."""
    sample: Annotated[int, Field(ge=1)] | None = None
    """Use a fixed random sample of about this many rows, in whole clusters, the same on every
    machine. The verdict reports the sample, and does not replace a champion that was judged on more
    rows. `--sample` of a command sets it for all sets, and never replaces a champion."""

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
        """True if the rows have weights."""
        return False

    @property
    def has_text(self) -> bool:
        """True if the rows have text."""
        return True

    def downloads(self, cache: Path) -> dict[str, int | None]:  # noqa: ARG002 - for sources that do
        """Return the names and sizes of the files that `prepare` will download.

        Sizes are in bytes, or None if unknown.
        """
        return {}

    def prepare(self, cache: Path) -> Self:  # noqa: ARG002 - for sources that download
        """Download missing files into `cache`; return a source that reads the local files.

        Idempotent: complete and verified files are not downloaded again.
        """
        return self

    def files(self) -> list[Path]:
        """Return the local files that the rows are read from."""
        return []

    def check(self) -> None:
        """Raise an error if files or columns are missing, before any work starts."""

    def split_name(self) -> str:
        """Return the name of the split, which is part of the set's digest."""
        return "all"

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the checked rows, in the columns of `biasgate.tasks.data.evaluation_set`."""
        raise NotImplementedError

    def notes(self) -> dict[str, JsonValue]:
        """Return remarks on the rows for the set's record; called once `chunks` is exhausted."""
        return {}

    def matcher(self) -> TermMatcher | None:
        """Return the matcher that finds identities in the text; None without terms."""
        return None

    def measured_identities(self, available: list[str]) -> list[str]:
        """Return the identities to measure, from those of the frozen set."""
        return available

    def provenance(self) -> dict[str, JsonValue]:
        """Return the inputs of the frozen rows: options that are set, and digests of the files."""
        options = self.model_dump(mode="json", exclude=set(self.not_frozen))
        # Options of later versions must not change the digests of sets that do not use them.
        unset = [key for key, value in options.items() if value in ([], {}, None) or value is False]
        return {key: value for key, value in options.items() if key not in unset} | {
            "conversion": self.conversion,
            "files": {path.name: file_digest(path) for path in self.files()},
        }
