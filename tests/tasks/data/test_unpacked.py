"""Limits on unpacked tables: a small file must not fill memory or disk."""

import gzip
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import chunks, unpacked
from biasgate.tasks.data.chunks import read_chunks, read_column_names

REFUSED = "50 times the size of the compressed file; it has more. If that is right, unpack it"
ROW = {"bomb.csv.gz": b"1,0\n", "bomb.jsonl.gz": b'{"id": 1, "label": 0}\n'}


def count_rows(path):
    return sum(chunk.table.num_rows for chunk in read_chunks(path, ["id", "label"], size=1000))


@pytest.fixture(params=ROW)
def bomb(request, tmp_path, monkeypatch):
    """Return the path of a table of a few kilobytes that unpacks to megabytes."""
    monkeypatch.setattr(unpacked, "_ALWAYS_ALLOWED", 100_000)
    path = tmp_path / request.param
    header = b"id,label\n" if request.param == "bomb.csv.gz" else b""
    path.write_bytes(gzip.compress(header + ROW[request.param] * 2_000_000))
    return path


def test_a_table_far_larger_than_its_gzip_file_is_refused(bomb):
    with pytest.raises(InputError, match=f"file .*{bomb.name} must have at most .* MiB.*{REFUSED}"):
        count_rows(bomb)


@pytest.mark.parametrize("name", ROW)
def test_one_endless_line_is_refused_before_it_fills_memory(tmp_path, monkeypatch, name):
    monkeypatch.setattr(unpacked, "_ALWAYS_ALLOWED", 100_000)
    (tmp_path / name).write_bytes(gzip.compress(b"1" * 100_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=REFUSED):
            read_column_names(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_a_small_table_may_be_packed_as_well_as_can_be(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"id,label\n" + b"1,0\n" * 200_000))
    assert count_rows(path) == 200_000


@pytest.mark.parametrize("repeated", [True, False])
def test_long_equal_texts_of_a_parquet_file_are_refused_before_they_fill_memory(
    tmp_path, monkeypatch, repeated
):
    monkeypatch.setattr(chunks, "_PARQUET_ALLOWANCE", 10**7)
    path = tmp_path / "rows.parquet"
    table = pa.table({"id": np.arange(100), "text": ["a" * 10**6] * 100})
    pq.write_table(table, path, compression="zstd", use_dictionary=repeated)
    counted = pa.proxy_memory_pool(pa.default_memory_pool())
    usual = pa.default_memory_pool()
    pa.set_memory_pool(counted)
    try:
        with pytest.raises(InputError, match=REFUSED):
            next(read_chunks(path, ["id", "text"]))
    finally:
        pa.set_memory_pool(usual)
    assert counted.max_memory() < 10**7


def test_repeated_long_texts_of_a_parquet_file_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "_MAX_CHUNK_BYTES", 10_000)
    path = tmp_path / "rows.parquet"
    wanted = pa.table({"id": np.arange(500), "text": ["a" * 1000, "b" * 1000, None, ""] * 125})
    pq.write_table(wanted, path)
    parts = [part.table for part in read_chunks(path, ["text", "id"])]
    assert max(part.nbytes for part in parts) < 3 * 10_000
    assert pa.concat_tables(parts).select(["id", "text"]).equals(wanted)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", ""])
def test_a_header_of_two_million_columns_is_refused_before_it_fills_memory(tmp_path, end):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"column{at}" for at in range(2_000_000)) + end, "utf-8", newline="")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"at most 10,000 columns; it has .* or more. Write"):
            read_column_names(path)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_an_undecodable_line_of_a_gzip_table_is_named(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"id,label\n1,0\n\xff,0\n"))
    with pytest.raises(InputError, match=r"must be UTF-8\. Line 3 is not"):
        count_rows(path)
