"""Evaluation sets from the columns of a CSV, JSON lines or Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from biasgate.tasks.common.settings import ConfigPath
from biasgate.tasks.data.chunks import Chunk, TextFormat, read_chunks, require_columns
from biasgate.tasks.data.hashed_parts import HashedPart, select_part
from biasgate.tasks.data.mapped import MappedSource


class FileSource(TextFormat, MappedSource):
    """A table of labelled comments in a single file."""

    path: ConfigPath
    """CSV or JSON lines, also gzipped, or Parquet, by the file's name; other names are read as CSV.
    At most 10,000 columns."""
    split: HashedPart = "all"
    """A part of the rows, chosen by a hash of the text (without text: of the id), so that a
    repeated comment is never in both parts."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Fraction of the rows in `test`."""

    def files(self) -> list[Path]:
        """Return the table's file."""
        return [self.path]

    def check(self) -> None:
        """Raise an error if the file is missing or lacks a column."""
        require_columns(self.path, self._list_columns(), self)

    def split_name(self) -> str:
        """Return the name of the selected part."""
        return self.split if self.split == "all" else f"{self.split} of {self.test_fraction}"

    def _read_raw_chunks(self, columns: list[str]) -> Iterator[Chunk]:
        return read_chunks(self.path, columns, text_format=self)

    def _select_part(self, table: pa.Table) -> pa.Table:
        return select_part(table, self.split, self.test_fraction)


class TableSource(FileSource):
    """Any such table; the options of `MappedSource` name its columns."""

    source: Literal["table"]
