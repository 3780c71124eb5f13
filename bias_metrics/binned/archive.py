"""The archive of counts; reading it assumes an untrusted file."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from bias_metrics.binned.bin_counts import MANTISSA, MOST_ROWS, BinCounts, compute_bins

Kind = TypeVar("Kind", bound=BinCounts)
MOST_BYTES = 2**30
_LEVEL = 3  # compression level: the highest takes twice as long, and saves a tenth
_ARRAYS = ("bins", "least", "most", "everyone", "anyone", "subgroups")


def pack_counts(counts: BinCounts) -> bytes:
    """Return the archive; see `ScoreCounts.to_bytes`."""
    arrays = {"about": np.frombuffer(_describe_counts(counts), dtype=np.uint8)}
    arrays |= {name: getattr(counts, name) for name in _ARRAYS}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, array, allow_pickle=False)
            packed = part.getvalue(), zipfile.ZIP_DEFLATED, _LEVEL
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), *packed)
    return file.getvalue()


def _describe_counts(counts: BinCounts) -> bytes:
    about = {"bits": counts.bits, "shards": sorted(counts.shards), "names": list(counts.names)}
    return json.dumps(about).encode()


def unpack_counts(data: bytes, cls: type[Kind]) -> Kind:
    """Read an archive; see `ScoreCounts.from_bytes`."""
    try:
        counts = _read_counts(data, cls)
        refuse_impossible(counts)
    except Exception as error:
        # An untrusted archive can make zipfile, json and numpy raise any error.
        msg = f"these bytes are not counts of scores: {error}."
        raise ValueError(msg) from error
    return counts


def _read_counts(data: bytes, cls: type[Kind]) -> Kind:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = archive.namelist()
        if len(set(files)) < len(files):
            msg = "no file may be in the archive twice"
            raise ValueError(msg)
        size = sum(entry.file_size for entry in archive.infolist())
        if size > MOST_BYTES:
            msg = f"they must unpack to at most {MOST_BYTES:,} bytes; got {size:,}"
            raise ValueError(msg)
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name in ("about", *_ARRAYS):
            # A view of the bytes, since a false shape must not allocate memory.
            content = archive.read(f"{name}.npy")
            stream = io.BytesIO(content)
            np.lib.format.read_magic(stream)
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            order: Literal["F", "C"] = "F" if is_fortran else "C"
            offset = stream.tell()
            arrays[name] = np.ndarray(shape, dtype, buffer=content, offset=offset, order=order)
    written = arrays.pop("about").tobytes()
    about = json.loads(written)
    shards, names = frozenset(map(str, about["shards"])), tuple(map(str, about["names"]))
    counts = cls(int(about["bits"]), shards, names, **arrays)
    if written != _describe_counts(counts):
        msg = "`about` must be as it is written, no key twice"
        raise ValueError(msg)
    return counts


def refuse_impossible(counts: BinCounts) -> None:
    """Refuse counts that no rows can have; the error names the contradiction."""
    if not 0 <= counts.bits <= MANTISSA:
        msg = f"`bits` must be from 0 to {MANTISSA}; got {counts.bits}"
        raise ValueError(msg)
    k, groups = counts.bins.size, len(counts.names)
    shapes = {
        "bins": (k,),
        "least": (k,),
        "most": (k,),
        "everyone": (2, k),
        "anyone": (2, k),
        "subgroups": (groups, 2, k),
    }
    for name, shape in shapes.items():
        array = getattr(counts, name)
        kind = np.float64 if name in {"least", "most"} else np.int64
        if array.shape != shape or array.dtype != kind:
            msg = (
                f"`{name}` must be {np.dtype(kind)} of shape {shape}; "
                f"got {array.dtype} of shape {array.shape}"
            )
            raise ValueError(msg)
    n = [int(bound) for bound in counts.everyone.sum(axis=1, dtype=np.float64)]
    own = [compute_bins(ends, counts.bits) for ends in (counts.least, counts.most)]
    wrong = {
        "`names` must differ": len(set(counts.names)) < groups,
        "`bins` must ascend": bool((np.diff(counts.bins) <= 0).any()),
        "`least` must be at most `most`": not bool((counts.least <= counts.most).all()),
        "`least` and `most` must be finite": not bool(
            (np.isfinite(counts.least) & np.isfinite(counts.most)).all()
        ),
        "`least` and `most` must lie in their bins": not all(
            np.array_equal(bins, counts.bins) for bins in own
        ),
        "no count may be negative": bool(
            min(
                tallies.min(initial=0)
                for tallies in (counts.everyone, counts.anyone, counts.subgroups)
            )
            < 0
        ),
        "every bin must have a row": not bool(counts.everyone.any(axis=0).all()),
        f"there must be at most {MOST_ROWS:,} rows": sum(n) > MOST_ROWS,
        "a subgroup must be part of those in any": bool((counts.subgroups > counts.anyone).any()),
        "those in any subgroup must be part of all, and in one of them": bool(
            (counts.anyone > np.minimum(counts.everyone, counts.subgroups.sum(axis=0))).any()
        ),
    }
    for rule, broken in wrong.items():
        if broken:
            raise ValueError(rule)
