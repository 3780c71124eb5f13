import gzip
import math
import os
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import read_chunks

PRIVATE = "a very private comment"
GOOD = f'id,text,label\n7,"{PRIVATE}",0.25\n8,"two\nlines, ""quoted""",1\n9,,0\n'


@pytest.fixture
def write_file(tmp_path):
    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read_rows(path, size=100):
    """Read id, text and label with the converters of the sources."""
    rows = []
    for chunk in read_chunks(path, ["id", "text", "label"], size):
        ids = reading.convert_ids(chunk, "id")
        text = reading.convert_texts(chunk, "text", ids)
        label = reading.convert_fractions(chunk, "label", ids, nullable=False)
        rows += zip(ids.to_pylist(), text.to_pylist(), label.to_pylist(), strict=True)
    return rows


def read_refusal(path, size=100):
    """Return the error's text; assert that its traceback, with causes, quotes no comment."""
    with pytest.raises(InputError) as caught:
        read_rows(path, size)
    printed = "".join(traceback.format_exception(caught.value))
    assert PRIVATE not in printed
    return str(caught.value)


ROWS = [("7", PRIVATE, 0.25), ("8", 'two\nlines, "quoted"', 1.0), ("9", "", 0.0)]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_quoted_newlines_survive_chunk_borders(write_file, size):
    assert read_rows(write_file(GOOD), size) == ROWS


def test_rows_are_numbered_through_all_chunks(write_file):
    chunks = read_chunks(write_file(GOOD), ["id"], 2)
    assert [(chunk.first_row, chunk.table.num_rows) for chunk in chunks] == [(0, 2), (2, 1)]


def test_windows_line_ends_make_no_difference(write_file):
    assert read_rows(write_file("id,text,label\r\n7,a,0.5\r\n")) == [("7", "a", 0.5)]


def test_a_dictionary_column_is_read_as_its_values(tmp_path):
    path = tmp_path / "data.parquet"
    table = pa.table({"id": ["a", "b"], "text": ["x", "y"], "label": [0.0, 1.0]})
    coded = table.set_column(1, "text", table["text"].dictionary_encode())
    pq.write_table(coded, path)
    assert [row[1] for row in read_rows(path)] == ["x", "y"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0, 1), min_size=1))
def test_every_double_survives_a_csv_file(write_file, values):
    lines = [f"{i},x,{value!r}" for i, value in enumerate(values)]
    path = write_file("id,text,label\n" + "\n".join(lines) + "\n")
    assert [row[2] for row in read_rows(path)] == values


def test_texts_that_look_like_missing_values_are_texts(write_file):
    path = write_file("id,text,label\n1,NA,0\n2,null,0\n3,nan,0\n4,,0\n")
    assert [row[1] for row in read_rows(path)] == ["NA", "null", "nan", ""]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "must not be empty"),
        ("id,text\n1,a\n", r"must have the column 'label'; it has 'id', 'text'"),
        ("7\n", "must have the columns 'id', 'text', 'label'; its first line is not a header"),
        (f"7,{PRIVATE},0\n8,a,1\n", "its first line is not a header"),
        (f"id,text,label\n1,{PRIVATE},\n", "got nothing (file {path}, column label, row 0, id 1)"),
        (f"id,text,label\n1,{PRIVATE},1.5\n", "a fraction must be in [0, 1]; got 1.5 (file {path}"),
        (f"id,text,label\n1,{PRIVATE},-0.1\n", "got -0.1 (file {path}, column label, row 0, id 1)"),
        (f"id,text,label\n1,{PRIVATE},inf\n", "got inf (file"),
        (f"id,text,label\n1,a,0\n2,{PRIVATE},high\n", "column label, row 1, id 2)"),
        (
            f"id,text,label\n,{PRIVATE},0\n",
            "an id must not be empty (file {path}, column id, row 0)",
        ),
        (f"id,label,text\n1,0,a\n2,0,{PRIVATE}, and more\n", "Expected 3 fields in line 3, saw 4."),
        (f"id,label,text\n2,0,{PRIVATE}, and more\n3,0,a,b\n", "more fields than its header"),
        (f'id,text,label\n1,"{PRIVATE}', "EOF inside string starting at row 1."),
        (f"id,text,label\n1,a,0\n2,{PRIVATE}, {PRIVATE},0\n", "saw 4"),
        (f"id,text,label\n1,0.5,{PRIVATE}\n", "a value must be a number, true or false (file"),
        (f"id,text,label\n1,{PRIVATE}\n", "row 0 has 2 fields, the header 3. A line break in a"),
        (f"id,text,label\n1,a,0\n2,{PRIVATE}\ralone,0\n", "row 1 has 2 fields, the header 3."),
        (f'id,text,label\n1,"a\nb",0\n2,b,\n3,{PRIVATE}\nand,0\n', "row 2 has 2 fields"),
    ],
)
def test_a_bad_file_is_refused_with_its_place_and_without_its_text(write_file, content, text):
    path = write_file(content)
    message = read_refusal(path)
    assert str(path) in message
    assert text.format(path=path) in message


def test_a_header_alone_has_no_rows(write_file):
    assert read_rows(write_file("id,text,label\n")) == []


