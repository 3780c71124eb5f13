"""Folders of one process, which are removed when it ends; if it is killed, by the next run."""

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
_mine: set[Path] = set()
_perhaps_empty: set[Path] = set()
_changing = threading.Lock()
_users: list[object] = []
_shared = ExitStack()


@contextmanager
def own_folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Yield a new folder in `parent`; it is removed when the body ends.

    Its lock file is held until then. The system releases the lock of a process that is killed,
    so a folder whose lock is free has no owner. Such folders with this prefix are removed first.
    This also holds for processes in other containers, which cannot see each other.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{glob.escape(prefix)}*"):
        _remove_if_left(left)
    folder, lock = _make(parent, prefix)
    _mine.add(folder)
    try:
        yield folder
    finally:
        _remove(folder)
        _mine.discard(folder)
        lock.release()


@contextmanager
def temporary_files() -> Iterator[None]:
    """Put the temporary files of this process, also those of libraries, in one own folder.

    Libraries such as MLflow leave files in the system's temporary folder. This folder is removed
    when the last of its users has ended.
    """
    user = object()
    with _changing:
        if not _users:
            _shared.enter_context(_redirected())
        _users.append(user)
    try:
        yield
    finally:
        with _changing:
            _users.remove(user)
            if not _users:
                _shared.close()


@contextmanager
def removed_if_empty(folder: str) -> Iterator[None]:
    """Remove a folder if the body fails before it has written anything there."""
    path = Path(folder)
    _perhaps_empty.add(path)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            path.rmdir()
        raise
    finally:
        _perhaps_empty.discard(path)


def remove_own_folders() -> None:
    """Remove all own folders of this process, which must end at once."""
    for folder in list(_mine):
        _remove(folder)
    for folder in list(_perhaps_empty):
        with suppress(OSError):
            folder.rmdir()


@contextmanager
def _redirected() -> Iterator[None]:
    system, named = tempfile.tempdir, os.environ.get("TMPDIR")
    with own_folder(Path(tempfile.gettempdir()), "biasgate-") as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = system
            os.environ.pop("TMPDIR")
            if named is not None:
                os.environ["TMPDIR"] = named


def _make(parent: Path, prefix: str) -> tuple[Path, FileLock]:
    """Make a folder and hold its lock; again if another process removed it in between."""
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


def _remove_if_left(folder: Path) -> None:
    if folder.is_symlink() or not (folder / _LOCK).is_file():
        return
    with suppress(Timeout, OSError), FileLock(folder / _LOCK, timeout=0):
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock file last: without it, the rest would stay after a kill."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
