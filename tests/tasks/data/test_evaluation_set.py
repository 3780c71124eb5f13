import threading

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file, whole_folder
from biasgate.tasks.data.evaluation_set import RECORD, ROWS, EvaluationSet, digest_rows, freeze_rows
from biasgate.tasks.data.freezing import SOURCES, freeze_source

TEXTS = pa.array(["ab", "", "ça va", "line\nbreak", "ab"], pa.large_string())
BASE = pa.table(
    {
        "id": ["5", "3", "4", "1", "2"],
        "text": TEXTS,
        "label": [0.0, 0.5, 1.0, 0.1, 0.3],
        "identity/muslim": [None, 0.0, 0.25, 1.0, None],
        "slice/short": [True, False, True, True, True],
    }
)


@pytest.fixture
def digest(tmp_path):
    """Freeze a table in the given chunks and return the digest."""
    numbers = iter(range(1000))

    def freeze_chunks(*chunks, split="all", source=None):
        folder = tmp_path / str(next(numbers))
        return freeze_rows(chunks, folder, name="s", split=split, source=source or {}).digest

    return freeze_chunks


def change_value(column, row, value):
    values = BASE[column].to_pylist()
    values[row] = value
    index = BASE.schema.get_field_index(column)
    return BASE.set_column(index, column, pa.array(values, BASE.schema.field(column).type))


def test_row_order_and_chunks_do_not_change_the_digest(digest):
    shuffled = BASE.take([3, 0, 4, 2, 1])
    chunked = [shuffled.slice(0, 1), shuffled.slice(1, 0), shuffled.slice(1, 4)]
    assert digest(BASE) == digest(shuffled) == digest(*chunked)


def test_column_order_and_string_width_do_not_change_the_digest(digest):
    narrow = BASE.set_column(1, "text", BASE["text"].cast(pa.string()))
    assert digest(BASE) == digest(narrow) == digest(BASE.select(BASE.column_names[::-1]))


def test_terms_do_not_change_the_digest_since_they_follow_from_the_text(digest):
    codes = pa.array([[0], [], [1, 2], [], [0]], pa.list_(pa.int32()))
    assert digest(BASE) == digest(BASE.append_column("terms", codes))


@pytest.mark.parametrize("options", [{"compression": "none"}, {"row_group_size": 2}])
def test_compression_and_row_groups_do_not_change_the_digest(tmp_path, digest, options):
    path = tmp_path / "rows.parquet"
    in_order = BASE.sort_by("id")
    pq.write_table(in_order, path, **options)
    assert digest_rows(path, "all", pd.RangeIndex(5).to_numpy()) == digest(BASE)


def test_the_name_and_the_provenance_are_not_part_of_the_digest(digest):
    assert digest(BASE) == digest(BASE, source={"path": "elsewhere"})


@pytest.mark.parametrize(
    "other",
    [
        change_value("id", 0, "6"),
        change_value("text", 2, "ca va"),
        change_value("text", 0, "ab "),
        change_value("label", 1, 0.5000000000000001),
        change_value("identity/muslim", 0, 0.0),
        change_value("identity/muslim", 1, None),
        change_value("text", 1, None),
        change_value("slice/short", 1, value=True),
        BASE.rename_columns(["id", "text", "label", "identity/jewish", "slice/short"]),
        BASE.drop_columns(["slice/short"]),
        BASE.drop_columns(["text"]),
        BASE.slice(0, 4),
    ],
)
def test_any_value_a_null_a_name_or_a_row_changes_the_digest(digest, other):
    assert digest(other) != digest(BASE)


def test_the_split_changes_the_digest(digest):
    assert digest(BASE, split="test") != digest(BASE)


def build_texts(*texts):
    return pa.table({"id": ["1", "2"], "text": pa.array(texts, pa.large_string())})


def test_where_one_text_ends_and_the_next_begins_counts(digest):
    pairs = [("ab", ""), ("a", "b"), ("", "ab"), ("ab", None), (None, "ab")]
    assert len({digest(build_texts(*pair)) for pair in pairs}) == len(pairs)


def test_minus_zero_is_zero(digest):
    assert digest(change_value("label", 0, -0.0)) == digest(BASE)


