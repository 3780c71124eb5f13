"""Manifests: a model's files with their digests, and the differences between two manifests."""

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

_MAX_SHOWN = 5
_HEX = frozenset("0123456789abcdef")


class ManifestError(InputError):
    """Files that cannot be listed in a manifest, or an invalid manifest."""


@dataclass(frozen=True)
class Manifest:
    """A list of a model's files."""

    files: tuple[FileRecord, ...]
    """Path, size in bytes and SHA-256 per file, sorted by path."""

    @classmethod
    def from_path(
        cls, place: Path, *, follow_links: bool = False, leaving_out: Collection[str] = ()
    ) -> Self:
        """Read all files of a folder, or a single file, and compute their digests.

        `place`: a folder or a file. `follow_links`: read the target of a symbolic link to a file,
        as in the cache of the Hugging Face hub. Use it only for folders that the user names, never
        for files from a registry. `leaving_out`: names of files at the top of the folder to skip.
        """
        top = Path(os.path.realpath(place)) if follow_links else place
        if not stat.S_ISDIR(_read_status(top, top).st_mode):
            return cls((_hash_file(top, place.name, follow_links=follow_links),))
        names = (name for name in _walk_names(top, top, follow_links) if name not in leaving_out)
        records = (_hash_file(top / name, name, follow_links=follow_links) for name in names)
        return cls(_sort_files(records))

    @classmethod
    def read_sizes(cls, place: Path, *, leaving_out: Collection[str] = ()) -> dict[str, int]:
        """Return file sizes in bytes by path, without reading the files."""
        if not stat.S_ISDIR(_read_status(place, place).st_mode):
            return {place.name: _require_regular(place, place, place.name).st_size}
        names = (
            name
            for name in _walk_names(place, place, follow_links=False)
            if name not in leaving_out
        )
        return {name: _require_regular(place / name, place / name, name).st_size for name in names}

    @property
    def digest(self) -> str:
        """SHA-256 of all paths with their digests."""
        return json_digest([[file.path, file.sha256] for file in self.files])

    @property
    def size(self) -> int:
        """Total size of the files in bytes."""
        return sum(file.size for file in self.files)

    def list_differences(self, other: Manifest) -> list[str]:
        """Describe the files of `other` that differ from these, sorted by path."""
        before = {file.path: file.sha256 for file in self.files}
        after = {file.path: file.sha256 for file in other.files}
        return [
            f"{escape_path(path)}: {describe_change(before.get(path), after.get(path))}"
            for path in sorted(before.keys() | after.keys(), key=_split_path)
            if before.get(path) != after.get(path)
        ]

    def list_size_differences(self, sizes: Mapping[str, int | None]) -> list[str]:
        """Describe the files that differ from these by name or size, sorted by path.

        `sizes`: bytes by path; an unknown size is None and equals any size.
        """
        before = {file.path: file.size for file in self.files}
        return [
            f"{escape_path(path)}: "
            f"{_describe_size(before.get(path), sizes.get(path), path in sizes)}"
            for path in sorted(before.keys() | sizes.keys(), key=_split_path)
            if path not in before or path not in sizes or sizes[path] not in (None, before[path])
        ]

    @classmethod
    def from_records(cls, files: Sequence[FileRecord]) -> Self:
        """Create a manifest from the files that a verdict records.

        Raises `ManifestError` for an invalid size, digest or path, and for duplicate paths.
        """
        for file in files:
            if file.size < 0 or len(file.sha256) != 64 or not set(file.sha256) <= _HEX:
                msg = f"a manifest must list path, size and sha256 of each file; got {file!r:.200}."
                raise ManifestError(msg)
        times = Counter(file.path for file in files)
        invalid = [path for path, n in times.items() if n > 1 or not _is_plain_path(path)]
        if invalid:
            msg = (
                "paths of a manifest must differ and stay inside the folder; got "
                f"{escape_path(invalid[0])}."
            )
            raise ManifestError(msg)
        return cls(_sort_files(files))


