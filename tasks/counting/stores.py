"""Lists and local copies of shards, on this machine or in an object store that pyarrow opens.

An object is copied into its own temporary folder while it is counted. Readers and digests of files
therefore also work for objects. Errors of a store are reported by their code only.
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
from biasgate.tasks.common.secrets import mask_secrets
from biasgate.tasks.common.settings import resolve_config_path
from biasgate.tasks.data.formats import is_json_lines, is_parquet

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^?]*)(\?.*)?", re.DOTALL)
_SCHEMES = ("s3", "gs")
_WILDCARD = re.compile(r"[*[]")
_UNQUOTED = "/%=+,:@"  # characters that stay unquoted in the path of a URL
_BLOCK, _HEAD = 8 * 2**20, 2**20
_CODE = re.compile(r"AWS Error ([A-Z_]+)|Status\(([A-Z_]+)")
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|NOT_FOUND|Bucket '[^']*' not found")
_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH"
    r"|EXPIRED_TOKEN|MISSING_AUTHENTICATION_TOKEN|UNRECOGNIZED_CLIENT|INVALID_SIGNATURE"
    r"|UNAUTHENTICATED|PERMISSION_DENIED"
)


def _parse_location(value: Any, info: ValidationInfo) -> Any:
    """Return a path on this machine, or the URL of a store."""
    match = _URL.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return resolve_config_path(value, info)
    scheme, path, _ = match.groups()
    if scheme == "file" and path.startswith("/"):
        return Path(unquote(path))
    if scheme not in _SCHEMES:
        msg = "a URL must start with s3://bucket/…, gs://bucket/… or file:///…"
        raise ValueError(msg)
    bucket, _, key = path.partition("/")
    if "@" in bucket.removeprefix("anonymous@"):
        msg = (
            "a URL must not contain credentials: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or the variables that the store's own tools read"
        )
        raise ValueError(msg)
    if not bucket or not key or _WILDCARD.search(bucket):
        msg = "a URL must name a bucket and objects in it, as in s3://bucket/day/*.parquet"
        raise ValueError(msg)
    return value


Location = Annotated[Path | str, BeforeValidator(_parse_location)]
"""A path, from the folder of the configuration file, or a URL `s3://…`, `gs://…` or `file:///…`."""


def list_files(pattern: Path | str) -> list[str]:
    """Return the paths of the files, or the URLs of the objects, that match a pattern, in order."""
    match = _URL.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None:
        return sorted(glob(str(pattern)))  # noqa: PTH207 - absolute
    scheme, path, query = match.groups("")
    parts = path.split("/")
    n_fixed = next((i for i, part in enumerate(parts) if _WILDCARD.search(part)), len(parts))
    with _translate_errors(str(pattern)):
        system, root = _open_store(f"{scheme}://{'/'.join(parts[:n_fixed])}{query}")
        is_recursive = n_fixed + 1 < len(parts)
        folder = FileSelector(root, recursive=is_recursive)
        try:
            infos: list[FileInfo] = system.get_file_info(folder if parts[n_fixed:] else [root])
        except FileNotFoundError:
            return []
    patterns = [unquote(part) for part in parts[n_fixed:]]
    names = sorted(
        info.path
        for info in infos
        if info.is_file and _is_matching(info.path[len(root) :].strip("/").split("/"), patterns)
    )
    return [f"{scheme}://{quote(name, safe='/=+,:')}{query}" for name in names]


def _is_matching(parts: list[str], patterns: list[str]) -> bool:
    """Return True if names match patterns. As in `glob`, `*` does not match hidden files."""
    if not patterns:
        return True
    return len(parts) == len(patterns) and all(
        fnmatchcase(part, pattern) and part.startswith(".") <= pattern.startswith(".")
        for part, pattern in zip(parts, patterns, strict=True)
    )


def is_in_store(place: str | Path) -> bool:
    """Return True for the URL of an object store."""
    return isinstance(place, str) and _URL.fullmatch(place) is not None


def get_shard_name(shard: str) -> str:
    """Return the name of a shard, without its folders."""
    match = _URL.fullmatch(shard)
    return Path(shard).name if match is None else unquote(match[2].rpartition("/")[2])


@contextmanager
def open_shard(shard: str | Path, *, only_columns: bool = False) -> Iterator[Path]:
    """Yield a local file: the shard, or a temporary copy of the object.

    With `only_columns` the copy has the names of the columns, but may lack rows.

    Raises
    ------
    InputError
        If the object does not exist or access is denied. An InputError of the body is raised with
        the URL in place of the path of the copy.
    SourceError
        If the store fails, or the object changes during the copy; a retry may succeed.
    """
    if isinstance(shard, Path) or not is_in_store(shard):
        yield Path(shard)
        return
    with own_folder(Path(tempfile.gettempdir()), "biasgate-shard-") as folder:
        copy = folder / "copy" / get_shard_name(shard)
        copy.parent.mkdir()
        if not only_columns or not _copy_columns(shard, copy):
            _copy(shard, copy)
        try:
            yield copy
        except InputError as error:
            error.args = tuple(str(arg).replace(str(copy), shard) for arg in error.args)
            raise


def _copy_columns(shard: str, target: Path) -> bool:
    """Copy the part of an object with its columns: the schema of Parquet, the first lines of CSV.

    Returns False for compressed files and JSON lines, which are only readable as a whole.
    """
    if is_json_lines(target) or target.suffix == ".gz":
        return False
    with _translate_errors(shard):
        system, path = _open_store(shard)
        if not is_parquet(target):
            with system.open_input_stream(path, compression=None) as stream:
                head = stream.read(_HEAD)
            target.write_bytes(head if len(head) < _HEAD else head[: head.rfind(b"\n") + 1] or head)
            return True
        with system.open_input_file(path) as file:
            try:
                schema = pq.read_schema(file)
            except pa.ArrowInvalid:
                return False
    pq.write_table(schema.empty_table(), target)
    return True


def _copy(shard: str, target: Path) -> None:
    with _translate_errors(shard):
        system, path = _open_store(shard)
        info_before = system.get_file_info(path)
        stream = system.open_input_stream(path, compression=None)
    with stream, target.open("wb") as file:
        while True:
            with _translate_errors(shard):
                block = stream.read(_BLOCK)
            if not block:
                break
            file.write(block)
    with _translate_errors(shard):
        info_after = system.get_file_info(path)
    versions = [(info.size, info.mtime_ns) for info in (info_before, info_after)]
    if versions[0] != versions[1] or info_before.size != target.stat().st_size:
        msg = f"{mask_secrets(shard)} must not change while it is read; it did."
        raise SourceError(msg)


def _open_store(url: str) -> tuple[FileSystem, str]:
    """Return the file system of a URL, with credentials from the environment, and its path."""
    scheme, _, rest = url.partition("://")
    path, mark, query = rest.partition("?")
    system, root = FileSystem.from_uri(f"{scheme}://{quote(path, safe=_UNQUOTED)}{mark}{query}")
    return system, root


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Replace the messages of a store's errors, since they may quote secrets."""
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
        name = type(error).__name__ if code is None else code[1] or code[2]
        msg = (
            f"the store of {mask_secrets(url)} must answer; it failed ({name}). Run again to "
            "continue."
        )
        raise SourceError(msg) from None