@given(
    rows=st.lists(st.tuples(st.text(), st.floats(0, 1), st.none() | st.floats(0, 1)), min_size=1)
)
def test_the_digest_is_one_of_the_multiset_of_rows(tmp_path_factory, rows):
    table = pa.table(
        {
            "id": [str(i) for i in range(len(rows))],
            "text": pa.array([row[0] for row in rows], pa.large_string()),
            "label": pa.array([row[1] for row in rows], pa.float64()),
            "identity/x": pa.array([row[2] for row in rows], pa.float64()),
        }
    )
    folder = tmp_path_factory.mktemp("sets")
    frozen = freeze_rows([table], folder / "a", name="s", split="all", source={})
    reversed_table = table.take(list(range(len(rows)))[::-1])
    other = freeze_rows([reversed_table], folder / "b", name="s", split="all", source={})
    assert frozen.digest == other.digest


def test_a_frozen_set_can_be_opened_and_read(tmp_path):
    freeze_rows([BASE], tmp_path / "s", name="mine", split="test", source={"kind": "x"})
    frozen = EvaluationSet.load(tmp_path / "s")
    assert (frozen.name, frozen.n_rows, frozen.has_text) == ("mine", 5, True)
    assert frozen.identities == ["muslim"]
    assert frozen.column("id").to_pylist() == BASE["id"].to_pylist()
    batches = list(frozen.iter_batches(["label", "id"], 2))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]


@pytest.mark.parametrize("at", [10, -10])
def test_altered_rows_are_found_when_the_set_is_opened(tmp_path, at):
    folder = freeze_rows([BASE], tmp_path / "s", name="s", split="all", source={}).folder
    content = bytearray((folder / ROWS).read_bytes())
    content[at] ^= 1
    (folder / ROWS).write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"has changed since it was frozen\. Delete"):
        EvaluationSet.load(folder)


@pytest.mark.parametrize("lost", [ROWS, RECORD])
def test_a_folder_that_lacks_a_file_is_no_frozen_set(tmp_path, lost):
    folder = freeze_rows([BASE], tmp_path / "s", name="s", split="all", source={}).folder
    (folder / lost).unlink()
    with pytest.raises(InputError, match="must be a frozen evaluation set"):
        EvaluationSet.load(folder)


def test_a_set_appears_whole_or_not_at_all(tmp_path):
    def yield_chunks():
        yield BASE
        msg = "row 7"
        raise InputError(msg)

    with pytest.raises(InputError, match="row 7"):
        freeze_rows(yield_chunks(), tmp_path / "s", name="s", split="all", source={})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("chunks", [[], [BASE.slice(0, 0)]])
def test_a_set_without_rows_is_refused_with_its_file(tmp_path, chunks):
    with pytest.raises(InputError, match=r"'s' must have rows; .* \(file a\.csv\)"):
        freeze_rows(chunks, tmp_path / "s", name="s", split="all", source={"files": {"a.csv": "0"}})
    assert list(tmp_path.iterdir()) == []


def test_a_repeated_id_is_named_with_both_rows(tmp_path):
    chunks = [BASE, BASE.slice(2, 1)]
    with pytest.raises(InputError, match=r"id 4 is in rows 2 and 5 \(1 repeated in all\)"):
        freeze_rows(chunks, tmp_path / "s", name="s", split="all", source={})


def test_whole_files_and_folders_replace_what_was_there_only_when_made(tmp_path):
    with whole_file(tmp_path / "f") as file, whole_folder(tmp_path / "d") as folder:
        file.write_text("1")
        (folder / "x").write_text("1")
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "d"):
        _ = 1 / 0
    assert (tmp_path / "d" / "x").read_text() == "1"
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "f") as file:
        file.write_text("2" * (1 // 0))
    assert (tmp_path / "f").read_text() == "1"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d", "f"]


@pytest.fixture
def make_source(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,label,muslim\n1,0.5,1\n2,0,\n")
    options = {"name": "t", "source": "table", "path": path, "identities": ["muslim"]}
    return lambda **more: SOURCES.validate_python(options | more)


def test_a_set_is_made_once_for_a_content_and_its_options(tmp_path, make_source):
    store = tmp_path / "store"
    first = freeze_source(make_source(), store)
    touched = (first.folder / ROWS).stat().st_mtime_ns
    again = freeze_source(make_source(label_threshold=0.8, required=False), store)
    assert again.folder == first.folder
    assert (again.folder / ROWS).stat().st_mtime_ns == touched
    (tmp_path / "t.csv").write_text("id,label,muslim\n1,0.5,1\n2,0,0\n")
    assert freeze_source(make_source(), store).digest != first.digest


def test_threads_that_freeze_the_same_set_get_the_same_one(tmp_path, make_source):
    folders = []
    threads = [
        threading.Thread(
            target=lambda: folders.append(freeze_source(make_source(), tmp_path / "store").folder)
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 4
    assert len(set(folders)) == 1