def join_differences(differences: Sequence[str]) -> str:
    """Join the first differences for a message, with the number of further differences."""
    n_more = len(differences) - _MAX_SHOWN
    return "; ".join(differences[:_MAX_SHOWN]) + (f"; and {n_more} more" if n_more > 0 else "")


def escape_path(path: str) -> str:
    """Return a file's path for a message; a path with control characters is escaped."""
    return path if path.isprintable() else ascii(path)


def _sort_files(files: Iterable[FileRecord]) -> tuple[FileRecord, ...]:
    return tuple(sorted(files, key=lambda file: _split_path(file.path)))


def _split_path(path: str) -> list[str]:
    """Return the parts of a path, which sort as `Path` does."""
    return path.split("/")


def _walk_names(folder: Path, top: Path, follow_links: bool) -> Iterator[str]:  # noqa: FBT001
    """Yield the paths of all files in a folder, relative to `top`; refuse symbolic links."""
    try:
        entries = sorted(os.scandir(folder), key=lambda dir_entry: dir_entry.name)
    except OSError as error:
        raise _make_read_error(folder, error) from error
    for entry in entries:
        path = Path(entry.path)
        name = path.relative_to(top).as_posix()
        if entry.is_symlink() and not (follow_links and path.is_file()):
            msg = f"{escape_path(name)} must be a regular file; it is a symbolic link (in {top})."
            raise ManifestError(msg)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk_names(path, top, follow_links)
        else:
            yield name


def _hash_file(path: Path, name: str, *, follow_links: bool) -> FileRecord:
    source = Path(os.path.realpath(path)) if follow_links else path
    before = _require_regular(source, path, name)
    try:
        with os.fdopen(os.open(source, PLAIN_FILE), "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            after = os.fstat(stream.fileno())
    except OSError as error:
        raise _make_read_error(path, error) from error
    if _get_fingerprint(before) != _get_fingerprint(after):
        msg = f"{escape_path(name)} must not change while it is read; it did (in {path.parent})."
        raise ManifestError(msg)
    return FileRecord(path=name, size=after.st_size, sha256=digest)


def _require_regular(source: Path, shown_path: Path, name: str) -> os.stat_result:
    """Return the status of a regular file; raise an error for a link, device, socket or pipe."""
    status = _read_status(source, shown_path)
    if not stat.S_ISREG(status.st_mode):
        link = stat.S_ISLNK(status.st_mode)
        kind = "a symbolic link" if link else "a device, a socket or a named pipe"
        msg = f"{escape_path(name)} must be a regular file; it is {kind} (in {shown_path.parent})."
        raise ManifestError(msg)
    return status


def _get_fingerprint(status: os.stat_result) -> Sequence[int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_status(path: Path, shown_path: Path) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as error:
        raise _make_read_error(shown_path, error) from error


def _make_read_error(path: Path, error: OSError) -> ManifestError:
    return ManifestError(f"{escape_path(str(path))} must be readable; got: {error.strerror}.")


def describe_change(before: str | None, after: str | None) -> str:
    """Describe a file's change by its digests before and now; None if the file is missing."""
    if before is None:
        return "added"
    return "missing" if after is None else "changed"


def _describe_size(before: int | None, after: int | None, listed: bool) -> str:  # noqa: FBT001
    if not listed:
        return "missing"
    size = "" if after is None else f"{after:,} bytes"
    if before is None:
        return f"added, {size}" if size else "added"
    return f"has {size}; it had {before:,}"


def _is_plain_path(path: str) -> bool:
    """Return whether a path is relative, without `..`, in its normal form."""
    pure = PurePosixPath(path)
    return (
        path == pure.as_posix()
        and not pure.is_absolute()
        and pure.parts != ()
        and ".." not in pure.parts
        and "\0" not in path
        and "\\" not in path
    )
