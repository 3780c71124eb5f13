"""Shards on this machine or in an object store, by pyarrow: listed, and copied here one at a time.

A copy is in a folder of its own, which is removed when the shard is counted, so the readers and
digests of files serve for objects, too. Errors of a store are told by their code alone.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileSelector, FileSystem
from pydantic import BeforeValidator, ValidationInfo

from biasgate.tasks.common.errors import InputError, SourceError
from biasgate.tasks.common.own_folders import own_folder
from biasgate.tasks.common.secrets import masked
from biasgate.tasks.common.settings import relative_to_configuration
from biasgate.tasks.data.formats import is_json_lines, is_parquet

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^?]*)(\?.*)?", re.DOTALL)
_STORES = ("s3", "gs")
_PATTERN = re.compile(r"[*[]")
_PLAIN = "/%=+,:@"  # not quoted in the path of a URL
_BLOCK, _HEAD = 8 * 2**20, 2**20
_CODE = re.compile(r"AWS Error ([A-Z_]+)|Status\(([A-Z_]+)")
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|NOT_FOUND|Bucket '[^']*' not found")
_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH"
    r"|EXPIRED_TOKEN|MISSING_AUTHENTICATION_TOKEN|UNRECOGNIZED_CLIENT|INVALID_SIGNATURE"
    r"|UNAUTHENTICATED|PERMISSION_DENIED"
)


def _located(value: Any, info: ValidationInfo) -> Any:
    """Return a path on this machine, or the URL of a store."""
    match = _URL.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return relative_to_configuration(value, info)
    scheme, path, _ = match.groups()
    if scheme == "file" and path.startswith("/"):
        return Path(unquote(path))
    if scheme not in _STORES:
        msg = "a URL must start with s3://bucket/…, gs://bucket/… or file:///…"
        raise ValueError(msg)
    bucket, _, key = path.partition("/")
    if "@" in bucket.removeprefix("anonymous@"):
        msg = (
            "a URL must not contain credentials: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or the variables that the store's own tools read"
        )
        raise ValueError(msg)
    if not bucket or not key or _PATTERN.search(bucket):
        msg = "a URL must name a bucket and objects in it, as in s3://bucket/day/*.parquet"
        raise ValueError(msg)
    return value


Location = Annotated[Path | str, BeforeValidator(_located)]
"""A path, from the folder of the configuration file, or a URL `s3://…`, `gs://…` or `file:///…`."""


def named(pattern: Path | str) -> list[str]:
    """Return the files that a pattern names, or the URLs of the objects, in order."""
    match = _URL.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None:
        return sorted(glob(str(pattern)))  # noqa: PTH207 - absolute
    scheme, path, query = match.groups("")
    parts = path.split("/")
    fixed = next((at for at, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
    with _told(str(pattern)):
        system, root = _opened(f"{scheme}://{'/'.join(parts[:fixed])}{query}")
        deep = fixed + 1 < len(parts)
        folder = FileSelector(root, recursive=deep)
        try:
            found: list[FileInfo] = system.get_file_info(folder if parts[fixed:] else [root])
        except FileNotFoundError:
            return []
    wanted = [unquote(part) for part in parts[fixed:]]
    names = sorted(
        one.path
        for one in found
        if one.is_file and _is_like(one.path[len(root) :].strip("/").split("/"), wanted)
    )
    return [f"{scheme}://{quote(name, safe='/=+,:')}{query}" for name in names]


def _is_like(parts: list[str], wanted: list[str]) -> bool:
    """Say whether names are like patterns, as `glob` does: a hidden one needs its point."""
    if not wanted:
        return True
    return len(parts) == len(wanted) and all(
        fnmatchcase(part, like) and part.startswith(".") <= like.startswith(".")
        for part, like in zip(parts, wanted, strict=True)
    )


def is_in_store(place: str | Path) -> bool:
    """Say whether something is in an object store."""
    return isinstance(place, str) and _URL.fullmatch(place) is not None


def name_of(shard: str) -> str:
    """Return the name of a shard, without its folders."""
    match = _URL.fullmatch(shard)
    return Path(shard).name if match is None else unquote(match[2].rpartition("/")[2])


@contextmanager
def here(shard: str | Path, *, columns_alone: bool = False) -> Iterator[Path]:
    """Yield a file on this machine: the shard, or a copy of the object, which is then removed.

    With `columns_alone` the copy has the names of the columns, and not all rows.

    Raises
    ------
    InputError
        If the store has no such object or does not let us read it; and what the body raises, with
        the URL in place of the copy's name.
    SourceError
        If the store fails, or the object changes meanwhile: to be tried again.
    """
    if isinstance(shard, Path) or not is_in_store(shard):
        yield Path(shard)
        return
    with own_folder(Path(tempfile.gettempdir()), "biasgate-shard-") as folder:
        copy = folder / "copy" / name_of(shard)
        copy.parent.mkdir()
        if not columns_alone or not _copied_columns(shard, copy):
            _copy(shard, copy)
        try:
            yield copy
        except InputError as error:
            error.args = tuple(str(arg).replace(str(copy), shard) for arg in error.args)
            raise


def _copied_columns(shard: str, to: Path) -> bool:
    """Copy what has the columns of an object: of Parquet the schema, of CSV the first lines.

    Says whether it could: what is packed, and JSON lines, must be whole.
    """
    if is_json_lines(to) or to.suffix == ".gz":
        return False
    with _told(shard):
        system, path = _opened(shard)
        if not is_parquet(to):
            with system.open_input_stream(path, compression=None) as stream:
                head = stream.read(_HEAD)
            to.write_bytes(head if len(head) < _HEAD else head[: head.rfind(b"\n") + 1] or head)
            return True
        with system.open_input_file(path) as file:
            try:
                schema = pq.read_schema(file)
            except pa.ArrowInvalid:
                return False
    pq.write_table(schema.empty_table(), to)
    return True


def _copy(shard: str, to: Path) -> None:
    with _told(shard):
        system, path = _opened(shard)
        before = system.get_file_info(path)
        stream = system.open_input_stream(path, compression=None)
    with stream, to.open("wb") as file:
        while True:
            with _told(shard):
                block = stream.read(_BLOCK)
            if not block:
                break
            file.write(block)
    with _told(shard):
        after = system.get_file_info(path)
    known = [(one.size, one.mtime_ns) for one in (before, after)]
    if known[0] != known[1] or before.size != to.stat().st_size:
        msg = f"{masked(shard)} must not change while it is read; it did."
        raise SourceError(msg)


def _opened(url: str) -> tuple[FileSystem, str]:
    """Return the store and the place in it; it reads credentials as its own tools do."""
    scheme, _, rest = url.partition("://")
    path, mark, query = rest.partition("?")
    system, root = FileSystem.from_uri(f"{scheme}://{quote(path, safe=_PLAIN)}{mark}{query}")
    return system, root


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Tell errors of a store in our own words, since its own may quote what is secret."""
    try:
        yield
    except FileNotFoundError:
        msg = f"{url} must be an object in the store; it was not found."
        raise InputError(msg) from None
    except ValueError:
        msg = f"{url} must be a URL that pyarrow reads, as in s3://bucket/day/*.parquet; it is not."
        raise InputError(msg) from None
    except OSError as error:
        text = str(error)
        if _NO_BUCKET.search(text):
            msg = f"{url} must be in an existing bucket; the bucket was not found."
            raise InputError(msg) from None
        if _DENIED.search(text):
            msg = (
                f"{url} must be readable by the credentials of this machine; the store denies "
                "access. Set the variables that its own tools use, such as AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, on every worker."
            )
            raise InputError(msg) from None
        code = _CODE.search(text)
        what = type(error).__name__ if code is None else code[1] or code[2]
        msg = f"the store of {masked(url)} must answer; it failed ({what}). Run again to continue."
        raise SourceError(msg) from None
