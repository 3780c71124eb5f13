"""Files of runs and model versions, read in place or downloaded.

Downloads go to a temporary folder, except the files of versions, which every task opens: these are
downloaded once per store. A kept copy is used again if it is unchanged, and the server still lists
files with the same names and sizes. Their content is compared on new downloads before `champion`
moves, and by `biasgate verify`.
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
from biasgate.tasks.mlflow_server.artifact_hosts import require_own_host, strip_password
from biasgate.tasks.records import FileRecord
from biasgate.tasks.records.record import Record
from biasgate.tasks.signing.manifest import Manifest, ManifestError, escape_path

# MLflow writes this file into the folder of a version that it loads by URI.
ADDED_BY_MLFLOW = frozenset({"registered_model_meta"})


@contextmanager
def create_work_folder(parent: Path | None) -> Iterator[Path]:
    """Yield an empty temporary folder, within `parent` if it is given and writable.

    The folder of a killed process is removed by the next process.
    """
    writable = parent is not None and os.access(parent.parent, os.W_OK)
    root = parent if parent is not None and writable else Path(tempfile.gettempdir())
    with own_folder(root, "biasgate-") as folder:
        empty = folder / "files"  # next to the lock
        empty.mkdir()
        yield empty


def find_local_folder(uri: str) -> Path | None:
    """Return the folder at a URI if the URI is for files of this machine, else None."""
    if uri.startswith("file:///") and os.name == "posix":  # as below, without importing MLflow
        return Path(url2pathname(urlsplit(uri).path))
    from mlflow.utils.file_utils import local_file_uri_to_path  # noqa: PLC0415
    from mlflow.utils.uri import is_local_uri  # noqa: PLC0415

    return Path(local_file_uri_to_path(uri)) if is_local_uri(uri) else None


@contextmanager
def open_artifacts(
    uri: str, tracking_uri: str, work: Path | None, names: Sequence[str] | None = None
) -> Iterator[Path]:
    """Yield a folder with the artifacts at a URI, only to be read.

    Files of this machine are read in place; others are downloaded.

    Parameters
    ----------
    work : Path, optional
        Folder for downloads. Default: the system's folder for temporary files.
    names : sequence of str, optional
        The required files. Default: all.
    """
    local = _find_existing_folder(uri)
    if local is not None:
        yield local
        return
    with create_work_folder(work) as folder:
        if names is None:
            yield fetch(uri, tracking_uri, folder)
            return
        for name in names:
            fetch(f"{uri.rstrip('/')}/{name}", tracking_uri, folder)
        yield folder


def fetch(uri: str, tracking_uri: str, folder: Path) -> Path:
    """Copy the artifacts at a URI to an empty folder, without MLflow's own file.

    Returns the path of the copy: `folder`, or a path within it.

    Raises
    ------
    InputError
        If the artifacts do not exist, or their host is not allowed.
    """
    from mlflow.artifacts import download_artifacts  # noqa: PLC0415
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    local = _find_existing_folder(uri)
    if local is not None:
        return _copy_folder(local, folder)
    require_own_host(uri, tracking_uri)
    try:
        download = download_artifacts(
            artifact_uri=uri, dst_path=str(folder), tracking_uri=tracking_uri
        )
    except (OSError, MlflowException) as error:
        if isinstance(error, MlflowException) and "No such artifact" not in error.message:
            raise
        raise _make_missing_error(uri) from error
    if Path(download).is_dir():
        for name in ADDED_BY_MLFLOW:
            (Path(download) / name).unlink(missing_ok=True)
    return Path(download)


def read_manifest(uri: str, tracking_uri: str, work: Path | None) -> Manifest:
    """Return the manifest of the artifacts at a URI."""
    with open_artifacts(uri, tracking_uri, work) as folder:
        return Manifest.from_path(folder, leaving_out=ADDED_BY_MLFLOW)


def list_artifact_sizes(uri: str, tracking_uri: str) -> Mapping[str, int | None]:
    """Return names and sizes of the artifacts at a URI; None for an unknown size."""
    local = _find_existing_folder(uri)
    if local is not None:
        return Manifest.read_sizes(local, leaving_out=ADDED_BY_MLFLOW)
    require_own_host(uri, tracking_uri)
    from mlflow.store.artifact import artifact_repository_registry  # noqa: PLC0415

    repository: Any = artifact_repository_registry.get_artifact_repository(
        uri, tracking_uri=tracking_uri
    )
    sizes: dict[str, int | None] = {}
    folders: list[str | None] = [None]
    while folders:
        for artifact in repository.list_artifacts(folders.pop()):
            if artifact.is_dir:
                folders.append(artifact.path)
            elif artifact.path not in ADDED_BY_MLFLOW:
                sizes[artifact.path] = artifact.file_size
    return sizes


def _copy_folder(source: Path, target: Path) -> Path:
    """Copy regular files and folders; refuse symbolic links, which may point outside."""
    if not source.is_dir():
        msg = f"the files of a version must be in a folder; {source} is not. Register its folder."
        raise InputError(msg)
    try:
        for top, folders, files in os.walk(source, onerror=_raise_error):
            subfolder = target / Path(top).relative_to(source)
            for path in (Path(top) / name for name in (*folders, *files)):
                if path.is_symlink() or not (path.is_file() or path.is_dir()):
                    kind = "a device, a socket or a named pipe"
                    kind = "a symbolic link" if path.is_symlink() else kind
                    name = escape_path(path.relative_to(source).as_posix())
                    msg = f"{name} must be a regular file; it is {kind} (in {source})."
                    raise ManifestError(msg)
            for name in folders:
                (subfolder / name).mkdir()
            for name in files:
                if subfolder != target or name not in ADDED_BY_MLFLOW:
                    shutil.copyfile(Path(top) / name, subfolder / name)
    except PermissionError as error:
        msg = f"{escape_path(str(error.filename))} must be readable; got: {error.strerror}."
        raise ManifestError(msg) from error
    return target


def _raise_error(error: OSError) -> None:
    raise error


def _find_existing_folder(uri: str) -> Path | None:
    """Return the folder at a URI, which must exist; None for URIs of other machines."""
    local = find_local_folder(uri)
    if local is not None and not os.path.lexists(local):
        raise _make_missing_error(uri)
    return local


def _make_missing_error(uri: str) -> InputError:
    return InputError(
        f"artifacts must be at {strip_password(uri)}; they are not. Were they deleted, or was "
        "the database copied without them?"
    )


FOLDER, FILES, RECORD = "models", "files", "record.json"
_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class _KeptCopy(Record):
    """The version of a kept copy, and its files when they were downloaded."""

    version: str
    files: list[FileRecord]


@contextmanager
def open_kept_copy(place: str, tracking_uri: str, version: str, store: Path) -> Iterator[Path]:
    """Yield a kept copy of a version's files, only to be read.

    `version` has the name of the version and its time of creation, since names are used again.
    """
    folder = store / FOLDER / json_digest([tracking_uri, version, place])[:_DIGITS]
    with hold_lock(folder):  # concurrent tasks wait for the same download
        if not _is_whole(folder, list_artifact_sizes(place, tracking_uri)):
            with whole_folder(folder, durable=False) as temporary:
                download = temporary / "download"
                download.mkdir()
                fetch(place, tracking_uri, download).rename(temporary / FILES)
                manifest = Manifest.from_path(temporary / FILES)
                write_json(temporary / RECORD, _KeptCopy(version=version, files=[*manifest.files]))
        os.utime(folder)  # `biasgate clean` keeps recently used copies
    yield folder / FILES


def _is_whole(folder: Path, listed: Mapping[str, int | None]) -> bool:
    """Return True if a kept copy is unchanged, and the server lists the same names and sizes."""
    try:
        manifest = Manifest.from_records(_KeptCopy.read((folder / RECORD).read_bytes()).files)
        if manifest.list_differences(
            Manifest.from_path(folder / FILES, leaving_out=ADDED_BY_MLFLOW)
        ):
            return False
    except (OSError, ValueError, InputError):
        return False
    return not manifest.list_size_differences(listed)
