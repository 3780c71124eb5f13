"""Limits on the unpacked size of compressed files: a small file must not fill memory or disk."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from biasgate.tasks.common.errors import InputError

_MIB = 2**20
# Text compresses to about a fifth; only a decompression bomb compresses to less than a fiftieth.
_MAX_RATIO, _ALWAYS_ALLOWED = 50, 64 * _MIB


def refuse_bomb(path: Path, unpacked: int, subject: str, *, allowance: int | None = None) -> None:
    """Refuse more unpacked bytes than 50 times the compressed file, but always allow 64 MiB.

    `subject` is the subject of the error text; `allowance` replaces the 64 MiB.
    """
    limit = max(allowance or _ALWAYS_ALLOWED, _MAX_RATIO * path.stat().st_size)
    if unpacked > limit:
        msg = (
            f"{subject} must have at most {limit // _MIB:,} MiB when it is unpacked, {_MAX_RATIO} "
            "times the size of the compressed file; it has more. If that is right, unpack it (a "
            "Parquet file: save it as CSV) and give the unpacked file."
        )
        raise InputError(msg)


@contextmanager
def open_table(path: Path) -> Iterator[tuple[IO[bytes], Any]]:
    """Open a file; yield its raw stream, for progress, and its content, unpacked if `.gz`.

    Reading the content raises an error at the limit of `refuse_bomb`.
    """
    with path.open("rb") as stream:
        if path.suffix != ".gz":
            yield stream, stream
            return
        with (
            gzip.GzipFile(fileobj=stream) as unpacked,
            io.BufferedReader(_BoundedReader(path, unpacked), _MIB) as content,
        ):
            yield stream, content


class _BoundedReader(io.RawIOBase):
    """Stream of a gzip file's content, up to the limit."""

    def __init__(self, path: Path, unpacked: gzip.GzipFile) -> None:
        self._path = path
        self._unpacked = unpacked
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n_bytes = self._unpacked.readinto(buffer)
        self._size += n_bytes
        refuse_bomb(self._path, self._size, f"file {self._path}")
        return n_bytes
