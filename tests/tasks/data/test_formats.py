"""CSV with other separators, JSON lines and Parquet, as tables and as scores; refused files."""

import gzip
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tables import freeze_table

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.chunks import require_columns
from biasgate.tasks.data.json_lines import find_value
from biasgate.tasks.data.scores import ScoreColumns
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

ROWS = pd.DataFrame(
    {
        "id": [1, 2, 3, 4],
        "label": [0, 1, 0.5, 1],
        "gay": [0, None, 1, 0.25],
        "text": ["a;b,c", 'said "no"', "two\nlines", "ça va"],
    }
)
JSON = ROWS.to_json(orient="records", lines=True).encode()
COMMENT = "secretword"


def freeze_file(folder, name, content, **options):
    return freeze_table(folder, content, name, **{"text": "text"} | options)


def format_csv(separator):
    return ROWS.to_csv(index=False, sep=separator).encode()


@pytest.mark.parametrize(
    ("name", "content", "separator"),
    [
        ("rows.csv", format_csv(";"), ";"),
        ("rows.txt", format_csv("|"), "|"),
        ("rows.csv", format_csv("\t"), "\t"),
        ("rows.tsv", format_csv("\t"), None),
        ("rows.tsv.gz", gzip.compress(format_csv("\t"), mtime=0), None),
        ("rows.csv.gz", gzip.compress(format_csv(","), mtime=0), None),
        ("rows.parquet", ROWS.to_parquet(index=False), None),
        ("rows.parquet", ROWS.astype({"id": str}).to_parquet(index=False), None),
        ("rows.tsv", format_csv(","), ","),
        ("rows.csv", b"\xef\xbb\xbf" + format_csv(","), None),
        ("rows.jsonl", JSON, None),
        ("rows.ndjson", JSON, None),
        ("rows.jsonl.gz", gzip.compress(JSON, mtime=0), None),
        ("rows.jsonl", b"\xef\xbb\xbf" + JSON + b"\n\n", None),
        ("rows.jsonl", JSON.replace(b'"gay":null,', b""), None),
    ],
)
def test_the_same_rows_in_any_format_are_the_same_set(tmp_path, name, content, separator):
    plain = freeze_file(tmp_path, "plain.csv", format_csv(","))
    assert freeze_file(tmp_path, name, content, separator=separator).digest == plain.digest


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("scores.jsonl", b'{"id": "1", "prediction": 0.25}\n', {}),
        ("scores.csv", b"id;prediction\n1;0.25\n", {"separator": ";"}),
        ("scores.tsv", b"id\tprediction\n1\t0.25\n", {}),
    ],
)
def test_scores_are_read_from_any_format(tmp_path, name, content, options):
    (tmp_path / name).write_bytes(content)
    settings = {"name": "f", "kind": "scores", "path": str(tmp_path / name)} | options
    scorer = CANDIDATES.validate_python(settings).open(None)
    assert scorer.score(pa.record_batch({"id": ["1"]})).tolist() == [0.25]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", JSON + b"{'id': secretword}", "JSON object on each line; line 5 is not a"),
        ("rows.jsonl", ROWS.to_json(orient="records").encode(), "line 1 is not a JSON object"),
        ("rows.jsonl", b"", "must not be empty"),
        (
            "rows.jsonl",
            JSON.replace(b'"label":1.0', b'"label":"secretword"'),
            "a single type in column 'label'; rows 0 to 3 have float and str",
        ),
        ("rows.jsonl", JSON + b'{"text": "\xe9"}', "must be UTF-8. Line 5 is not"),
        ("rows.jsonl.gz", JSON, "must be compressed with gzip, as its name suggests"),
        ("rows.jsonl", JSON.replace(b'"id"', b'"Id"'), "Did you mean 'Id'?"),
        ("rows.json", b"[]", "name it .jsonl if each line is a JSON object"),
        ("rows.csv.gz", format_csv(","), "must be compressed with gzip, as its name suggests"),
        ("rows.csv", format_csv(",") + b"9,0,1,\xe9\n", "must be UTF-8. Line 7 is not"),
        ("rows.csv", format_csv(",").decode().encode("utf-16"), "it is UTF-16"),
    ],
)
def test_a_file_in_a_wrong_format_is_refused_and_not_quoted(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")) as refused:
        freeze_file(tmp_path, name, content)
    assert COMMENT not in str(refused.value)


def write_parquet(folder, **columns):
    table = ROWS.assign(text=COMMENT, **columns)
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), folder / "rows.parquet")
    return (folder / "rows.parquet").read_bytes()


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("label", [[1]] * 4, r"a single value in each row; got list"),
        ("label", [{"a": 1}] * 4, r"a single value in each row; got struct"),
        ("label", pd.Timestamp("2020-01-01"), r"values must be numbers; got timestamp"),
        ("label", [b"\xff"] * 4, r"text column must be UTF-8; it is not"),
        ("id", [b"\xff%d" % n for n in range(4)], r"text column must be UTF-8; it is not"),
        ("gay", pd.Timedelta("1s"), r"values must be numbers; got duration"),
        ("id", [[1]] * 4, r"a single value in each row; got list"),
    ],
)
def test_a_parquet_column_of_a_type_that_cannot_be_meant_is_refused(
    tmp_path, column, values, message
):
    with pytest.raises(InputError, match=rf"{message}.*column {column}\)"):
        freeze_file(tmp_path, "rows.parquet", write_parquet(tmp_path, **{column: values}))


