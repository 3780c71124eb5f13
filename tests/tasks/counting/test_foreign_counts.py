"""Every defect of a foreign file of counts is an error of input."""

import io
import json
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shards import write_shards

from bias_metrics import ScoreCounts
from bias_metrics.binned.bin_counts import compute_bins
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.counting.settings import read_count_file
from biasgate.tasks.counting.shards import count_scores
from biasgate.tasks.evidence.counted import Counted


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The counts of a shard."""
    home = tmp_path_factory.mktemp("foreign")
    settings, _ = read_count_file(write_shards(home, n_shards=1))
    return count_scores(settings, home / "shards/part-0.parquet").to_bytes()


def parts_of(archive):
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def archive_of(parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def with_twice(data, name):
    """Return an archive with a repeated member, of which readers choose different copies."""
    file, parts = io.BytesIO(data), parts_of(data)
    with zipfile.ZipFile(file, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr(zipfile.ZipInfo(name), parts[name])
    return file.getvalue()


def with_array(data, name, content, role="candidate.npz"):
    """Return counts with other bytes for an array."""
    parts = parts_of(data)
    return archive_of(parts | {role: archive_of(parts_of(parts[role]) | {f"{name}.npy": content})})


def with_header(data, name, text):
    """Return counts with another header of an array; its values stay."""
    content = parts_of(parts_of(data)["candidate.npz"])[f"{name}.npy"]
    start = 10 + int.from_bytes(content[8:10], "little")
    header = text.encode("latin1", "replace")[:60_000] + b"\n"
    crafted = content[:8] + len(header).to_bytes(2, "little") + header + content[start:]
    return with_array(data, name, crafted)


def about(data, **changes):
    parts = parts_of(parts_of(data)["candidate.npz"])
    header = json.loads(parts["about.npy"].partition(b"\n")[2])
    return array_of(json.dumps(header | changes).encode())


def array_of(text):
    part = io.BytesIO()
    np.lib.format.write_array(part, np.frombuffer(text, np.uint8))
    return part.getvalue()


def with_record(data, change):
    parts = parts_of(data)
    content = json.loads(parts["record.json"])
    change(content)
    return archive_of(parts | {"record.json": json.dumps(content).encode()})


def with_last_score(data, score):
    """Return counts whose highest bin is another."""
    counts = ScoreCounts.from_bytes(parts_of(data)["candidate.npz"])
    least, most = counts.least.copy(), counts.most.copy()
    least[-1] = most[-1] = score
    changed = replace(counts, bins=compute_bins(least, counts.bits), least=least, most=most)
    return archive_of(parts_of(data) | {"candidate.npz": changed.to_bytes()})


def flagged(data, offset, bits):
    """Return the archive with bits set in the header of its first member, in both places."""
    content = bytearray(data)
    for place in (6 + offset, data.index(b"PK\x01\x02") + 8 + offset):
        content[place] |= bits
    return bytes(content)


DESCR = "{{'descr': {}, 'fortran_order': False, 'shape': {}}}"
CRAFTED = {
    "encrypted": lambda data: flagged(data, 0, 1),
    "unknown compression": lambda data: flagged(data, 2, 77),
    "patched": lambda data: flagged(data, 0, 0x20),
    "shape of a petabyte": lambda data: with_header(data, "bins", DESCR.format("'<i8'", (2**47,))),
    "negative shape": lambda data: with_header(data, "bins", DESCR.format("'<i8'", (-7,))),
    "shape of texts": lambda data: with_header(data, "bins", DESCR.format("'<i8'", ("a",))),
    "objects": lambda data: with_header(data, "bins", DESCR.format("'|O'", (1,))),
    "fields": lambda data: with_header(data, "bins", DESCR.format([("a", "<i8")], (1,))),
    "no type": lambda data: with_header(data, "bins", DESCR.format("'?!'", (1,))),
    "not closed": lambda data: with_header(data, "bins", "{'descr': '<i8', ("),
    "nested": lambda data: with_header(data, "bins", "(" * 5_000),
    "null bytes": lambda data: with_header(data, "bins", "{\0}"),
    "huge bits": lambda data: with_array(data, "about", about(data, bits=10**30)),
    "infinite bits": lambda data: with_array(data, "about", about(data, bits=float("inf"))),
    "no bits": lambda data: with_array(data, "about", about(data, bits=None)),
    "one name twice": lambda data: with_array(data, "about", about(data, names=["gay", "gay"])),
    "names of nothing": lambda data: with_array(data, "about", about(data, names=3)),
    "a list": lambda data: with_array(data, "about", array_of(b"[1]")),
    "nested json": lambda data: with_array(data, "about", array_of(b"[" * 100_000)),
    "half a character": lambda data: with_array(data, "about", array_of(b"\xff")),
    "no digest": lambda data: with_record(data, lambda one: one["shards"][0].update(sha256="../")),
    "too few rows": lambda data: with_record(data, lambda one: one["shards"][0].update(n_rows=1)),
    "fewer than none": lambda data: with_record(
        data, lambda one: one["shards"][0].update(n_rated=-1)
    ),
    "fewer unlabelled than none": lambda data: with_record(
        data, lambda one: one["shards"][0].update(n_unlabelled=-1)
    ),
    "more rows than there are": lambda data: with_record(
        data, lambda one: one["shards"][0].update(n_rows=2**62)
    ),
    "a very long name": lambda data: with_record(
        data, lambda one: one["shards"][0].update(name="a" * 10_000)
    ),
    "infinite scores": lambda data: with_last_score(data, np.inf),
    "scores that no file has": lambda data: with_last_score(data, 1e308),
    "bits of another type": lambda data: with_array(data, "about", about(data, bits="12")),
    "a record twice": lambda data: with_twice(data, "record.json"),
    "an array twice": lambda data: archive_of(
        parts_of(data) | {"candidate.npz": with_twice(parts_of(data)["candidate.npz"], "bins.npy")}
    ),
    "nothing": lambda _: b"",
    "empty archive": lambda _: archive_of({}),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_a_crafted_file_is_an_error_of_input(data, case):
    with pytest.raises(InputError, match=r"^it must "):
        Counted.from_bytes(CRAFTED[case](data), "it")


def is_refused_or_the_same(content, data):
    """Return True if counts are refused as input, or have unchanged numbers."""
    try:
        counts = Counted.from_bytes(content, "it").counts["candidate"]
        return counts.to_bytes() == parts_of(data)["candidate.npz"]
    except InputError:
        return True


@given(st.data())
def test_no_change_of_bytes_is_anything_else(data, draw):
    content = bytearray(data)
    for at in draw.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[at] = draw.draw(st.integers(0, 255))
    assert is_refused_or_the_same(bytes(content[: draw.draw(st.integers(0, len(content)))]), data)
    assert is_refused_or_the_same(bytes(content), data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["bits", "shards", "names"]), VALUES, VALUES)
def test_no_header_is_anything_else(data, key, value, descr):
    for content in (
        with_array(data, "about", about(data, **{key: value})),
        with_header(data, "least", repr(value)),
        with_header(data, "least", DESCR.format(repr(descr), repr(value))),
        with_record(data, lambda record: record.update(shards=value)),
    ):
        assert is_refused_or_the_same(content, data)
