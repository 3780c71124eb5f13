"""Evaluation sets from Hugging Face: a data set at a commit, a local copy, or Parquet files."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import (
    Field,
    JsonValue,
    PrivateAttr,
    StringConstraints,
    field_validator,
    model_validator,
)

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError, format_column_names, format_install_hint
from biasgate.tasks.common.files import (
    file_digest,
    folder_digest,
    hold_lock,
    json_digest,
    whole_file,
    write_json,
)
from biasgate.tasks.common.progress import show_progress
from biasgate.tasks.common.settings import ConfigPath, Settings
from biasgate.tasks.data.chunks import Chunk, read_chunks, require_columns
from biasgate.tasks.data.download import Sha256, download_file, locate_download
from biasgate.tasks.data.formats import is_parquet
from biasgate.tasks.data.hashed_parts import HashedPart, select_part
from biasgate.tasks.data.mapped import MappedSource

Commit = Annotated[str, StringConstraints(pattern="^[0-9a-f]{40}$")]
HubName = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
_ALTERNATIVE = "Or download the file elsewhere and give its path instead of `url`."


class ParquetFile(Settings):
    """A Parquet file, local or remote."""

    path: ConfigPath | None = None
    """Path of a local file."""
    url: (
        Annotated[str, StringConstraints(pattern=r"^https?://[^/]+/.*\.parquet(\?.*)?$")] | None
    ) = None
    """Or the address of a remote file."""
    sha256: Sha256 | None = None
    """SHA-256 of the file; required with `url`."""

    @model_validator(mode="before")
    @classmethod
    def _wrap_path(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(("http://", "https://")):
            msg = "must be {url: ..., sha256: ...}: a downloaded file is pinned by its digest"
            raise ValueError(msg)
        return {"path": value} if isinstance(value, str | Path) else value

    @model_validator(mode="after")
    def _check_pinned(self) -> Self:
        if (self.path is None) == (self.url is None):
            msg = "give `path` or `url`"
            raise ValueError(msg)
        if self.url is not None and self.sha256 is None:
            msg = (
                "`url` needs the file's `sha256`, so that the file cannot change; "
                "`sha256sum FILE` prints it"
            )
            raise ValueError(msg)
        if self.path is not None and not is_parquet(self.path):
            msg = f"must be named .parquet; got {self.path.name}. `source: table` reads other files"
            raise ValueError(msg)
        return self


class HuggingFaceSource(MappedSource):
    """A data set of Hugging Face; its columns are options of `MappedSource`."""

    not_frozen: ClassVar[frozenset[str]] = MappedSource.not_frozen | {"folder", "parquet"}

    source: Literal["huggingface"]
    dataset: HubName | None = None
    """Name on the hub, as in `google/civil_comments`; with `revision`."""
    revision: Commit | None = None
    """The full hash of a commit of `dataset`."""
    folder: ConfigPath | None = None
    """Or a local copy of a repository of the hub."""
    parquet: Annotated[tuple[ParquetFile, ...], Field(min_length=1)] | None = None
    """Or Parquet files: paths, or `{url: ..., sha256: ...}`."""
    config: str | None = None
    """The configuration (subset) of the data set, if it has several."""
    split: str | None = None
    """The split of the data set."""
    part: HashedPart = "all"
    """A part of the split, chosen by a hash of the text (without text: of the id)."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Fraction of the rows in `test`."""
    _local_files: tuple[Path, ...] = PrivateAttr(default=())

    @field_validator("revision", mode="before")
    @classmethod
    def _require_commit_hash(cls, value: Any) -> Any:
        if isinstance(value, str) and not (len(value) == 40 and value.isalnum()):
            msg = (
                f"must be the full hash of a commit, 40 hexadecimal digits: a branch, a tag or a "
                f"short hash such as {value[:40]!r} may name other rows tomorrow. Copy the hash "
                "from the history of the data set's files"
            )
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _check_origin(self) -> Self:
        origins = [self.dataset, self.folder, self.parquet]
        if sum(origin is not None for origin in origins) != 1:
            msg = "give either `dataset`, `folder` or `parquet`"
            raise ValueError(msg)
        if (self.dataset is None) != (self.revision is None):
            msg = (
                "`revision` is the commit of `dataset`, as 40 hexadecimal digits: give both or "
                "neither. Folders and Parquet files are identified by their content"
            )
            raise ValueError(msg)
        if (self.parquet is None) != (self.split is not None):
            msg = "give `split` with `dataset` or `folder`, not with `parquet`, which is read whole"
            raise ValueError(msg)
        if self.parquet is not None and self.config is not None:
            msg = "`config` belongs to `dataset` and `folder`; remove it"
            raise ValueError(msg)
        return self

    def check(self) -> None:
        """Raise an error if files or columns are missing; a data set is checked when loaded."""
        if self._local_files or self.parquet is not None:
            for path in self.files():
                require_columns(path, self._list_columns())
            return
        if find_spec("datasets") is None:
            msg = (
                "`source: huggingface` with `dataset` or `folder` needs the library `datasets`: "
                f"{format_install_hint('huggingface')}. `parquet:` reads Parquet files without it."
            )
            raise InputError(msg)
        if self.folder is not None and not self.folder.is_dir():
            msg = f"`folder` must be a folder; {self.folder} is not."
            raise InputError(msg)

    def prepare(self, cache: Path) -> Self:
        """Download missing files; return a source that reads local Parquet files."""
        local = self.model_copy()
        if self.parquet is not None:
            local._local_files = tuple(_fetch_parquet(file, cache) for file in self.parquet)  # noqa: SLF001 - its own class
        else:
            local._local_files = (_export_parquet(self, self._list_columns(), cache),)  # noqa: SLF001 - its own class
        return local

    def files(self) -> list[Path]:
        """Return the local Parquet files."""
        configured = [file.path for file in self.parquet or () if file.path is not None]
        return list(self._local_files) or configured

    def provenance(self) -> dict[str, JsonValue]:
        """Return the inputs of the frozen rows: options, and digests of the files in order."""
        digests: JsonValue = {
            f"{i} {path.name}": file_digest(path) for i, path in enumerate(self._local_files)
        }
        return super().provenance() | {"files": digests}

    def split_name(self) -> str:
        """Return the names of the split and of its part."""
        part = self.part if self.part == "all" else f"{self.part} of {self.test_fraction}"
        return part if self.split is None else f"{self.split}, {part}"

    @property
    def repository(self) -> str:
        """Name of the data set on the hub, or its folder, for messages."""
        return self.dataset or str(self.folder)

    def _read_raw_chunks(self, columns: list[str]) -> Iterator[Chunk]:
        n_before = 0
        for path in self._local_files:
            for chunk in read_chunks(path, columns):
                yield replace(chunk, rows_before=n_before)
            n_before += pq.read_metadata(path).num_rows

    def _select_part(self, table: pa.Table) -> pa.Table:
        return select_part(table, self.part, self.test_fraction)


