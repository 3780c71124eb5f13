"""One split of a data set of Hugging Face as a Parquet file, through the library `datasets`.

No code of a data set runs: only data files in formats of tables are read, and `datasets` refuses
loading scripts since its version 4.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError, shown_names, to_install
from biasgate.tasks.common.files import file_digest, json_digest, locked, whole_file, write_json
from biasgate.tasks.common.progress import progress

_ROWS_A_STEP = 10_000
# What `datasets` says of a configuration that is missing or unknown.
_CONFIGS = re.compile(r"(?:Available|available configs): (\[[^]]*\])")
_FORMATS = ("parquet", "csv", "json", "arrow")
_CONVERSION = 1  # increase this when the same split gives another file


@dataclass(frozen=True)
class Repository:
    """What to load."""

    name: str
    """Of the data set on the hub, or of the folder; for messages."""
    revision: str
    """The commit, or the digest of the folder."""
    folder: Path | None
    """The local repository, if it is one."""
    config: str | None
    """The configuration."""
    split: str
    """The split."""


def require_datasets() -> None:
    """Refuse to go on without the library.

    Raises
    ------
    InputError
        With the command that installs it.
    """
    if find_spec("datasets") is None:
        msg = (
            "`source: huggingface` with `dataset` or `folder` needs the library `datasets`: "
            f"{to_install('huggingface')}. `parquet:` reads Parquet files without it."
        )
        raise InputError(msg)


def exported(wanted: Repository, columns: Sequence[str], cache: Path) -> Path:
    """Return the Parquet file with these columns of the split; make it if it is missing.

    What was made once needs no network. Codes of classes become the names of the classes.

    Raises
    ------
    InputError
        If the data set cannot be loaded, is no table, or lacks the split or a column.
    """
    name = wanted.name if wanted.folder is None else None  # a folder counts by content
    origin = [name, wanted.revision, wanted.config, wanted.split]
    key = json_digest([origin, sorted(set(columns)), _CONVERSION])[:16]
    path = cache / "huggingface" / f"{key}.parquet"
    record = path.with_suffix(".json")
    with locked(path):
        if path.exists() and record.exists() and file_digest(path) in record.read_text("utf-8"):
            return path
        with _loaded(wanted, path.parent) as rows:
            _refuse_missing(rows, columns, wanted)
            _write(rows.select_columns(list(dict.fromkeys(columns))), path, wanted)
        write_json(record, {"sha256": file_digest(path)})
    return path


@contextmanager
def _loaded(wanted: Repository, home: Path) -> Iterator[Any]:
    """Yield the rows of the split; what `datasets` writes meanwhile is removed."""
    require_datasets()
    import datasets  # noqa: PLC0415 - takes seconds, and is an extra

    with tempfile.TemporaryDirectory(prefix=".loading-", dir=home) as scratch, _quiet(datasets):
        try:
            builder = datasets.load_dataset_builder(
                # With the prefix, a folder of the same name in the working directory is not taken.
                f"hf://datasets/{wanted.name}" if wanted.folder is None else str(wanted.folder),
                wanted.config,
                revision=wanted.revision if wanted.folder is None else None,
                cache_dir=scratch,
            )
            _refuse_unfit(builder, wanted)
            builder.download_and_prepare()
            rows = builder.as_dataset(split=wanted.split)
        except Exception as error:
            if isinstance(error, InputError):
                raise
            msg = f"data set {wanted.name} {_reason(error, wanted)}."
            raise InputError(msg) from None  # its text may quote a comment
        yield rows


def _reason(error: Exception, wanted: Repository) -> str:
    """Return what is wrong; texts of other libraries only where they cannot quote a comment."""
    import httpx  # noqa: PLC0415
    from datasets import exceptions  # noqa: PLC0415

    text = str(error)
    if isinstance(error, exceptions.DatasetNotFoundError):
        return (
            f"must be on the hub, with the commit {wanted.revision[:12]}; it is not there, or may "
            "not be read. For a private one set HF_TOKEN"
        )
    if isinstance(error, FileNotFoundError):
        return "must have data files in a format of tables (Parquet, CSV, JSON lines, Arrow)"
    if isinstance(error, RuntimeError) and "scripts are no longer supported" in text:
        return (
            "must be data files; it has a loading script, and no code of a data set is run. Give "
            "its Parquet files with `parquet`"
        )
    if isinstance(error, ValueError) and (found := _CONFIGS.search(text)):
        given = "missing" if wanted.config is None else repr(wanted.config)
        return f"needs a `config` out of {found[1]}; it is {given}"
    if isinstance(error, ConnectionError | httpx.HTTPError):
        return (
            f"must be reachable; got {type(error).__name__}. Run again, or copy the repository to "
            "this machine and give its `folder`"
        )
    return (
        f"must be readable; got {type(error).__name__}, whose text is withheld, since it may quote "
        "a comment"
    )


def _refuse_unfit(builder: Any, wanted: Repository) -> None:
    """Refuse what is no table, lacks the split, or takes its rows from elsewhere."""
    kind = type(builder).__module__.rpartition(".")[2]
    if kind not in _FORMATS:
        msg = (
            f"data set {wanted.name} must be Parquet, CSV, JSON lines or Arrow; it is read as "
            f"{kind!r}."
        )
        raise InputError(msg)
    files = builder.config.data_files
    if wanted.split not in files:
        splits = ", ".join(files)
        msg = f"data set {wanted.name} must have the split {wanted.split!r}; it has {splits}."
        raise InputError(msg + did_you_mean(wanted.split, list(files)))
    home = (
        f"hf://datasets/{wanted.name}@{wanted.revision}/"
        if wanted.folder is None
        else f"{wanted.folder.resolve()}/"
    )
    for one in (file for of_split in files.values() for file in of_split):
        found = one if wanted.folder is None else str(Path(one).resolve())
        if not found.startswith(home):
            msg = (
                f"data set {wanted.name} must have its own data files; its README names one "
                "elsewhere, which the digest of the data set does not cover."
            )
            raise InputError(msg)


def _refuse_missing(rows: Any, columns: Sequence[str], wanted: Repository) -> None:
    missing = [name for name in columns if name not in rows.column_names]
    if missing:
        msg = (
            f"data set {wanted.name} must have the column {missing[0]!r}; it has "
            f"{shown_names(rows.column_names)}.{did_you_mean(missing[0], rows.column_names)}"
        )
        raise InputError(msg)


def _write(rows: Any, path: Path, wanted: Repository) -> None:
    names = {
        column: found for column in rows.column_names if (found := _classes(rows.features[column]))
    }
    said = f"reading {wanted.name}"
    with whole_file(path) as temporary, progress(said, total=len(rows)) as advance:
        writer: pq.ParquetWriter | None = None
        for chunk in rows.with_format("arrow").iter(batch_size=_ROWS_A_STEP):
            arrays = {
                column: _named(chunk[column].combine_chunks(), names[column])
                if column in names
                else chunk[column]
                for column in chunk.column_names
            }
            table = pa.table(arrays)
            writer = writer or pq.ParquetWriter(temporary, table.schema, compression="zstd")
            writer.write_table(table)
            advance(table.num_rows)
        if writer is None:
            msg = f"split {wanted.split!r} of data set {wanted.name} must have rows; it has none."
            raise InputError(msg)
        writer.close()


def _classes(feature: Any) -> list[str]:
    """Return the names of the classes of a column of codes, or of lists of codes; else none."""
    feature = getattr(feature, "feature", feature)
    return list(getattr(feature, "names", None) or ())


def _named(codes: pa.Array, names: list[str]) -> pa.Array:
    """Return the names of codes, also of those in lists; -1 means that there is none."""
    if pa.types.is_list(codes.type) or pa.types.is_large_list(codes.type):
        values = _named(codes.values, names)
        return type(codes).from_arrays(codes.offsets, values, mask=codes.is_null())
    known = pc.if_else(pc.less(codes, 0), None, codes)
    return pa.array(names, pa.string()).take(known)


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Let `datasets` draw no bars, log no rows, and tell nobody what is loaded."""
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
