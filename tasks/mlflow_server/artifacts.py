"""Files of runs and model versions, read in place or brought to this machine.

What is downloaded goes to a folder that is removed afterwards, except the files of versions, which
every task opens: these are downloaded once for each store. A kept copy is used again if it is as it
was downloaded, and the server still lists files of the same names and sizes. Whether their bytes
are the same is checked before `champion` moves, and by `biasgate verify`, on new downloads.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import hold_lock, json_digest, whole_folder, write_json
from biasgate.tasks.common.own_folders import own_folder
from biasgate.tasks.mlflow_server.artifact_hosts import require_own_host, without_password
from biasgate.tasks.records import FileRecord
from biasgate.tasks.records.record import Record
from biasgate.tasks.signing.manifest import Manifest, ManifestError, escape_path

# MLflow itself writes this file into the folder of a version when it loads the version by its URI.
ADDED_BY_MLFLOW = frozenset({"registered_model_meta"})


@contextmanager
def work_folder(parent: Path | None) -> Iterator[Path]:
    """Yield an empty folder, in the work folder of a store if there is one; then remove it.

    A folder that a killed process left is removed by the next one.
    """
    writable = parent is not None and os.access(parent.parent, os.W_OK)
    place = parent if parent is not None and writable else Path(tempfile.gettempdir())
    with own_folder(place, "biasgate-") as folder:
        empty = folder / "files"  # beside the lock
        empty.mkdir()
        yield empty


def local_folder(uri: str) -> Path | None:
    """Return the folder at a URI of this machine's files; None for any other URI."""
    if uri.startswith("file:///") and os.name == "posix":  # as below, without importing MLflow
        return Path(url2pathname(urlsplit(uri).path))
    from mlflow.utils.file_utils import local_file_uri_to_path  # noqa: PLC0415
    from mlflow.utils.uri import is_local_uri  # noqa: PLC0415

    return Path(local_file_uri_to_path(uri)) if is_local_uri(uri) else None


@contextmanager
def files_at(
    uri: str, tracking_uri: str, work: Path | None, names: Sequence[str] | None = None
) -> Iterator[Path]:
    """Yield a folder with the artifacts at a URI, only to be read.

    Files of this machine are read in place; others are downloaded.

    `names`: the only files that are needed. Default: all.
    """
    local = _here(uri)
    if local is not None:
        yield local
        return
    with work_folder(work) as folder:
        if names is None:
            yield fetch(uri, tracking_uri, folder)
            return
        for name in names:
            fetch(f"{uri.rstrip('/')}/{name}", tracking_uri, folder)
        yield folder


def fetch(uri: str, tracking_uri: str, folder: Path) -> Path:
    """Copy the artifacts at a URI to an empty folder, without MLflow's own file.

    Returns where they are: in `folder`, or below it.
    """
    from mlflow.artifacts import download_artifacts  # noqa: PLC0415
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    local = _here(uri)
    if local is not None:
        return _copy(local, folder)
    require_own_host(uri, tracking_uri)
    try:
        found = download_artifacts(
            artifact_uri=uri, dst_path=str(folder), tracking_uri=tracking_uri
        )
    except (OSError, MlflowException) as error:
        if isinstance(error, MlflowException) and "No such artifact" not in error.message:
            raise
        raise _missing(uri) from error
    if Path(found).is_dir():
        for name in ADDED_BY_MLFLOW:
            (Path(found) / name).unlink(missing_ok=True)
    return Path(found)


def manifest_at(uri: str, tracking_uri: str, work: Path | None) -> Manifest:
    """Return the manifest of the artifacts at a URI."""
    with files_at(uri, tracking_uri, work) as folder:
        return Manifest.from_path(folder, leaving_out=ADDED_BY_MLFLOW)


