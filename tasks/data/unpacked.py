"""How large compressed files may become: a small file must not fill memory or disk."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from biasgate.tasks.common.errors import InputError

_MIB = 2**20
# Text is packed to a fifth or so; only a file made for it is packed to a fiftieth.
_MOST_TIMES, _ALWAYS_ALLOWED = 50, 64 * _MIB


def refuse_bomb(path: Path, unpacked: int, what: str, *, always: int | None = None) -> None:
    """Refuse bytes that are more than `always` (64 MiB) and 50 times their compressed file.

    `what` names them in the message.
    """
    most = max(always or _ALWAYS_ALLOWED, _MOST_TIMES * path.stat().st_size)
    if unpacked > most:
        msg = (
            f"{what} must have at most {most // _MIB:,} MiB when it is unpacked, {_MOST_TIMES} "
            "times the size of the compressed file; it has more. If that is right, unpack it (a "
            "Parquet file: save it as CSV) and give the unpacked file."
        )
        raise InputError(msg)


@contextmanager
def opened_table(path: Path) -> Iterator[tuple[IO[bytes], Any]]:
    """Yield the bytes of a file, to measure progress, and its content, unpacked if it is `.gz`.

    Reading the content refuses what `refuse_bomb` does.
    """
    with path.open("rb") as stream:
        if path.suffix != ".gz":
            yield stream, stream
            return
        with (
            gzip.GzipFile(fileobj=stream) as unpacked,
            io.BufferedReader(_Bounded(path, unpacked), _MIB) as content,
        ):
            yield stream, content


class _Bounded(io.RawIOBase):
    """What a gzip file unpacks to, up to the limit."""

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
