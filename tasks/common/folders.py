"""A folder on this machine, or at any URL that fsspec opens (`s3://`, `gs://`)."""

from __future__ import annotations

import errno
import os
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from biasgate.tasks.common.files import hold_lock, whole_file

_TRIES, _PAUSE_S = 3, 0.2


@dataclass(frozen=True)
class Folder:
    """A folder whose files are written atomically.

    Credentials and endpoints are read by fsspec: from its configuration files, its environment
    variables (`FSSPEC_S3_...`) and those of the cloud's client.
    """

    url: str
    """A path, or a URL such as `s3://bucket/prefix`."""

    def child(self, *names: str) -> Folder:
        """Return a folder inside this folder."""
        return Folder("/".join([self.url.rstrip("/"), *names]))

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if the file does not exist."""
        try:
            return bytes(self._system.cat_file(f"{self._path}/{name}"))
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically.

        Readers see only complete files: object stores publish an object when its upload ends, and
        a local file gets its name after its content.
        """
        if self._is_local:
            with whole_file(Path(self._path) / name) as temporary:
                temporary.write_bytes(content)
        else:
            self._system.pipe_file(f"{self._path}/{name}", content)

    def create(self, name: str, content: bytes) -> bool:
        """Write a file atomically unless it exists; return True if this call wrote it.

        Only one of several concurrent callers writes: on this machine if each holds the lock, and
        on stores whose fsspec implementation creates exclusively (`s3fs`, `gcsfs`, `adlfs`). Other
        implementations only check first if the file exists, or overwrite it.
        """
        if self._is_local:
            if (Path(self._path) / name).exists():
                return False
            self.write(name, content)
            return True
        for _ in range(_TRIES):
            try:
                self._system.pipe_file(f"{self._path}/{name}", content, mode="create")
            except FileExistsError:
                return False
            except (NotImplementedError, TypeError):
                break
            except OSError as error:
                # Stores with the API of S3 have several errors for a file that exists. S3 may also
                # refuse both of two concurrent callers, which then try again.
                if error.errno == errno.ENOSYS:
                    break
                if self.read(name) is not None:
                    return False
                time.sleep(_PAUSE_S)
            else:
                return True
        self.write(name, content)
        return True

    def touch(self) -> None:
        """Update the time of use of a local folder; folders that are not used may be removed."""
        if self._is_local:
            with suppress(OSError):
                os.utime(self._path)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with suppress(FileNotFoundError):
            self._system.rm_file(f"{self._path}/{name}")

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Lock a file against concurrent writers; without effect for folders in object stores."""
        return hold_lock(Path(self._path) / name) if self._is_local else nullcontext()

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        system, path = url_to_fs(self.url)
        return system, str(path)

    @property
    def _system(self) -> Any:
        return self._opened[0]

    @property
    def _path(self) -> str:
        return self._opened[1]

    @property
    def _is_local(self) -> bool:
        return isinstance(self._system, LocalFileSystem)
