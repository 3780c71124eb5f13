"""Shadow files: two models, and comments without labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.data import reading
from biasgate.tasks.data.freezing import check_source
from biasgate.tasks.data.table import TableSource
from biasgate.tasks.scoring.kinds.catalogue import Candidate


class Comments(TableSource):
    """Comments without labels, from a table; options as for `source: table`."""

    def _label_columns(self) -> list[str]:
        return []

    def _labels(self, chunk: reading.Chunk, ids: pa.Array) -> dict[str, pa.Array]:
        """Return 0 for every row: nothing reads it."""
        del chunk
        return {"label": pa.array(np.zeros(len(ids)))}


class ShadowFile(Settings):
    """The content of a shadow file."""

    name: Name
    """Name of the comparison."""
    comments: Comments
    """The site's own comments."""
    before: Candidate
    after: Candidate
    """The model in use, with its `threshold`, and its successor. Without a threshold of its own,
    the successor gets the one at which it flags as many comments."""
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """To how much the difference in accuracy should be known from the labels."""
    n_alike: Annotated[int, Field(ge=1)] = 50
    """Comments to label where both flag, and where neither does."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Which comments are drawn."""

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.before.threshold is None:
            msg = "`before` must have the `threshold` that it is used with"
            raise ValueError(msg)
        if self.before.name == self.after.name:
            msg = "names of `before` and `after` must differ"
            raise ValueError(msg)
        for one in (self.before, self.after):
            if one.training() is not None:
                msg = f"candidate {one.name} must exist already; it is trained here"
                raise ValueError(msg)
        if self.comments.weight is not None:
            msg = "`comments` must have no `weight`: every comment counts once"
            raise ValueError(msg)
        return self


def read_shadow(path: Path) -> ShadowFile:
    """Read a shadow file, and check everything that can be checked now."""
    found = read_settings(path.resolve(), ShadowFile)
    check_source(found.comments)
    for one in (found.before, found.after):
        one.check()
        one.require_text(found.comments)
    return found
