"""File formats: the name determines the format, and the first bytes must match it."""

from __future__ import annotations

import shlex
from pathlib import Path

_UTF_16 = (
    "must be UTF-8; it is UTF-16. Save it as UTF-8 text, as in: iconv -f UTF-16 -t UTF-8 {} > NEW"
)
_WORKBOOK = "is a workbook. Save the sheet with the rows as CSV, and name that file."
_WORKBOOKS = frozenset({".xlsx", ".xlsm", ".xls", ".ods"})
_KNOWN_STARTS = {
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    b"\x1f\x8b": "is compressed with gzip, so its name must end in .gz.",
    b"PAR1": "is Parquet, so its name must end in .parquet.",
    b"PK\x03\x04": "must be CSV, JSON lines or Parquet; it is a zip archive or an Excel workbook.",
    b"BZh": "must be uncompressed or in gzip; it is compressed with bzip2.",
    b"\xfd7zXZ": "must be uncompressed or in gzip; it is compressed with xz.",
    b"\x28\xb5\x2f\xfd": "must be uncompressed or in gzip; it is compressed with zstd.",
}
_EXPECTED_STARTS = {".gz": b"\x1f\x8b", ".parquet": b"PAR1", ".pq": b"PAR1"}


class FormatError(ValueError):
    """A file that is not in the format of its name; the text continues after "file PATH"."""


def is_parquet(path: Path) -> bool:
    """Check if the name is that of a Parquet file."""
    return path.suffix in {".parquet", ".pq"}


def is_json_lines(path: Path) -> bool:
    """Check if the name is that of JSON lines: `.jsonl` or `.ndjson`, optionally `.gz`."""
    return bool({".jsonl", ".ndjson"} & set(path.suffixes[-2:]))


def find_default_separator(path: Path) -> str:
    """Return the default column separator of a file that is neither Parquet nor JSON lines."""
    return "\t" if ".tsv" in path.suffixes[-2:] else ","


def identify_format(name: str) -> tuple[str, bool]:
    """Return the format that a file's name implies, and if the file is compressed.

    Files with the same bytes hold the same rows only if both values are equal.
    """
    path = Path(name)
    if is_parquet(path):
        return "parquet", False
    if path.suffix == ".json":
        return "json", False  # refused later, by `refuse_other_format`
    kind = "json lines" if is_json_lines(path) else find_default_separator(path)
    return kind, path.suffix == ".gz"


def refuse_other_format(path: Path) -> None:
    """Refuse a file with first bytes of another format than its name; report the real format."""
    if path.suffix == ".json":
        msg = (
            "is named .json; name it .jsonl if each line is a JSON object, or convert it, as in "
            'pandas: `to_json("rows.jsonl", orient="records", lines=True)`.'
        )
        raise FormatError(msg)
    if path.is_fifo() or path.is_socket() or path.is_char_device():
        msg = "must be a plain file; it is a pipe, a socket or a device."
        raise FormatError(msg)
    if path.suffix.lower() in _WORKBOOKS:
        raise FormatError(_WORKBOOK)
    with path.open("rb") as stream:
        first_bytes = stream.read(max(map(len, _KNOWN_STARTS)))
    for start, reason in _KNOWN_STARTS.items():
        if first_bytes.startswith(start) and start != _EXPECTED_STARTS.get(path.suffix):
            raise FormatError(reason.replace("{}", shlex.quote(path.name)))
