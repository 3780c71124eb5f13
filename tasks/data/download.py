"""Resumable downloads, verified before they get their final name.

The bytes are written to `<name>.part`; `<name>.part.json` identifies the version of the remote
file. A retry, or a later run, requests the rest of the same version (`Range` with `If-Range`). A
file that has changed is downloaded from the start. Only a file of the expected size and SHA-256 is
renamed to `<name>`; `<name>.json` keeps its digest.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import httpx
from pydantic import JsonValue, StringConstraints

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import (
    FULL_DISK,
    file_digest,
    format_size,
    hold_lock,
    refuse_full_disk,
    require_space,
    write_json,
)
from biasgate.tasks.common.prefect_task import log_message
from biasgate.tasks.common.progress import show_progress

Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$", to_lower=True)]
MAX_TRIES = 5
WAIT_S = 1.0
_TIMEOUT = httpx.Timeout(60.0, connect=20.0)
_RETRY_STATUSES = {408, 425, 429, 500, 502, 503, 504}


class _InterruptedTry(Exception):  # noqa: N818 - never leaves this module
    """An incomplete try; a retry may succeed."""


def download_file(
    url: str,
    path: Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    alternative: str = "",
    expansion: float = 1.0,
) -> str:
    """Download a file unless a complete and verified copy exists; return its SHA-256.

    Proxies are taken from the environment.

    Parameters
    ----------
    url : str
        Address of the file.
    path : Path
        Local path of the file.
    size : int, optional
        Expected size in bytes.
    sha256 : str, optional
        Expected digest in hexadecimal.
    alternative : str
        Alternative to the download, for error texts.
    expansion : float
        Disk space for the file and everything made from it, in multiples of its size.

    Returns
    -------
    str
        SHA-256 of the file in hexadecimal.

    Raises
    ------
    InputError
        If the file does not fit on the disk, cannot be downloaded, or has another size or digest.
    """
    with refuse_full_disk(path.parent, f"to download {path.name}"), hold_lock(path):
        record_file = path.with_name(f"{path.name}.json")
        if path.exists():
            record = _read_json(record_file)
            expected = sha256 or (
                record.get("sha256") if record.get("url") == _hash_url(url) else None
            )
            digest = file_digest(path)
            if digest == expected:
                return digest
        part = path.with_name(f"{path.name}.part")
        partial = _PartialFile(url, part, size, alternative, expansion)
        partial.complete_file()
        digest = partial.verify_file(sha256)
        write_json(record_file, {"url": _hash_url(url), "sha256": digest})
        partial.path.replace(path)
        partial.version_file.unlink(missing_ok=True)
        return digest


def locate_download(cache: Path, url: str) -> Path:
    """Return the path of a URL's file in the cache."""
    return cache / _hash_url(url)[:16] / PurePosixPath(urlsplit(url).path).name