def _fetch_parquet(file: ParquetFile, cache: Path) -> Path:
    """Download a file if it is remote, check its digest, and return its local path."""
    if file.url is not None:
        path = locate_download(cache, file.url)
        download_file(file.url, path, sha256=file.sha256, alternative=_ALTERNATIVE)
        return path
    path = file.path or Path()
    if file.sha256 is not None and (digest := file_digest(path)) != file.sha256:
        msg = (
            f"file {path} must have SHA-256 {file.sha256}; it has {digest}. It is a different file."
        )
        raise InputError(msg)
    return path


_STEP_ROWS = 10_000
# The list in the error of `datasets` about a missing or unknown configuration.
_CONFIG_LIST = re.compile(r"(?:Available|available configs): (\[[^]]*\])")
_FORMATS = ("parquet", "csv", "json", "arrow")
_CONVERSION = 1  # increase this number when the same split gives different rows


def _export_parquet(source: HuggingFaceSource, columns: Sequence[str], cache: Path) -> Path:
    """Return the path of a Parquet file with these columns of the split; write it if missing.

    An existing file is used without network access. Class codes are replaced with class names.
    """
    # A folder is identified by its content.
    revision = source.revision if source.folder is None else folder_digest(source.folder)
    origin = [source.dataset, revision, source.config, source.split]
    key = json_digest([origin, sorted(set(columns)), _CONVERSION])[:16]
    path = cache / "huggingface" / f"{key}.parquet"
    record = path.with_suffix(".json")
    with hold_lock(path):
        if path.exists() and record.exists() and file_digest(path) in record.read_text("utf-8"):
            return path
        with _load_split(source, path.parent) as rows:
            present = rows.column_names
            if missing := [name for name in columns if name not in present]:
                msg = (
                    f"data set {source.repository} must have the column {missing[0]!r}; it has "
                    f"{format_column_names(present)}.{did_you_mean(missing[0], present)}"
                )
                raise InputError(msg)
            _write_parquet(rows.select_columns(list(dict.fromkeys(columns))), path, source)
        write_json(record, {"sha256": file_digest(path)})
    return path


@contextmanager
def _load_split(source: HuggingFaceSource, home: Path) -> Iterator[Any]:
    """Load the split and yield its rows; remove the files that `datasets` writes."""
    import datasets  # noqa: PLC0415 - takes seconds, and is an extra

    with (
        tempfile.TemporaryDirectory(prefix=".loading-", dir=home) as scratch,
        _silence_datasets(datasets),
    ):
        try:
            builder = datasets.load_dataset_builder(
                # The prefix excludes a folder of the same name in the working directory.
                f"hf://datasets/{source.dataset}" if source.dataset else str(source.folder),
                source.config,
                revision=source.revision,
                cache_dir=scratch,
            )
            _check_builder(builder, source)
            builder.download_and_prepare()
            rows = builder.as_dataset(split=source.split)
        except Exception as error:
            if isinstance(error, InputError):
                raise
            msg = f"data set {source.repository} {_describe_error(error, source)}."
            raise InputError(msg) from None  # its text may quote a comment
        yield rows


