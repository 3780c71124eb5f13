"""The list of a model's files with their digests, and how two such lists differ."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.untrusted import PLAIN_FILE
from biasgate.tasks.records import FileRecord

_TOLD = 5
_HEX = frozenset("0123456789abcdef")


class ManifestError(InputError):
    """Files that no manifest can be made of, or a manifest that is not one."""


@dataclass(frozen=True)
class Manifest:
    """The files of a model."""

    files: tuple[FileRecord, ...]
    """Path, size and SHA-256 of each, sorted by path."""

    @classmethod
    def of(
        cls, place: Path, *, follow_links: bool = False, leaving_out: Collection[str] = ()
    ) -> Self:
        """Read every file of a folder, or a single file.

        `place`: a folder, or a file, which is then the only one in the list. `follow_links`: read
        the target of a symbolic link to a file, as in the cache of the Hugging Face hub. Only for
        folders that the user names, never for files from a registry. `leaving_out`: regular files
        at the top of the folder that are not listed.
        """
        top = Path(os.path.realpath(place)) if follow_links else place
        if not stat.S_ISDIR(_status(top, top).st_mode):
            return cls((_read(top, place.name, follow_links=follow_links),))
        names = (one for one in _names(top, top, follow_links) if one not in leaving_out)
        read = (_read(top / name, name, follow_links=follow_links) for name in names)
        return cls(_in_order(read))

    @classmethod
    def sizes_in(cls, place: Path, *, leaving_out: Collection[str] = ()) -> dict[str, int]:
        """Return the size of each file by path, in bytes, without reading any."""
        if not stat.S_ISDIR(_status(place, place).st_mode):
            return {place.name: _regular(place, place, place.name).st_size}
        names = (one for one in _names(place, place, follow_links=False) if one not in leaving_out)
        return {name: _regular(place / name, place / name, name).st_size for name in names}

    @property
    def digest(self) -> str:
        """SHA-256 of all paths and digests."""
        return json_digest([[file.path, file.sha256] for file in self.files])

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)

    def differences(self, found: Manifest) -> list[str]:
        """Return how the files found differ from these, one short sentence for each."""
        before = {file.path: file.sha256 for file in self.files}
        now = {file.path: file.sha256 for file in found.files}
        return [
            f"{shown(path)}: {difference(before.get(path), now.get(path))}"
            for path in sorted(before.keys() | now.keys(), key=_parts)
            if before.get(path) != now.get(path)
        ]

    def other_sizes(self, sizes: Mapping[str, int | None]) -> list[str]:
        """Return how listed files differ from these in name or size, as `differences` does.

        A size of None is not known.
        """
        before = {file.path: file.size for file in self.files}
        return [
            f"{shown(path)}: {_other_size(before.get(path), sizes.get(path), path in sizes)}"
            for path in sorted(before.keys() | sizes.keys(), key=_parts)
            if path not in before or path not in sizes or sizes[path] not in (None, before[path])
        ]

    @classmethod
    def of_records(cls, files: Sequence[FileRecord]) -> Self:
        """Return the manifest of recorded files."""
        for file in files:
            if file.size < 0 or len(file.sha256) != 64 or not set(file.sha256) <= _HEX:
                msg = f"a manifest must list path, size and sha256 of each file; got {file!r:.200}."
                raise ManifestError(msg)
        times = Counter(file.path for file in files)
        wrong = [path for path, n in times.items() if n > 1 or not _stays_inside(path)]
        if wrong:
            msg = (
                "paths of a manifest must differ and stay inside the folder; got "
                f"{shown(wrong[0])}."
            )
            raise ManifestError(msg)
        return cls(_in_order(files))


def first_few(differences: Sequence[str]) -> str:
    """Return differences for a message: the first few, and how many more there are."""
    more = len(differences) - _TOLD
    return "; ".join(differences[:_TOLD]) + (f"; and {more} more" if more > 0 else "")


def shown(path: str) -> str:
    """Return a file's path for a message, without control characters."""
    return path if path.isprintable() else ascii(path)


def _in_order(files: Iterable[FileRecord]) -> tuple[FileRecord, ...]:
    return tuple(sorted(files, key=lambda file: _parts(file.path)))


def _parts(path: str) -> list[str]:
    """Return what `sorted` compares of a `Path`."""
    return path.split("/")


def _names(folder: Path, top: Path, follow_links: bool) -> Iterator[str]:  # noqa: FBT001
    """Yield the path of each file below the top; refuse what is neither file nor folder."""
    try:
        entries = sorted(os.scandir(folder), key=lambda dir_entry: dir_entry.name)
    except OSError as error:
        raise _unreadable(folder, error) from error
    for entry in entries:
        path = Path(entry.path)
        name = path.relative_to(top).as_posix()
        if entry.is_symlink() and not (follow_links and path.is_file()):
            msg = f"{shown(name)} must be a regular file; it is a symbolic link (in {top})."
            raise ManifestError(msg)
        if entry.is_dir(follow_symlinks=False):
            yield from _names(path, top, follow_links)
        else:
            yield name


def _read(path: Path, name: str, *, follow_links: bool) -> FileRecord:
    source = Path(os.path.realpath(path)) if follow_links else path
    before = _regular(source, path, name)
    try:
        with os.fdopen(os.open(source, PLAIN_FILE), "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            after = os.fstat(stream.fileno())
    except OSError as error:
        raise _unreadable(path, error) from error
    if _version(before) != _version(after):
        msg = f"{shown(name)} must not change while it is read; it did (in {path.parent})."
        raise ManifestError(msg)
    return FileRecord(path=name, size=after.st_size, sha256=digest)


def _regular(source: Path, named: Path, name: str) -> os.stat_result:
    """Return the status of a regular file; refuse anything else."""
    status = _status(source, named)
    if not stat.S_ISREG(status.st_mode):
        link = stat.S_ISLNK(status.st_mode)
        kind = "a symbolic link" if link else "a device, a socket or a named pipe"
        msg = f"{shown(name)} must be a regular file; it is {kind} (in {named.parent})."
        raise ManifestError(msg)
    return status


def _version(status: os.stat_result) -> Sequence[int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _status(path: Path, named: Path) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as error:
        raise _unreadable(named, error) from error


def _unreadable(path: Path, error: OSError) -> ManifestError:
    return ManifestError(f"{shown(str(path))} must be readable; got: {error.strerror}.")


def difference(before: str | None, now: str | None) -> str:
    """Say how a file differs, by its digests; None where there is none."""
    if before is None:
        return "added"
    return "missing" if now is None else "changed"


def _other_size(before: int | None, now: int | None, listed: bool) -> str:  # noqa: FBT001
    if not listed:
        return "missing"
    size = "" if now is None else f"{now:,} bytes"
    if before is None:
        return f"added, {size}" if size else "added"
    return f"has {size}; it had {before:,}"


def _stays_inside(path: str) -> bool:
    """Whether a path is plain: relative, without `..`, and written in only one way."""
    pure = PurePosixPath(path)
    return (
        path == pure.as_posix()
        and not pure.is_absolute()
        and pure.parts != ()
        and ".." not in pure.parts
        and "\0" not in path
        and "\\" not in path
    )
