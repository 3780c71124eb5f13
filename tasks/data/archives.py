"""Extracting single files from a zip or tar archive."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.data.unpacked import refuse_bomb

_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
)
_MIB = 2**20
_Opener = Callable[[], IO[bytes] | None]


def archived_files(path: Path) -> list[str]:
    """Return the names, without folders, of the files in an archive.

    Raises
    ------
    InputError
        If it is not a whole zip or tar archive.
    """
    with _opened(path) as files:
        return [name for name, _ in files]


def extract_file(path: Path, name: str, target: Path) -> None:
    """Write the one file of this name, in any folder of the archive, to `target`.

    Paths inside the archive are never used, so that it cannot write anywhere else.

    Raises
    ------
    InputError
        If the archive is damaged or does not hold exactly one such file, or the file is more
        than 50 times as large as the archive.
    """
    with _opened(path) as files:
        found = [opener for other, opener in files if other == name]
        if len(found) != 1:
            msg = f"archive {path} must hold one file {name!r}; it holds {len(found)}."
            raise InputError(msg)
        with whole_file(target) as temporary, temporary.open("wb") as out:
            stream = found[0]()
            if stream is None:
                msg = f"file {name!r} of archive {path} must be a plain file."
                raise InputError(msg)
            with stream:
                while part := stream.read(_MIB):
                    out.write(part)
                    refuse_bomb(path, out.tell(), f"file {name!r} of archive {path}")


@contextmanager
def _opened(path: Path) -> Iterator[list[tuple[str, _Opener]]]:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield list(_zipped(archive))
        else:
            with tarfile.open(path) as tar:
                yield list(_tarred(tar, path))
    except NotImplementedError as error:
        msg = f"archive {path} is compressed in an unknown way: {error}."
        raise InputError(msg) from error
    except RuntimeError as error:
        if "encrypted" not in str(error):
            raise
        msg = f"archive {path} must not be encrypted; it is. Unpack it, and name the folder."
        raise InputError(msg) from error
    except _DAMAGED as error:
        msg = (
            f"file {path} must be a whole zip or tar archive; it is truncated, damaged or of "
            "another type. Delete it and download it again."
        )
        raise InputError(msg) from error


def _zipped(archive: zipfile.ZipFile) -> Iterator[tuple[str, _Opener]]:
    for entry in archive.infolist():
        if not entry.is_dir():
            yield PurePosixPath(entry.filename).name, partial(archive.open, entry)


def _tarred(archive: tarfile.TarFile, path: Path) -> Iterator[tuple[str, _Opener]]:
    size = 0
    for entry in archive:
        size += entry.size  # a later entry is found only after this one was unpacked
        refuse_bomb(path, size, f"archive {path}")
        if entry.isfile():
            yield PurePosixPath(entry.name).name, partial(archive.extractfile, entry)