def listed_at(uri: str, tracking_uri: str) -> Mapping[str, int | None]:
    """Return names and sizes of the artifacts at a URI, read from none; a size may be unknown."""
    local = _here(uri)
    if local is not None:
        return Manifest.read_sizes(local, leaving_out=ADDED_BY_MLFLOW)
    require_own_host(uri, tracking_uri)
    from mlflow.store.artifact import artifact_repository_registry  # noqa: PLC0415

    repository: Any = artifact_repository_registry.get_artifact_repository(
        uri, tracking_uri=tracking_uri
    )
    found: dict[str, int | None] = {}
    folders: list[str | None] = [None]
    while folders:
        for artifact in repository.list_artifacts(folders.pop()):
            if artifact.is_dir:
                folders.append(artifact.path)
            elif artifact.path not in ADDED_BY_MLFLOW:
                found[artifact.path] = artifact.file_size
    return found


def _copy(source: Path, target: Path) -> Path:
    """Copy regular files and folders; refuse a symbolic link, which could lead anywhere."""
    if not source.is_dir():
        msg = f"the files of a version must be in a folder; {source} is not. Register its folder."
        raise InputError(msg)
    try:
        for top, folders, files in os.walk(source, onerror=_raise):
            here = target / Path(top).relative_to(source)
            for path in (Path(top) / name for name in (*folders, *files)):
                if path.is_symlink() or not (path.is_file() or path.is_dir()):
                    kind = "a device, a socket or a named pipe"
                    kind = "a symbolic link" if path.is_symlink() else kind
                    name = escape_path(path.relative_to(source).as_posix())
                    msg = f"{name} must be a regular file; it is {kind} (in {source})."
                    raise ManifestError(msg)
            for name in folders:
                (here / name).mkdir()
            for name in files:
                if here != target or name not in ADDED_BY_MLFLOW:
                    shutil.copyfile(Path(top) / name, here / name)
    except PermissionError as error:
        msg = f"{escape_path(str(error.filename))} must be readable; got: {error.strerror}."
        raise ManifestError(msg) from error
    return target


def _raise(error: OSError) -> None:
    raise error


def _here(uri: str) -> Path | None:
    """Return the folder at a URI of this machine's files, which must exist; None for others."""
    local = local_folder(uri)
    if local is not None and not os.path.lexists(local):
        raise _missing(uri)
    return local


def _missing(uri: str) -> InputError:
    return InputError(
        f"artifacts must be at {without_password(uri)}; they are not. Were they deleted, or was "
        "the database copied without them?"
    )


FOLDER, FILES, RECORD = "models", "files", "record.json"
_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class _Kept(Record):
    """What a kept copy is of, and its files as they were downloaded."""

    version: str
    files: list[FileRecord]


@contextmanager
def kept_files(place: str, tracking_uri: str, version: str, store: Path) -> Iterator[Path]:
    """Yield a kept copy of a version's files, only to be read.

    `version`: what the version is called, and when the registry created it.
    """
    folder = store / FOLDER / json_digest([tracking_uri, version, place])[:_DIGITS]
    with hold_lock(folder):  # tasks at the same time wait for one download
        if not _is_whole(folder, listed_at(place, tracking_uri)):
            with whole_folder(folder, durable=False) as temporary:
                download = temporary / "download"
                download.mkdir()
                fetch(place, tracking_uri, download).rename(temporary / FILES)
                found = Manifest.from_path(temporary / FILES)
                write_json(temporary / RECORD, _Kept(version=version, files=[*found.files]))
        os.utime(folder)  # `biasgate clean` keeps what was used lately
    yield folder / FILES


def _is_whole(folder: Path, listed: Mapping[str, int | None]) -> bool:
    """Whether a kept copy is as it was downloaded, and the server's files look the same."""
    try:
        kept = Manifest.from_records(_Kept.read((folder / RECORD).read_bytes()).files)
        if kept.list_differences(Manifest.from_path(folder / FILES, leaving_out=ADDED_BY_MLFLOW)):
            return False
    except (OSError, ValueError, InputError):
        return False
    return not kept.list_size_differences(listed)
