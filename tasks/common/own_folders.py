"""Temporary folders owned by one process, removed at its end or, after a kill, by the next run."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

_LOCK = ".lock"
_own_folders: set[Path] = set()
_removable: set[Path] = set()
_users_lock = threading.Lock()
_users: list[object] = []
_shared = ExitStack()


@contextmanager
def own_folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Yield a new folder in `parent`, which is removed when the body ends.

    The process holds a lock file in the folder until then. The system releases the lock of a killed
    process, so a folder with a free lock is a leftover. Leftovers with this prefix are removed
    first. Locks also work between containers, whose processes cannot see each other.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for leftover in parent.glob(f"{glob.escape(prefix)}*"):
        if (leftover / _LOCK).is_file() and not leftover.is_symlink():
            with suppress(Timeout, OSError), FileLock(leftover / _LOCK, timeout=0):
                _remove_folder(leftover)
    folder, lock = _make_folder(parent, prefix)
    _own_folders.add(folder)
    try:
        yield folder
    finally:
        _remove_folder(folder)
        _own_folders.discard(folder)
        lock.release()


@contextmanager
def redirect_temporary_files() -> Iterator[None]:
    """Redirect the temporary files of this process, also those of libraries, to one own folder.

    Libraries such as MLflow leave files in the system's temporary folder. The own folder is removed
    when the last of all nested or concurrent bodies ends.
    """
    user = object()
    with _users_lock:
        if not _users:
            _shared.enter_context(_redirect_temporary_files())
        _users.append(user)
    try:
        yield
    finally:
        with _users_lock:
            _users.remove(user)
            if not _users:
                _shared.close()


@contextmanager
def discard_if_empty(folder: str) -> Iterator[None]:
    """Remove a folder if the body fails before it has written to that folder."""
    path = Path(folder)
    _removable.add(path)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            path.rmdir()
        raise
    finally:
        _removable.discard(path)


def remove_own_folders() -> None:
    """Remove all own folders of this process, which is about to end."""
    for folder in list(_own_folders):
        _remove_folder(folder)
    for folder in list(_removable):
        with suppress(OSError):
            folder.rmdir()


@contextmanager
def _redirect_temporary_files() -> Iterator[None]:
    system, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    with own_folder(Path(tempfile.gettempdir()), "biasgate-") as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = system
            os.environ.pop("TMPDIR")
            if variable is not None:
                os.environ["TMPDIR"] = variable


def _make_folder(parent: Path, prefix: str) -> tuple[Path, FileLock]:
    """Make a folder and hold its lock; retry if another process removed it in between."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = FileLock(folder / _LOCK)
        try:
            lock.acquire()
        except FileNotFoundError:
            continue
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder, lock


def _remove_folder(folder: Path) -> None:
    """Remove a folder, its lock file last, so that a killed removal is resumed by the next run."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