def _describe_error(error: Exception, source: HuggingFaceSource) -> str:
    """Return the cause of a failed load; quote an error only if it cannot contain a comment."""
    import httpx  # noqa: PLC0415
    from datasets import exceptions  # noqa: PLC0415

    text = str(error)
    if isinstance(error, exceptions.DatasetNotFoundError):
        return (
            f"must be on the hub at commit {(source.revision or '')[:12]}; it was not found, or "
            "access is denied. For a private data set, set HF_TOKEN"
        )
    if isinstance(error, FileNotFoundError):
        return "must have data files in a format of tables (Parquet, CSV, JSON lines, Arrow)"
    if isinstance(error, RuntimeError) and "scripts are no longer supported" in text:
        return (
            "must be data files; it has a loading script, and scripts of data sets are not run. "
            "Give its Parquet files with `parquet`"
        )
    if isinstance(error, ValueError) and (configs := _CONFIG_LIST.search(text)):
        shown = "missing" if source.config is None else repr(source.config)
        return f"needs a `config` from {configs[1]}; it is {shown}"
    if isinstance(error, ConnectionError | httpx.HTTPError):
        return (
            f"must be reachable; got {type(error).__name__}. Run again, or copy the repository to "
            "this machine and give its `folder`"
        )
    return (
        f"must be readable; got {type(error).__name__} (message withheld, since it may quote a "
        "comment)"
    )


def _check_builder(builder: Any, source: HuggingFaceSource) -> None:
    """Refuse formats without columns, a missing split, and data files of another repository."""
    name, split, files = source.repository, source.split or "", builder.config.data_files
    kind = type(builder).__module__.rpartition(".")[2]
    if kind not in _FORMATS:
        msg = f"data set {name} must be Parquet, CSV, JSON lines or Arrow; it is read as {kind!r}."
        raise InputError(msg)
    if split not in files:
        msg = f"data set {name} must have the split {split!r}; it has {', '.join(files)}."
        raise InputError(msg + did_you_mean(split, list(files)))
    paths = [path for paths in files.values() for path in paths]
    home = f"hf://datasets/{source.dataset}@{source.revision}/"
    if source.folder is not None:
        home = f"{source.folder.resolve()}/"
        paths = [str(Path(path).resolve()) for path in paths]
    if not all(path.startswith(home) for path in paths):
        msg = (
            f"data set {name} must have its own data files; its README names a file elsewhere, "
            "which the digest of the data set does not cover."
        )
        raise InputError(msg)


def _write_parquet(rows: Any, path: Path, source: HuggingFaceSource) -> None:
    # A column of lists has the feature of its values in the attribute `feature`.
    features = {
        column: getattr(feature, "feature", feature) for column, feature in rows.features.items()
    }
    purpose = f"reading {source.repository}"
    with whole_file(path) as temporary, show_progress(purpose, total=len(rows)) as advance:
        writer: pq.ParquetWriter | None = None
        for chunk in rows.with_format("arrow").iter(batch_size=_STEP_ROWS):
            columns = {column: chunk[column] for column in chunk.column_names}
            for column, feature in features.items():
                if names := getattr(feature, "names", None):
                    columns[column] = _name_classes(columns[column].combine_chunks(), names)
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(temporary, table.schema, compression="zstd")
            writer.write_table(table)
            advance(table.num_rows)
        if writer is None:
            name = f"split {source.split!r} of data set {source.repository}"
            msg = f"{name} must have rows; it has none."
            raise InputError(msg)
        writer.close()


def _name_classes(codes: pa.Array, names: list[str]) -> pa.Array:
    """Replace class codes with names, also in lists; the code -1 becomes null."""
    if pa.types.is_list(codes.type) or pa.types.is_large_list(codes.type):
        values = _name_classes(codes.values, names)
        return type(codes).from_arrays(codes.offsets, values, mask=codes.is_null())
    valid = pc.if_else(pc.less(codes, 0), None, codes)
    return pa.array(names, pa.string()).take(valid)


@contextmanager
def _silence_datasets(datasets: Any) -> Iterator[None]:
    """Disable progress bars, logs, which may quote rows, and usage statistics of `datasets`."""
    level, bars = datasets.logging.get_verbosity(), datasets.is_progress_bar_enabled()
    counts = datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    datasets.logging.set_verbosity(logging.CRITICAL)
    datasets.disable_progress_bars()
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
    try:
        yield
    finally:
        datasets.logging.set_verbosity(level)
        if bars:
            datasets.enable_progress_bars()
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = counts