def test_a_column_of_lists_in_place_of_fractions_is_refused_with_the_option(tmp_path):
    lists = [["gay", "deaf"], [], None, ["deaf"]]
    with pytest.raises(InputError, match=r"write `identities: {column: gay, names: \[...\]}`"):
        freeze_file(tmp_path, "rows.parquet", write_parquet(tmp_path, gay=lists))


def test_a_label_outside_the_mapping_is_named(tmp_path):
    table = ROWS.assign(label=["toxic", "fine", "toxic", "fine"]).to_csv(index=False).encode()
    with pytest.raises(InputError, match=r"one of 'toxic' \(`label_values`\); got fine"):
        freeze_file(tmp_path, "rows.csv", table, label_values={"toxic": 1})


def test_ids_that_are_comments_are_not_quoted(tmp_path):
    table = ROWS.assign(text=[f"{COMMENT} again"] * 4).to_csv(index=False).encode()
    with pytest.raises(InputError, match=r"id \(with spaces\) is in rows 0 and 1"):
        freeze_file(tmp_path, "rows.csv", table, id="text", text=None)


LIKE_TEXTS = {
    "words": [f"{COMMENT} for the {n}th time" for n in range(4)],
    "letters without spaces": ["1", "2", "3", "これはひどいコメントですよね"],
    "the commas of another script": ["1", "2", "3", "最低だ、君は"],
}


@pytest.mark.parametrize("name", list(LIKE_TEXTS))
def test_ids_that_look_like_comments_are_refused_and_not_quoted(tmp_path, name):
    table = ROWS.assign(text=LIKE_TEXTS[name]).to_csv(index=False).encode()
    with pytest.raises(InputError, match=r"must not look like a comment .*`id: row_num") as error:
        freeze_file(tmp_path, "rows.csv", table, id="text", text=None)
    assert not any(text in str(error.value) for text in LIKE_TEXTS[name][-1:])


@pytest.mark.parametrize("first", ["最低だ君は本当に", "horrible", "هذاسيء"])
def test_a_first_row_without_spaces_is_not_quoted_as_column_names(tmp_path, first):
    table = f"{first}\n" + "".join(f"{n}\n" for n in range(4))
    with pytest.raises(InputError, match="its first line is not a header") as error:
        freeze_file(tmp_path, "rows.csv", table.encode())
    assert first not in str(error.value)


def test_fields_of_a_nested_column_are_not_quoted(tmp_path):
    table = write_parquet(tmp_path, label=[{COMMENT: 1}] * 4)
    with pytest.raises(InputError, match=r"got struct .file") as error:
        freeze_file(tmp_path, "rows.parquet", table)
    assert COMMENT not in str(error.value)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("text", pa.array(["a", "b", "c", "d"], pa.string_view())),
        ("text", pa.array([b"a", b"b", b"c", b"d"])),
        ("id", pa.array([2**63, 1, 2, 3], pa.uint64())),
        ("gay", pa.array([0, 1, 0, 1]).dictionary_encode()),
        ("label", pa.array([0, 1, 0, 1], pa.float16())),
    ],
)
def test_a_parquet_column_of_an_unusual_type_is_read(tmp_path, column, values):
    table = pa.Table.from_pandas(ROWS, preserve_index=False)
    table = table.set_column(table.column_names.index(column), column, values)
    pq.write_table(table, tmp_path / "written.parquet")
    assert (
        freeze_file(tmp_path, "rows.parquet", (tmp_path / "written.parquet").read_bytes()).n_rows
        == 4
    )


def test_a_whole_number_that_no_float_holds_is_refused(tmp_path):
    table = write_parquet(tmp_path, label=np.array([2**53 + 1, 0, 1, 1]))
    with pytest.raises(InputError, match=r"a fraction must be in \[0, 1\]; got 9007199254740992"):
        freeze_file(tmp_path, "rows.parquet", table)


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(InputError, match="must be a plain file; it is a pipe"):
        require_columns(tmp_path / "rows.csv", ["id"])


def test_a_dotted_name_is_looked_up_whole_first_and_then_inside():
    row = {"a": {"b": 1, "c.d": 2}, "a.b": 3, "e.f": {"g": 4}}
    values = [find_value(row, name) for name in ("a.b", "a.c.d", "e.f.g", "a.x", "x.y")]
    assert values == [3, 2, 4, None, None]


@pytest.mark.parametrize("written", ["csv", "parquet"])
def test_whole_scores_that_would_become_equal_are_refused(tmp_path, written):
    path = tmp_path / f"scores.{written}"
    for largest, is_refused in ((2**53 - 1, False), (2**53 + 1, True)):
        scores = pd.DataFrame({"id": ["a", "b"], "prediction": [3, largest]})
        scores.to_csv(path, index=False) if written == "csv" else scores.to_parquet(path)
        if not is_refused:
            assert ScoreColumns().read_scores(path, allow_missing=False).tolist() == [3, largest]
            continue
        with pytest.raises(InputError, match=r"below 2\^53 in size.*column prediction"):
            ScoreColumns().read_scores(path, allow_missing=False)
