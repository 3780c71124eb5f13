"""Full, read-only and failing disks, told in one sentence with the place.

Each library has its own words for them, and most of them leave out the place.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_MIB = 2**20
_FULL, _READ_ONLY, _FAILING = "is full", "is read-only", "cannot be read or written"
_BY_NUMBER = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EIO: _FAILING,
}
# Of SQLite, through which MLflow and Prefect keep their data.
_BY_TEXT = {
    "database or disk is full": _FULL,
    "No space left on device": _FULL,
    "attempt to write a readonly database": _READ_ONLY,
    "Read-only file system": _READ_ONLY,
    "unable to open database file": _FAILING,
    "disk I/O error": _FAILING,
}
_WHAT_TO_DO = {
    _FULL: "Free some space and run the command again; what is finished is kept.",
    _READ_ONLY: "Make it writable, or name another place.",
    _FAILING: "Check that the disk is there, has space and can be written to.",
}


def disk_problem(error: BaseException, places: Mapping[str, Path]) -> str | None:
    """Return a sentence on the disk that caused an error; None if no disk did.

    `places`: folders that were written to, by their purpose, in case the error names none. The
    folder of temporary files is added.
    """
    for cause in _causes(error):
        kind = _BY_NUMBER.get(cause.errno or 0) if isinstance(cause, OSError) else None
        kind = kind or next((kind for text, kind in _BY_TEXT.items() if text in str(cause)), None)
        if kind is not None:
            where = _where(cause, kind, {**places, "temporary files": Path(tempfile.gettempdir())})
            return f"{where}. {_WHAT_TO_DO[kind]}"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    seen = set[int]()
    while found is not None and id(found) not in seen:
        yield found
        seen.add(id(found))
        found = found.__cause__ or found.__context__


def _where(error: BaseException, kind: str, places: Mapping[str, Path]) -> str:
    existing = {what: _existing(path) for what, path in places.items()}
    if kind == _FULL:
        left = {what: shutil.disk_usage(path).free // _MIB for what, path in existing.items()}
        listed = [f"{what} {places[what]} ({free:,} MiB left)" for what, free in left.items()]
        return f"a disk {kind}: {'; '.join(listed)}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)} {kind}"
    if kind == _READ_ONLY:
        closed = [what for what, path in existing.items() if not os.access(path, os.W_OK)]
        existing = {what: path for what, path in existing.items() if what in closed} or existing
    return f"one of these {kind}: {'; '.join(f'{what} {places[what]}' for what in existing)}"


def _existing(path: Path) -> Path:
    """Return a path, or the closest folder above that exists."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.exists())