def test_a_truncated_gzip_file_is_named(write_file):
    path = write_file(gzip.compress((GOOD * 500).encode())[:-20], "data.csv.gz")
    assert read_refusal(path) == (
        f"file {path} is truncated: its compressed data end too early. Download it again."
    )


@pytest.mark.parametrize("name", ["absent.csv", "absent.parquet"])
def test_a_missing_file_is_named(tmp_path, name):
    assert read_refusal(tmp_path / name) == f"file {tmp_path / name} does not exist."


@pytest.mark.parametrize("name", ["folder.csv", "folder.parquet"])
def test_a_folder_in_place_of_a_file_is_named(tmp_path, name):
    (tmp_path / name).mkdir()
    assert str(tmp_path / name) in read_refusal(tmp_path / name)


def test_a_truncated_parquet_file_is_named(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"id": [1], "text": [PRIVATE], "label": [0.5]}), path)
    path.write_bytes(path.read_bytes()[:-9])
    assert "not a readable Parquet file" in read_refusal(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(write_file):
    path = write_file(GOOD)
    path.chmod(0)
    assert "permission is denied" in read_refusal(path)


def read_parquet_chunk(tmp_path, **columns):
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    (chunk,) = read_chunks(tmp_path / "data.parquet", list(columns))
    return chunk


def test_ids_that_are_fractions_are_refused(tmp_path):
    chunk = read_parquet_chunk(tmp_path, id=[1.0, 2.0])
    with pytest.raises(InputError, match=r"whole numbers or text; got double .*column id\)"):
        reading.convert_ids(chunk, "id")


def test_a_missing_text_is_refused_and_an_empty_one_is_not(tmp_path):
    chunk = read_parquet_chunk(tmp_path, id=[1, 2], text=["", None])
    ids = reading.convert_ids(chunk, "id")
    with pytest.raises(InputError, match=r"a text must not be missing .*row 1, id 2\)"):
        reading.convert_texts(chunk, "text", ids)


def test_a_text_column_of_numbers_is_refused(tmp_path):
    chunk = read_parquet_chunk(tmp_path, id=[1], text=[3])
    with pytest.raises(InputError, match="texts must be strings; got int64"):
        reading.convert_texts(chunk, "text", reading.convert_ids(chunk, "id"))


@pytest.mark.parametrize("value", ["", None])
def test_a_missing_cluster_is_refused(tmp_path, value):
    chunk = read_parquet_chunk(tmp_path, id=[1, 2], thread=["t", value])
    with pytest.raises(InputError, match=r"a value must not be missing .*row 1, id 2\)"):
        reading.convert_names(chunk, "thread", reading.convert_ids(chunk, "id"))


@pytest.mark.parametrize(
    ("raw", "numbers"),
    [
        (["0.5", " 1 ", "", "NA", "nan"], [0.5, 1.0, None, None, None]),
        (["True", "false", "TRUE", "0.5", ""], [1.0, 0.0, 1.0, 0.5, None]),
        ([True, False, None], [1.0, 0.0, None]),
        ([0.5, math.nan, None], [0.5, None, None]),
        ([1, 0, None], [1.0, 0.0, None]),
        (np.array([0.5, 0.25], np.float32), [0.5, 0.25]),
    ],
)
def test_numbers_in_all_their_spellings(tmp_path, raw, numbers):
    chunk = read_parquet_chunk(tmp_path, x=raw)
    assert reading.convert_numbers(chunk, "x").to_pylist() == numbers


def test_row_numbers_start_at_zero_and_go_on(tmp_path):
    path = tmp_path / "data.parquet"
    pd.DataFrame({"x": range(5)}).to_parquet(path)
    chunks = read_chunks(path, ["x"], 2)
    ids = [reading.convert_ids(chunk, reading.ROW_NUMBER).to_pylist() for chunk in chunks]
    assert ids == [["0", "1"], ["2", "3"], ["4"]]


def test_a_table_of_many_columns_is_read_in_fewer_rows_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("biasgate.tasks.data.chunks._MAX_CHUNK_VALUES", 50_000)
    path, n_rows = tmp_path / "wide.parquet", 25_000
    pq.write_table(pa.table({name: np.zeros(n_rows, bool) for name in "abcd"}), path)

    def list_sizes(columns):
        return [chunk.table.num_rows for chunk in read_chunks(path, columns)]

    assert list_sizes(["a"]) == [25_000]
    assert list_sizes(["a", "b"]) == [20_000, 5_000]
    assert list_sizes(list("abcd")) == [10_000, 10_000, 5_000]


def test_a_parquet_file_is_not_held_in_memory_while_it_is_read(tmp_path):
    n, path = 50_000, tmp_path / "data.parquet"
    values = np.random.default_rng(0).random(n * 20)
    with pq.ParquetWriter(path, pa.schema([("score", pa.float64())])) as writer:
        for part in np.split(values, 20):
            writer.write_table(pa.table({"score": part}))
    most, before = 0, pa.total_allocated_bytes()
    for chunk in read_chunks(path, ["score"], n):
        most = max(most, pa.total_allocated_bytes() - before)
        del chunk
    assert most < path.stat().st_size / 2
