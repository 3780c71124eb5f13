"""Tables in gzip are read up to a limit: a small file must not fill memory or disk."""

import gzip
import tracemalloc

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import unpacked
from biasgate.tasks.data.chunks import file_columns, read_chunks

SAID = "50 times the size of the compressed file; it has more. If that is right, unpack it"
ROW = {"bomb.csv.gz": b"1,0\n", "bomb.jsonl.gz": b'{"id": 1, "label": 0}\n'}


def read(path):
    return sum(one.table.num_rows for one in read_chunks(path, ["id", "label"], size=1000))


@pytest.fixture(params=ROW)
def bomb(request, tmp_path, monkeypatch):
    """A table of a few kilobytes that unpacks to megabytes."""
    monkeypatch.setattr(unpacked, "_ALWAYS_ALLOWED", 100_000)
    path = tmp_path / request.param
    header = b"id,label\n" if request.param == "bomb.csv.gz" else b""
    path.write_bytes(gzip.compress(header + ROW[request.param] * 2_000_000))
    return path


def test_a_table_far_larger_than_its_gzip_file_is_refused(bomb):
    with pytest.raises(InputError, match=f"file .*{bomb.name} must have at most .* MiB.*{SAID}"):
        read(bomb)


@pytest.mark.parametrize("name", ROW)
def test_one_endless_line_is_refused_before_it_fills_memory(tmp_path, monkeypatch, name):
    monkeypatch.setattr(unpacked, "_ALWAYS_ALLOWED", 100_000)
    (tmp_path / name).write_bytes(gzip.compress(b"1" * 100_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=SAID):
            file_columns(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_a_small_table_may_be_packed_as_well_as_can_be(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"id,label\n" + b"1,0\n" * 200_000))
    assert read(path) == 200_000


def test_an_undecodable_line_of_a_gzip_table_is_named(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"id,label\n1,0\n\xff,0\n"))
    with pytest.raises(InputError, match=r"must be UTF-8\. Line 3 is not"):
        read(path)