def redact_url(url: str) -> str:
    """Return a URL without user, password and query, which may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@dataclass(frozen=True)
class _PartialFile:
    """The received part of a file."""

    url: str
    path: Path
    size: int | None
    alternative: str
    expansion: float

    @property
    def length(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def version_file(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def discard_file(self) -> None:
        self.path.unlink(missing_ok=True)
        self.version_file.unlink(missing_ok=True)

    def complete_file(self) -> None:
        """Complete the file; give up after several tries without progress."""
        n_failures, longest = 0, self.length
        with httpx.Client(follow_redirects=True, timeout=_TIMEOUT) as client:
            while True:
                try:
                    return self._fetch_rest(client)
                except (httpx.RequestError, _InterruptedTry) as error:
                    n_failures = 1 if self.length > longest else n_failures + 1
                    longest = max(longest, self.length)
                    if n_failures >= MAX_TRIES:
                        hint = f" The first {self.length} bytes are kept: run again to resume."
                        msg = (
                            f"the download of {redact_url(self.url)} failed {MAX_TRIES} times in a "
                            f"row: {str(error).strip() or type(error).__name__}."
                            f"{hint * (self.length > 0)} {self.alternative}"
                        )
                        raise InputError(msg.rstrip()) from error
                    time.sleep(WAIT_S * 2 ** (n_failures - 1))
                except OSError as error:
                    if error.errno in FULL_DISK:
                        raise
                    reason = error.strerror or type(error).__name__
                    msg = f"{self.path} must be writable; {reason}."
                    raise InputError(msg) from error

    def verify_file(self, sha256: str | None) -> str:
        """Return the digest of the complete file; discard and refuse an unexpected file."""
        n_bytes, digest = self.length, file_digest(self.path)
        for rule, setting, expected, actual in (
            ("bytes", "size", self.size, n_bytes),
            ("SHA-256", "sha256", sha256, digest),
        ):
            if expected is not None and expected != actual:
                self.discard_file()
                # Repeat the first characters: logs may mask a digest that a variable holds.
                prefix = f" ({str(expected)[:12]}...)" if setting == "sha256" else ""
                msg = (
                    f"the file at {redact_url(self.url)} must have {rule} {expected}{prefix}; it "
                    f"has {actual} and {n_bytes:,} bytes. The download was deleted: it is damaged, "
                    f"or not the expected file. If you mean this file, set `{setting}` to {actual}."
                )
                raise InputError(msg)
        return digest

    def _fetch_rest(self, client: httpx.Client) -> None:
        version = _read_json(self.version_file)
        resumable = version.get("url") == _hash_url(self.url) and version.get("validator")
        start = self.length if resumable else 0
        if start and start == version.get("total"):
            return
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers |= {"Range": f"bytes={start}-", "If-Range": str(version["validator"])}
        with client.stream("GET", self.url, headers=headers) as response:
            self._refuse_status(response)
            start, total, validator = self._read_extent(response, start)
            if start and (
                validator != version["validator"] or version.get("total") not in {None, total}
            ):
                # Servers that ignore If-Range send the rest of another version.
                self.discard_file()
                raise _InterruptedTry("the file changed on the server")
            if self.size is not None and total is not None and total != self.size:
                msg = (
                    f"the file at {redact_url(self.url)} must have {self.size} bytes; the server "
                    f"has {total}. It is not the expected file: check `url`, `size` and "
                    "`sha256`."
                )
                raise InputError(msg)
            self._report_start(start, self.size if total is None else total)
            if not start:
                self.discard_file()
                content = {"url": _hash_url(self.url), "validator": validator, "total": total}
                write_json(self.version_file, content)
            self._append_body(response, start, total)

    def _refuse_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if status in _RETRY_STATUSES:
            reason = f"the server answered {status} {response.reason_phrase}"
            raise _InterruptedTry(reason)
        if status == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            self.discard_file()
            raise _InterruptedTry("the server has fewer bytes than were received")
        if status not in {httpx.codes.OK, httpx.codes.PARTIAL_CONTENT}:
            msg = (
                f"{redact_url(self.url)} must be a file that can be downloaded; the server "
                f"answered {status} {response.reason_phrase}. Check the address. {self.alternative}"
            )
            raise InputError(msg.rstrip())

    def _read_extent(
        self, response: httpx.Response, start: int
    ) -> tuple[int, int | None, str | None]:
        """Return the body's offset in the file, the file's length, and its version.

        Length and version are None if the server does not report them or compresses the file. A
        weak ETag does not identify a version.
        """
        headers = response.headers
        if _is_encoded(response):
            return 0, None, None
        validator = headers.get("etag")
        if validator is None or validator.startswith("W/"):
            validator = headers.get("last-modified")
        if response.status_code != httpx.codes.PARTIAL_CONTENT:
            length = headers.get("content-length")
            return 0, None if length is None else int(length), validator
        extent = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("content-range", "").strip())
        if extent is None or int(extent[1]) != start or extent[2] == "*":
            self.discard_file()
            raise _InterruptedTry(
                "the server answered with a different part of the file than requested"
            )
        return start, int(extent[2]), validator

    def _report_start(self, start: int, total: int | None) -> None:
        """Print size and host before the first byte; refuse a file that the disk cannot hold."""
        name, host = self.path.stem, urlsplit(redact_url(self.url)).netloc
        if total is None:
            log_message(f"downloading {name} from {host}, which does not report its size")
            return
        n_bytes, is_unpacked = self.expansion * total, self.expansion > 1
        purpose = f"to download {name}" + " and to unpack and freeze it" * is_unpacked
        require_space(self.path.parent, n_bytes - start, purpose, self.alternative)
        received = f", {format_size(start)} already here" * (start > 0)
        needed = f"; about {format_size(n_bytes)} of disk in all" * is_unpacked
        log_message(f"downloading {name} ({format_size(total)}{received}) from {host}{needed}")

    def _append_body(self, response: httpx.Response, start: int, total: int | None) -> None:
        blocks = response.iter_bytes() if _is_encoded(response) else response.iter_raw()
        with (
            self.path.open("ab") as stream,
            show_progress(f"downloading {self.path.stem}", total=total, unit="bytes") as advance,
        ):
            advance(start)
            for block in blocks:
                stream.write(block)
                advance(len(block))
        if total is not None and self.length != total:
            reason = f"the connection ended after {self.length} of {total} bytes"
            raise _InterruptedTry(reason)


def _is_encoded(response: httpx.Response) -> bool:
    return bool(response.headers.get("content-encoding", "identity") != "identity")


def _hash_url(url: str) -> str:
    """Return a digest of a URL, as its secrets must not be written to disk."""
    return hashlib.sha256(url.encode()).hexdigest()


def _read_json(path: Path) -> dict[str, JsonValue]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
