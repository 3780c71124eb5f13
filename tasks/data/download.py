"""Downloads that survive a broken connection and are verified before they get their name.

The bytes go to `<name>.part`; `<name>.part.json` identifies the version of the remote file. A
retry, or a later run, asks for the rest of that same version (`Range` with `If-Range`); a file
that changed meanwhile is downloaded from the start. Only a file of the expected size and
SHA-256 is renamed to `<name>`; `<name>.json` keeps its digest.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
from pydantic import JsonValue

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import (
    FULL_DISK,
    file_digest,
    locked,
    refuse_full_disk,
    require_space,
    shown_size,
    write_json,
)
from biasgate.tasks.common.prefect_task import say
from biasgate.tasks.common.progress import progress

TRIES = 5
WAIT_S = 1.0
_TIMEOUT = httpx.Timeout(60.0, connect=20.0)
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}


class _Cut(Exception):  # noqa: N818 - never leaves this module
    """One try ended early; a retry may succeed."""


def download(
    url: str,
    path: Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    otherwise: str = "",
    expansion: float = 1.0,
) -> str:
    """Download a file, unless a complete and verified copy exists.

    Parameters
    ----------
    url : str
        Its address (http or https). Proxies are taken from the environment.
    size : int, optional
        Its size in bytes, if known.
    sha256 : str, optional
        Its SHA-256 in hexadecimal, if known.
    otherwise : str
        What to do without the download, for the error text.
    expansion : float
        Disk space for the file and everything that is made of it, in multiples of its size.
        Default: the file only.

    Returns
    -------
    str
        SHA-256 of the file.

    Raises
    ------
    InputError
        If the file cannot be downloaded, does not fit on the disk, or is not the expected one.
    """
    with refuse_full_disk(path.parent, f"to download {path.name}"), locked(path):
        kept = _kept(url, path, sha256)
        if kept is not None:
            return kept
        part = path.with_name(f"{path.name}.part")
        _fetch(url, part, size, otherwise, expansion)
        found = _verified(url, part, size, sha256)
        write_json(_record_file(path), {"url": _key(url), "sha256": found})
        part.replace(path)
        _version_file(part).unlink(missing_ok=True)
        return found


def shown(url: str) -> str:
    """Return a URL without user, password and query, which may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _kept(url: str, path: Path, sha256: str | None) -> str | None:
    """Return the digest of the existing file, if it is the expected one."""
    if not path.exists():
        return None
    record = _read_json(_record_file(path))
    expected = sha256 or (record.get("sha256") if record.get("url") == _key(url) else None)
    found = file_digest(path)
    return found if found == expected else None


def _fetch(url: str, part: Path, size: int | None, otherwise: str, expansion: float) -> None:
    """Complete `part`, retrying as long as tries make progress."""
    failures, best = 0, _length(part)
    with httpx.Client(follow_redirects=True, timeout=_TIMEOUT) as client:
        while True:
            try:
                _fetch_rest(client, url, part, size, otherwise, expansion)
            except (httpx.RequestError, _Cut) as error:
                failures = 1 if _length(part) > best else failures + 1
                best = max(best, _length(part))
                if failures >= TRIES:
                    msg = _failed(url, part, error, otherwise)
                    raise InputError(msg) from error
                time.sleep(WAIT_S * 2 ** (failures - 1))
            except OSError as error:
                if error.errno in FULL_DISK:
                    raise
                msg = f"{part} must be writable; {error.strerror or type(error).__name__}."
                raise InputError(msg) from error
            else:
                return


def _fetch_rest(
    client: httpx.Client,
    url: str,
    part: Path,
    size: int | None,
    otherwise: str,
    expansion: float,
) -> None:
    version = _read_json(_version_file(part))
    resumable = version.get("url") == _key(url) and version.get("validator")
    start = _length(part) if resumable else 0
    if start and start == version.get("total"):
        return
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": str(version["validator"])}
    with client.stream("GET", url, headers=headers) as response:
        _refuse_status(url, part, response, otherwise)
        validator = _validator(response)
        start, total = _extent(response, part, start)
        if start and (
            validator != version["validator"] or version.get("total") not in {None, total}
        ):
            # Some servers honour Range but ignore If-Range: this is the rest of another version.
            _discard(part)
            raise _Cut("the file changed on the server")
        if size is not None and total is not None and total != size:
            msg = (
                f"the file at {shown(url)} must have {size} bytes; the server has {total}. "
                f"It is another file than expected: check `url`, `size` and `sha256`."
            )
            raise InputError(msg)
        _announce(url, part, start, size if total is None else total, otherwise, expansion)
        if not start:
            _discard(part)
            content = {"url": _key(url), "validator": validator, "total": total}
            write_json(_version_file(part), content)
        _write(response, part, start, total)


