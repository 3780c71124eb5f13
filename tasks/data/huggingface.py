"""Evaluation sets from Hugging Face: a data set at a commit, a local copy, or Parquet files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

import pyarrow as pa
from pydantic import (
    Field,
    JsonValue,
    PrivateAttr,
    StringConstraints,
    field_validator,
    model_validator,
)

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest, folder_digest
from biasgate.tasks.common.settings import ConfigPath, Settings
from biasgate.tasks.data import reading
from biasgate.tasks.data.download import download
from biasgate.tasks.data.hashed_parts import Part, rows_of_part
from biasgate.tasks.data.hub import Repository, exported, require_datasets
from biasgate.tasks.data.mapped import MappedSource

Commit = Annotated[str, StringConstraints(pattern="^[0-9a-f]{40}$")]
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$", to_lower=True)]
HubName = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
_OTHERWISE = "Without a network, download the file elsewhere and give its path instead of `url`."


class ParquetFile(Settings):
    """A Parquet file, here or elsewhere."""

    path: ConfigPath | None = None
    """A local file."""
    url: (
        Annotated[str, StringConstraints(pattern=r"^https?://[^/]+/.*\.parquet(\?.*)?$")] | None
    ) = None
    """Or its address."""
    sha256: Digest | None = None
    """Its digest; needed with `url`."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(("http://", "https://")):
            msg = "must be {url: ..., sha256: ...}: a file from elsewhere is pinned by its digest"
            raise ValueError(msg)
        return {"path": value} if isinstance(value, str | Path) else value

    @model_validator(mode="after")
    def _pinned(self) -> Self:
        if (self.path is None) == (self.url is None):
            msg = "give `path` or `url`"
            raise ValueError(msg)
        if self.url is not None and self.sha256 is None:
            msg = (
                "`url` needs the file's `sha256`, so that it stays the same file; "
                "`sha256sum FILE` prints it"
            )
            raise ValueError(msg)
        if self.path is not None and not reading.is_parquet(self.path):
            msg = f"must be named .parquet; got {self.path.name}. `source: table` reads other files"
            raise ValueError(msg)
        return self


class HuggingFaceSource(MappedSource):
    """A data set of Hugging Face; its columns are options of `MappedSource`."""

    not_frozen: ClassVar[frozenset[str]] = MappedSource.not_frozen | {"folder", "parquet"}

    source: Literal["huggingface"]
    dataset: HubName | None = None
    """Its name on the hub, as in `google/civil_comments`; with `revision`."""
    revision: Commit | None = None
    """The full hash of a commit of `dataset`."""
    folder: ConfigPath | None = None
    """Or a local copy of such a repository."""
    parquet: Annotated[tuple[ParquetFile, ...], Field(min_length=1)] | None = None
    """Or Parquet files: paths, or `{url: ..., sha256: ...}`."""
    config: str | None = None
    """The configuration (subset) of the data set, if it has several."""
    split: str | None = None
    """The split of the data set."""
    part: Part = "all"
    """A part of the split, chosen by a hash of the text (or of the id, without text)."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Fraction of the rows in `test`."""
    _local: tuple[Path, ...] = PrivateAttr(default=())

    @field_validator("revision", mode="before")
    @classmethod
    def _is_a_commit(cls, value: Any) -> Any:
        if isinstance(value, str) and not (len(value) == 40 and value.isalnum()):
            msg = (
                f"must be the full hash of a commit, 40 hexadecimal digits: a branch, a tag or a "
                f"short hash such as {value[:40]!r} may name other rows tomorrow. It is in the "
                "history of the data set's files"
            )
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        origins = [self.dataset, self.folder, self.parquet]
        if sum(origin is not None for origin in origins) != 1:
            msg = "give one of `dataset`, `folder` and `parquet`"
            raise ValueError(msg)
        if (self.dataset is None) != (self.revision is None):
            msg = (
                "`revision` is the commit of `dataset`, as 40 hexadecimal digits: give both, or "
                "neither. A folder, and Parquet files, are known by their content"
            )
            raise ValueError(msg)
        if (self.parquet is None) != (self.split is not None):
            msg = "`dataset` and `folder` need a `split`, and `parquet` has none: its files are one"
            raise ValueError(msg)
        if self.parquet is not None and self.config is not None:
            msg = "`config` belongs to `dataset` and `folder`; remove it"
            raise ValueError(msg)
        return self

    def check(self) -> None:
        """Refuse missing files or columns; a data set is checked when it was loaded."""
        if self._local or self.parquet is not None:
            for path in self._local or self._known_files():
                reading.require_columns(path, self._columns())
            return
        require_datasets()
        if self.folder is not None and not self.folder.is_dir():
            msg = f"`folder` must be a folder; {self.folder} is not."
            raise InputError(msg)

    def prepare(self, cache: Path) -> Self:
        """Download what is missing; return the source of local Parquet files."""
        local = self.model_copy()
        if self.parquet is not None:
            local._local = tuple(_fetched(one, cache) for one in self.parquet)  # noqa: SLF001 - its own class
        else:
            wanted = Repository(
                name=self.dataset or str(self.folder),
                revision=self.revision or folder_digest(self.folder or Path()),
                folder=self.folder,
                config=self.config,
                split=self.split or "",
            )
            local._local = (exported(wanted, self._columns(), cache),)  # noqa: SLF001 - its own class
        return local

    def files(self) -> list[Path]:
        """Return the local Parquet files."""
        return list(self._local or self._known_files())

    def provenance(self) -> dict[str, JsonValue]:
        """Return what the frozen rows depend on: options, and files by content, in order."""
        known = super().provenance()
        named = enumerate(self._local)
        known["files"] = {f"{at} {path.name}": file_digest(path) for at, path in named}
        unset = {key for key in ("dataset", "revision", "config", "split") if not known[key]}
        return {key: known[key] for key in known if key not in unset}

    def split_name(self) -> str:
        """Return the split and the part of it."""
        part = self.part if self.part == "all" else f"{self.part} of {self.test_fraction}"
        return part if self.split is None else f"{self.split}, {part}"

    def _known_files(self) -> tuple[Path, ...]:
        return tuple(one.path for one in self.parquet or () if one.path is not None)

    def _raw_chunks(self, columns: list[str]) -> Iterator[reading.Chunk]:
        before = 0
        for path in self._local:
            rows = 0
            for chunk in reading.read_chunks(path, columns):
                rows += chunk.table.num_rows
                yield replace(chunk, rows_before=before)
            before += rows

    def _part(self, table: pa.Table) -> pa.Table:
        return rows_of_part(table, self.part, self.test_fraction)


def _fetched(file: ParquetFile, cache: Path) -> Path:
    """Return the local path of a file, after a check of its digest."""
    if file.url is not None:
        home = cache / hashlib.sha256(file.url.encode()).hexdigest()[:16]
        path = home / PurePosixPath(urlsplit(file.url).path).name
        download(file.url, path, sha256=file.sha256, otherwise=_OTHERWISE)
        return path
    path = file.path or Path()
    if file.sha256 is not None and (found := file_digest(path)) != file.sha256:
        msg = f"file {path} must have SHA-256 {file.sha256}; it has {found}. It is another file."
        raise InputError(msg)
    return path
