"""Files that are written completely or not at all, and their digests."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.own_folders import own_folder
from biasgate.tasks.common.plain import plain

_PROBE_BYTES = 4096
_MB, _GB = 1e6, 1e9
FULL_DISK = {errno.ENOSPC, errno.EDQUOT}
"""Numbers of an OSError on a full disk, or a full quota."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; move it to `path` only if the body succeeds.

    A folder is refused before anything is written. The bytes are on the disk before they get their
    name, so that the file also survives a power cut whole.
    """
    if path.is_dir():
        msg = f"{path} must be a file to write; it is a folder."
        raise InputError(msg)
    with own_folder(path.parent, f".{path.name}-") as folder:
        temporary = folder / path.name
        yield temporary
        flush(temporary)
        temporary.replace(path)
        flush(path.parent)


@contextmanager
def whole_folder(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield an empty temporary folder; it becomes `path` only if the body succeeds.

    Its files survive a power cut, unless `durable` is false.
    """
    with own_folder(path.parent, f".{path.name}-") as folder:
        temporary = folder / path.name
        temporary.mkdir()
        yield temporary
        if durable:
            flush_all(temporary)
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
        if durable:
            flush(path.parent)


def flush_all(folder: Path) -> None:
    """Write a folder and everything in it to the disk."""
    for path in folder.rglob("*"):
        flush(path)
    flush(folder)


def flush(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk itself."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on `path` against other threads and processes of this machine.

    A lock file that is a link is refused: another user put it there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.parent / f".{path.name}.lock"
    if file.is_symlink():  # FileLock refuses one that is made after this line
        msg = f"lock file {file} must be a plain file; it is a link. Remove it."
        raise InputError(msg)
    with FileLock(file):
        yield


def require_writable(folder: Path, what: str) -> None:
    """Refuse a folder that cannot be created or written to; leave nothing behind."""
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryDirectory(prefix=".biasgate-", dir=existing) as probe:
            (Path(probe) / "probe").write_bytes(b" " * _PROBE_BYTES)
    except OSError as error:
        where = "" if existing == folder else f" ({existing})"
        msg = (
            f"{what} {folder} must be a folder that can be written to; got: {error.strerror}"
            f"{where}. Name another."
        )
        raise InputError(msg) from error


def existing_above(path: Path) -> Path:
    """Return a path, or the closest folder above that exists."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.exists())


def require_apart(output: Path, store: Path) -> None:
    """Refuse results in a store, or a store in results: recipients of results would get comments.

    Both as they are named and where links lead, since what collects results follows links.
    """
    here, kept = _resolved(output, "output"), _resolved(store, "store")
    named = [Path(os.path.abspath(one)) for one in (output, store)]  # noqa: PTH100 - no links
    below = (
        Path(parent, name)
        for parent, folders, files in os.walk(here)
        for name in (*folders, *files)
    )
    links = (Path(os.path.realpath(path)) for path in below if path.is_symlink())
    if _overlap(here, kept) or _overlap(*named) or any(_overlap(one, kept) for one in links):
        msg = (
            f"output {output} and store {store} must be separate folders, neither inside the "
            "other: the store has the comments, and results are shared. Name another `--output` or "
            "`--store`."
        )
        raise InputError(msg)


def _overlap(one: Path, other: Path) -> bool:
    return one in (other, *other.parents) or other in one.parents


def _resolved(path: Path, what: str) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # of links that lead in a circle
        msg = f"{what} {path} must be a folder; its links lead in a circle."
        raise InputError(msg) from error


def require_space(folder: Path, n_bytes: float, purpose: str, otherwise: str = "") -> None:
    """Refuse work that does not fit on the disk of a folder, which need not exist.

    `purpose`: what the space is for, as in "to unpack a.zip". `otherwise`: what else to do.
    """
    free = shutil.disk_usage(existing_above(folder)).free
    if n_bytes > free:
        msg = (
            f"the disk of {folder} must have {shown_size(n_bytes)} free {purpose}; it has "
            f"{shown_size(free)}. Free some space, or name a store on another disk (`--store` or "
            f"BIASGATE_STORE). {otherwise}"
        )
        raise InputError(msg.rstrip())


def shown_size(n_bytes: float) -> str:
    """Return a number of bytes for a message, as in `2.24 GB` or `448.2 MB`."""
    return f"{n_bytes / _GB:,.2f} GB" if n_bytes >= _GB else f"{n_bytes / _MB:,.1f} MB"


@contextmanager
def refuse_full_disk(folder: Path, purpose: str) -> Iterator[None]:
    """Raise an InputError if the disk of a folder fills up in the body: a retry cannot fix it."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        msg = (
            f"the disk of {folder} must have space {purpose}; it is full. Free some space and run "
            "again: finished work is kept."
        )
        raise InputError(msg) from error


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON (no NaN) atomically."""
    with whole_file(path) as temporary:
        text = json.dumps(plain(content), indent=2, allow_nan=False)
        temporary.write_text(f"{text}\n", "utf-8")


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a folder's files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return json_digest([[str(path.relative_to(folder)), file_digest(path)] for path in files])


def json_digest(content: Any) -> str:
    """SHA-256 of a record or JSON-ready value, independent of key order and of `1` or `1.0`."""
    text = json.dumps(
        _numbers_alike(plain(content)), sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _numbers_alike(content: Any) -> Any:
    """Return the same with whole numbers as integers: a record that is read has floats."""
    if isinstance(content, dict):
        return {key: _numbers_alike(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_numbers_alike(value) for value in content]
    is_whole = isinstance(content, float) and content.is_integer()
    return int(content) if is_whole else content


def found_instead(path: Path) -> str:
    """Return a hint for a missing file: a broken link, a missing folder or a similar name."""
    if path.is_symlink():
        return f" It is a broken link to {path.readlink()}."
    if not path.parent.is_dir():
        return f" Its folder {path.parent} does not exist either."
    return did_you_mean(path.name, [one.name for one in path.parent.iterdir()])


def size_of(path: Path) -> int:
    """Return how many bytes a file, or a folder with all that is in it, takes."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size if os.path.lexists(path) else 0
    total = 0
    for top, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(top, name)).st_size  # noqa: PTH118 - many files
            except FileNotFoundError:
                continue
    return total


def sizes_of(store: Path) -> dict[str, int]:
    """Return how many bytes each part of a store takes, and `total`."""
    sizes = {
        path.name: size_of(path)
        for path in sorted(store.iterdir())
        if not path.name.startswith(".")
    }
    return {**sizes, "total": sum(sizes.values())}
