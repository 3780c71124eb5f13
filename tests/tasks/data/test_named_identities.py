"""Identities from a column of names, with a name or a list of names in each row."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from support.tables import table_source

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import freeze_source

LISTS = [["muslim", "gay"], [], ["gay", "deaf"], None]
EXPECTED = {"muslim": [1.0, 0.0, 0.0, None], "gay": [1.0, 0.0, 1.0, None]}
AS_TEXT = {
    "lists as pandas writes them": (
        [str(names) if names is not None else None for names in LISTS],
        None,
    ),
    "lists of JSON": (['["muslim", "gay"]', "[]", '["gay", null]', None], None),
    "lists without quotes": (["[Muslim, gay]", "[]", "[gay]", ""], None),
    "names with commas": (["Muslim, gay", "other", "gay,deaf", None], ","),
    "names with bars": (["muslim|gay", "|", "gay", None], "|"),
}


def freeze_cells(folder, cells, **options):
    table = pd.DataFrame(
        {"id": range(len(cells)), "label": 0.0, "groups": pd.Series(cells, dtype=object)}
    )
    table.to_csv(folder / "t.csv", index=False)
    return freeze_file(folder / "t.csv", **options)


def freeze_file(path, **options):
    named = {"column": "groups", "names": ["muslim", "gay"]}
    named |= {key: options.pop(key) for key in ("names", "separator") if key in options}
    return freeze_source(
        table_source(path, **{"identities": named} | options), path.parent / "store"
    )


def read_mentions(frozen):
    names = frozen.identities
    return {name: frozen.column(f"identity/{name}").to_pylist() for name in names}


@pytest.mark.parametrize("kind", AS_TEXT)
def test_names_in_text_become_identities(tmp_path, kind):
    cells, separator = AS_TEXT[kind]
    options = {} if separator is None else {"separator": separator}
    assert read_mentions(freeze_cells(tmp_path, cells, **options)) == EXPECTED


def test_one_name_in_each_row_becomes_identities(tmp_path):
    cells = ["Muslim", "nobody", " gay ", None]
    expected = {"muslim": [1.0, 0.0, 0.0, None], "gay": [0.0, 0.0, 1.0, None]}
    assert read_mentions(freeze_cells(tmp_path, cells)) == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
    ],
    ids=str,
)
def test_lists_of_parquet_become_identities(tmp_path, kind):
    groups = pa.array(LISTS, pa.list_(pa.string()))
    values = groups.flatten()
    values = values.dictionary_encode() if "dictionary" in str(kind) else values
    built = pa.ListArray.from_arrays(groups.offsets, values, mask=groups.is_null())
    columns = {"id": [0, 1, 2, 3], "label": [0.0] * 4, "groups": built.cast(kind)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert read_mentions(freeze_file(tmp_path / "t.parquet")) == EXPECTED


def test_lists_of_json_lines_become_identities(tmp_path):
    rows = pd.DataFrame({"id": range(4), "label": 0.0, "groups": LISTS})
    rows.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    assert read_mentions(freeze_file(tmp_path / "t.jsonl")) == EXPECTED


def test_lists_of_codes_are_named_by_the_option(tmp_path):
    columns = {"id": [0, 1], "label": [0.0, 1.0], "groups": [[3, 7], [7]]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    names = {"muslim": ["3"], "gay": ["7", "8"]}
    assert read_mentions(freeze_file(tmp_path / "t.parquet", names=names)) == {
        "muslim": [1.0, 0.0],
        "gay": [1.0, 1.0],
    }


def test_one_name_may_belong_to_two_identities(tmp_path):
    names = {"lgbt": ["gay", "lesbian"], "gay": ["gay"]}
    mentions = read_mentions(freeze_cells(tmp_path, ["gay", "lesbian"], names=names))
    assert mentions == {"lgbt": [1.0, 1.0], "gay": [1.0, 0.0]}


def test_names_and_terms_give_one_set(tmp_path):
    table = pd.DataFrame(
        {
            "id": [0, 1],
            "label": 0.0,
            "groups": ["gay", None],
            "text": ["a man", "b"],
        }
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    frozen = freeze_file(tmp_path / "t.csv", names=["gay"], terms={"male": ["man"]}, text="text")
    assert read_mentions(frozen) == {"gay": [1.0, None], "male": [1.0, 0.0]}


def test_a_name_that_no_row_has_is_noted(tmp_path):
    frozen = freeze_cells(
        tmp_path, ["gay"] * 3, names={"gay": ["gay"], "muslim": ["muslim", "muzlim"]}
    )
    assert frozen.record["unmatched_terms"] == {"muslim": ["muslim", "muzlim"]}


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (["muslim,gay", "gay"], {}, r'Set `separator: ","`.*'),
        (["islam", "queer"], {}, r"none has \(.*column groups\). Instead it has 'islam', 'queer'."),
        ([0.5, 1.0], {}, r"none has .*'0.5', '1.0'"),
        (["a long sentence that somebody wrote"] * 2, {}, r"Check `column` and `names`\.$"),
        ([f"n{n}" for n in range(90)], {}, r"Check `column` and `names`\.$"),
    ],
)
def test_a_column_that_cannot_be_meant_is_refused(tmp_path, cells, options, message):
    with pytest.raises(InputError, match=message) as refused:
        freeze_cells(tmp_path, cells, **options)
    assert "somebody" not in str(refused.value)


@pytest.mark.parametrize(
    "values", [[0.5, 1.0], [{"a": 1}, {"a": 2}], [[0.5], [1.0]], [[["gay"]], [["gay"]]]]
)
def test_other_types_than_names_are_refused(tmp_path, values):
    pq.write_table(
        pa.table({"id": [0, 1], "label": [0.0, 1.0], "groups": values}), tmp_path / "t.parquet"
    )
    with pytest.raises(InputError, match=r"names or lists of names|a single value in each row"):
        freeze_file(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": []}, "at least 1 item"),
        ({"identities": {"names": ["gay"]}}, r"identities.column\n  Field required"),
        ({"identities": {"column": "a", "names": ["gay"], "seperator": ","}}, "Did you mean"),
        ({"identities": {"column": "a", "names": ["gay"], "separator": ""}}, "at least 1 char"),
        ({"identities": {"gay": 3}}, "valid string"),
        ({"terms": ["gay"], "text": "text"}, "gay must be in `identities` or `terms`"),
        ({"names": {"gay": []}}, "at least 1 item"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(tmp_path, options, message):
    with pytest.raises(ValidationError, match=message):
        freeze_file(tmp_path / "t.csv", **options)


def test_an_identity_may_be_called_names(tmp_path):
    (tmp_path / "t.csv").write_text("id,label,a,b\n1,0,1,0\n")
    frozen = freeze_file(tmp_path / "t.csv", identities={"names": "a", "column": "b"})
    assert read_mentions(frozen) == {"names": [1.0], "column": [0.0]}


def test_names_are_found_in_any_chunk_of_a_large_file(tmp_path):
    cells = np.where(np.arange(250_000) % 50_000 == 49_999, "gay", "none")
    table = pa.table({"id": np.arange(250_000), "label": np.zeros(250_000), "groups": cells})
    pq.write_table(table, tmp_path / "t.parquet")
    frozen = freeze_file(tmp_path / "t.parquet", names=["gay"])
    assert frozen.column("identity/gay").to_numpy().sum() == 5


def test_a_cell_with_another_separator_is_refused(tmp_path):
    rule = r"must be separated by `separator` \(','\).*This cell also has '\|'"
    with pytest.raises(InputError, match=rule):
        freeze_cells(tmp_path, ["muslim,gay", "muslim|gay", "other|words"], separator=",")


def test_two_identities_with_the_same_names_are_refused(tmp_path):
    with pytest.raises(ValidationError, match="those of 'gay' and 'Gay' are the same"):
        freeze_cells(tmp_path, ["gay"], names=["gay", "Gay"])
