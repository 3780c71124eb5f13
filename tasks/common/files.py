"""Files and folders that are written atomically, and their digests and sizes."""

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
from biasgate.tasks.common.plain import convert_to_plain

_PROBE_BYTES = 4096
_MB, _GB = 1e6, 1e9
FULL_DISK = {errno.ENOSPC, errno.EDQUOT}
"""Values of `errno` for a full disk or an exhausted quota."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which is moved to `path` only if the body succeeds.

    A folder is refused before anything is written. The content is flushed to the disk before the
    file gets its name. A power cut therefore leaves either the old file or the new one.
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
    """Yield an empty temporary folder, which replaces `path` only if the body succeeds.

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
    """Flush a folder and all its content to the disk."""
    for path in folder.rglob("*"):
        flush(path)
    flush(folder)


def flush(path: Path) -> None:
    """Flush a file, or the directory entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock on `path` against other threads and processes of this machine.

    A lock file that is a link is refused, since only another user can have created it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.parent / f".{path.name}.lock"
    if file.is_symlink():  # FileLock refuses a link that is created after this line
        msg = f"lock file {file} must be a plain file; it is a link. Remove it."
        raise InputError(msg)
    with FileLock(file):
        yield


def require_writable(folder: Path, name: str) -> None:
    """Refuse a folder that cannot be created or written to; a written probe is removed."""
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryDirectory(prefix=".biasgate-", dir=existing) as probe:
            (Path(probe) / "probe").write_bytes(b" " * _PROBE_BYTES)
    except OSError as error:
        place = "" if existing == folder else f" ({existing})"
        msg = (
            f"{name} {folder} must be a folder that can be written to; got: {error.strerror}"
            f"{place}. Name another."
        )
        raise InputError(msg) from error


def find_existing_folder(path: Path) -> Path:
    """Return a path if it exists, or else its closest existing parent folder."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.exists())


def require_separate_folders(output: Path, store: Path) -> None:
    """Refuse an output folder inside the store, or a store inside the output folder.

    Otherwise the recipients of results would get comments. Both the given and the resolved paths
    are compared, and links inside the output, since programs that collect results follow links.
    """
    resolved_output = _resolve_links(output, "output")
    resolved_store = _resolve_links(store, "store")
    given = [Path(os.path.abspath(path)) for path in (output, store)]  # noqa: PTH100 - no links
    below = (
        Path(parent, name)
        for parent, folders, files in os.walk(resolved_output)
        for name in (*folders, *files)
    )
    links = (Path(os.path.realpath(path)) for path in below if path.is_symlink())
    if (
        _is_nested(resolved_output, resolved_store)
        or _is_nested(*given)
        or any(_is_nested(link, resolved_store) for link in links)
    ):
        msg = (
            f"output {output} and store {store} must be separate folders, neither inside the "
            "other: the store has the comments, and results are shared. Name another `--output` or "
            "`--store`."
        )
        raise InputError(msg)


def _is_nested(first: Path, second: Path) -> bool:
    return first in (second, *second.parents) or second in first.parents


def _resolve_links(path: Path, name: str) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a cycle of links
        msg = f"{name} {path} must be a folder; its links lead in a circle."
        raise InputError(msg) from error


def require_space(folder: Path, n_bytes: float, purpose: str, otherwise: str = "") -> None:
    """Refuse work that needs more space than the disk of a folder has; the folder may not exist.

    `purpose`: the use of the space, as in "to unpack a.zip". `otherwise`: a further remedy.
    """
    free = shutil.disk_usage(find_existing_folder(folder)).free
    if n_bytes > free:
        msg = (
            f"the disk of {folder} must have {format_size(n_bytes)} free {purpose}; it has "
            f"{format_size(free)}. Free some space, or name a store on another disk (`--store` or "
            f"BIASGATE_STORE). {otherwise}"
        )
        raise InputError(msg.rstrip())


def format_size(n_bytes: float) -> str:
    """Format a number of bytes, as in `2.24 GB` or `448.2 MB`."""
    return f"{n_bytes / _GB:,.2f} GB" if n_bytes >= _GB else f"{n_bytes / _MB:,.1f} MB"


@contextmanager
def refuse_full_disk(folder: Path, purpose: str) -> Iterator[None]:
    """Raise an InputError, which is not retried, if the disk of a folder fills up in the body."""
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
        text = json.dumps(convert_to_plain(content), indent=2, allow_nan=False)
        temporary.write_text(f"{text}\n", "utf-8")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of a folder's files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return json_digest([[str(path.relative_to(folder)), file_digest(path)] for path in files])


def json_digest(content: Any) -> str:
    """Return the SHA-256 of a record or JSON-ready value.

    It depends neither on the order of keys nor on the type of a whole number (`1` or `1.0`).
    """
    text = json.dumps(
        _unify_numbers(convert_to_plain(content)),
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _unify_numbers(content: Any) -> Any:
    """Convert whole floats to integers, since a record read from JSON may have floats."""
    if isinstance(content, dict):
        return {key: _unify_numbers(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_unify_numbers(value) for value in content]
    is_whole = isinstance(content, float) and content.is_integer()
    return int(content) if is_whole else content


def suggest_path(path: Path) -> str:
    """Return a hint for a missing file: a broken link, a missing folder or a similar name."""
    if path.is_symlink():
        return f" It is a broken link to {path.readlink()}."
    if not path.parent.is_dir():
        return f" Its folder {path.parent} does not exist either."
    return did_you_mean(path.name, [sibling.name for sibling in path.parent.iterdir()])


def measure_size(path: Path) -> int:
    """Return the size of a file, or of all files in a folder, in bytes."""
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


def measure_store(store: Path) -> dict[str, int]:
    """Return the size of each part of a store in bytes, and their sum as `total`."""
    sizes = {
        path.name: measure_size(path)
        for path in sorted(store.iterdir())
        if not path.name.startswith(".")
    }
    return {**sizes, "total": sum(sizes.values())}