def _announce(
    url: str, part: Path, start: int, total: int | None, otherwise: str, expansion: float
) -> None:
    """Report a download before its first byte; refuse it if the disk is too small."""
    name, host = part.stem, urlsplit(shown(url)).netloc
    if total is None:
        say(f"downloading {name} from {host}, which does not report its size")
        return
    purpose = f"to download {name}" + " and to unpack and freeze it" * (expansion > 1)
    require_space(part.parent, expansion * total - start, purpose, otherwise)
    here = f", {shown_size(start)} already here" * (start > 0)
    in_all = f"; about {shown_size(expansion * total)} of disk in all" * (expansion > 1)
    say(f"downloading {name} ({shown_size(total)}{here}) from {host}{in_all}")


def _write(response: httpx.Response, part: Path, start: int, total: int | None) -> None:
    encoded = response.headers.get("content-encoding", "identity") != "identity"
    blocks = response.iter_bytes() if encoded else response.iter_raw()
    with (
        part.open("ab") as stream,
        progress(f"downloading {part.stem}", total=total, unit="bytes") as advance,
    ):
        advance(start)
        for block in blocks:
            stream.write(block)
            advance(len(block))
    if total is not None and _length(part) != total:
        reason = f"the connection ended after {_length(part)} of {total} bytes"
        raise _Cut(reason)


def _refuse_status(url: str, part: Path, response: httpx.Response, otherwise: str) -> None:
    status = response.status_code
    if status in _TRY_AGAIN:
        reason = f"the server answered {status} {response.reason_phrase}"
        raise _Cut(reason)
    if status == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
        _discard(part)
        raise _Cut("the server has fewer bytes than were received")
    if status not in {httpx.codes.OK, httpx.codes.PARTIAL_CONTENT}:
        msg = (
            f"{shown(url)} must be a file that can be downloaded; the server answered {status} "
            f"{response.reason_phrase}. Check the address. {otherwise}"
        )
        raise InputError(msg.rstrip())


def _extent(response: httpx.Response, part: Path, asked: int) -> tuple[int, int | None]:
    """Return where the body starts in the file, and the file's length if the server gives it."""
    if response.headers.get("content-encoding", "identity") != "identity":
        return 0, None
    if response.status_code == httpx.codes.PARTIAL_CONTENT:
        told = re.fullmatch(
            r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("content-range", "").strip()
        )
        if told is None or int(told[1]) != asked or told[2] == "*":
            _discard(part)
            raise _Cut("the server answered with another part than the requested one")
        return asked, int(told[2])
    length = response.headers.get("content-length")
    return 0, None if length is None else int(length)


def _validator(response: httpx.Response) -> str | None:
    """Return what identifies this version of the file; a weak ETag is not enough."""
    if response.headers.get("content-encoding", "identity") != "identity":
        return None
    etag = response.headers.get("etag")
    if etag is not None and not etag.startswith("W/"):
        return str(etag)
    modified = response.headers.get("last-modified")
    return None if modified is None else str(modified)


def _verified(url: str, part: Path, size: int | None, sha256: str | None) -> str:
    found_size, found = _length(part), file_digest(part)
    for rule, setting, expected, got in (
        ("bytes", "size", size, found_size),
        ("SHA-256", "sha256", sha256, found),
    ):
        if expected is not None and expected != got:
            _discard(part)
            # The first characters too: all of them are masked if a variable holds them.
            begin = f" ({str(expected)[:12]}...)" if setting == "sha256" else ""
            msg = (
                f"the file at {shown(url)} must have {rule} {expected}{begin}; it has {got} and "
                f"{found_size:,} bytes. The download was deleted: it is damaged, or another file "
                f"than expected. If you mean this file, set `{setting}` to {got}."
            )
            raise InputError(msg)
    return found


def _failed(url: str, part: Path, error: Exception, otherwise: str) -> str:
    kept = f" The first {_length(part)} bytes are kept: run again to resume." * (_length(part) > 0)
    reason = str(error).strip() or type(error).__name__
    return (
        f"the download of {shown(url)} failed {TRIES} times in a row: {reason}.{kept} {otherwise}"
    ).rstrip()


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _version_file(part).unlink(missing_ok=True)


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _key(url: str) -> str:
    """Return a digest of a URL, because its secrets must not be written to disk."""
    return hashlib.sha256(url.encode()).hexdigest()


def _version_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _record_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _read_json(path: Path) -> dict[str, JsonValue]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
