import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from bias_metrics import evaluate_bias
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze

FRAME = pd.DataFrame(
    {
        "key": [11, 12, 13, 14],
        "comment": ["a muslim man", "African American men", 'said "hi",\nbye', "nothing"],
        "toxicity": [0.25, 1.0, 0.0, 1 / 3],
        "kind": ["toxic", "toxic", "nontoxic", "nontoxic"],
        "muslims": [0.5, None, 0.1, 1.0],
        "thread": ["a", "a", "b", "b"],
        "brief": [True, False, True, True],
    }
)
COLUMNS = {"id": "key", "label": "toxicity", "text": "comment"}


def source(path, **options):
    options = COLUMNS | {"identities": ["muslims"]} | options
    return SOURCES.validate_python({"name": "t", "source": "table", "path": path, **options})


@pytest.fixture
def frozen(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    return lambda name="t.csv", **options: freeze(
        source(tmp_path / name, **options), tmp_path / "store"
    )


def values(evaluation_set, column):
    return evaluation_set.column(column).to_pylist()


def test_the_mapped_columns_are_frozen(frozen):
    found = frozen(identities={"muslim": "muslims"}, cluster="thread", slices={"short": "brief"})
    assert found.columns == ["id", "text", "label", "cluster", "identity/muslim", "slice/short"]
    assert values(found, "id") == ["11", "12", "13", "14"]
    assert values(found, "text") == FRAME["comment"].tolist()
    assert values(found, "label") == FRAME["toxicity"].tolist()
    assert values(found, "cluster") == ["a", "a", "b", "b"]
    assert values(found, "identity/muslim") == [0.5, None, 0.1, 1.0]
    assert values(found, "slice/short") == [True, False, True, True]


def test_ids_may_be_the_row_numbers(frozen):
    assert values(frozen(id="row_number"), "id") == ["0", "1", "2", "3"]


def test_label_values_say_what_a_label_means(frozen):
    found = frozen(label="kind", label_values={"toxic": 1, "nontoxic": 0})
    assert values(found, "label") == [1.0, 1.0, 0.0, 0.0]


def test_terms_are_found_in_the_text(frozen):
    found = frozen(identities=[], terms=["african", "american", "african american"])
    assert found.identities == ["african", "american", "african american"]
    assert values(found, "identity/african american") == [0.0, 1.0, 0.0, 0.0]
    assert values(found, "identity/african") == [0.0, 0.0, 0.0, 0.0]
    both = frozen(identities=[], terms=["african", "african american"], matching="overlap")
    assert values(both, "identity/african") == [0.0, 1.0, 0.0, 0.0]


def test_columns_and_terms_may_stand_side_by_side(frozen):
    found = frozen(terms={"men": ["man", "men"]})
    assert found.identities == ["muslims", "men"]
    assert values(found, "identity/men") == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("text", [None, "comment"])
def test_the_parts_of_a_split_are_disjoint_complete_and_stable(tmp_path, text):
    frame = pd.DataFrame(
        {"key": range(2000), "comment": [f"t {n}" for n in range(2000)], "toxicity": 0.5, "m": 0.0}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    frame.iloc[::-2].to_parquet(tmp_path / "half.parquet")

    def ids(name, split):
        options = {"identities": ["m"], "text": text, "split": split, "test_fraction": 0.3}
        return set(values(freeze(source(tmp_path / name, **options), tmp_path / "store"), "id"))

    train, test = ids("t.parquet", "train"), ids("t.parquet", "test")
    assert not train & test
    assert train | test == set(map(str, range(2000)))
    assert 0.25 < len(test) / 2000 < 0.35
    assert ids("half.parquet", "test") == test & ids("half.parquet", "all")


def test_rows_of_the_same_text_fall_into_the_same_part(tmp_path):
    pd.DataFrame(
        {"key": range(200), "comment": [f"t {n // 2}" for n in range(200)], "toxicity": 0.5, "m": 0}
    ).to_parquet(tmp_path / "t.parquet")
    found = freeze(source(tmp_path / "t.parquet", identities=["m"], split="test"), tmp_path / "s")
    ids = set(map(int, values(found, "id")))
    assert ids == {number ^ 1 for number in ids}


def test_a_missing_column_is_refused_by_the_check(tmp_path, frozen):
    del frozen
    with pytest.raises(InputError, match="must have the columns 'jews', 'votes'"):
        source(tmp_path / "t.csv", identities=["jews"], slices=["votes"]).check()


def test_a_column_of_words_is_no_slice_and_the_option_that_makes_slices_of_it_is_named(
    tmp_path, frozen
):
    FRAME.assign(lang=["de", "en", "de", "en"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"must be a number.* write `slices_in: \[lang\]`\."):
        frozen(slices={"german": "lang"})
    found = frozen(slices_in=["lang"])
    assert values(found, "slice/lang.de") == [True, False, True, False]


def test_a_column_of_identity_names_is_refused_with_the_option_that_reads_it(tmp_path, frozen):
    FRAME.assign(who=[f"group {at}" for at in range(len(FRAME))]).to_csv(
        tmp_path / "t.csv", index=False
    )
    remedy = r"must be a number.*column who, row 0.* write `identities: \{column: who, names: "
    with pytest.raises(InputError, match=remedy):
        frozen(identities={"column": "who"})


def test_a_repeated_id_is_refused_with_both_rows_and_the_file_order(tmp_path, frozen):
    pd.concat([FRAME, FRAME[:1]]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="id 11 is in rows 0 and 4"):
        frozen()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"identities": []}, "name the identities"),
        ({"text": None, "terms": ["gay"]}, "name its column with `text`"),
        ({"terms": ["muslims"]}, "not in both"),
        ({"terms": {"gay": []}}, "at least 1 item"),
        ({"terms": {"gay": [" "]}}, "should match pattern"),
        ({"label_values": {"toxic": 2}}, "less than or equal to 1"),
        ({"lable": "x"}, "unknown key. Did you mean 'label'"),
        ({"split": "dev"}, "'all', 'train' or 'test'"),
        ({"test_fraction": 1}, "less than 1"),
        ({"label_threshold": 0}, "greater than 0"),
        ({"name": "../t"}, "should match pattern"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(options, text):
    with pytest.raises(ValidationError, match=text):
        source("t.csv", **options)


def test_the_identity_rows_of_the_civil_comments_test_freeze_whole(tmp_path, real_data):
    path = real_data / "civil_comments_test_identities.parquet"
    names = [name for name in pq.read_schema(path).names if name not in {"id", "toxicity"}]
    chosen = source(path, id="id", label="toxicity", text=None, identities=names)
    found = freeze(chosen, tmp_path / "store")
    assert found.n_rows == 42_870
    assert len(found.identities) == 9
    labels = found.column("label").to_numpy()
    assert (int((labels >= 0.5).sum()), int((labels == 0.5).sum())) == (4_759, 1_358)
    as_csv = tmp_path / "as.csv"
    pyarrow.csv.write_csv(pq.read_table(path), as_csv)
    again = source(as_csv, id="id", label="toxicity", text=None, identities=names)
    assert freeze(again, tmp_path / "store").digest == found.digest


def test_the_published_perspective_results_are_reproduced_to_a_millionth(tmp_path, real_data):
    path = real_data / "perspective_templates.parquet"
    published = pd.read_csv(real_data / "perspective_unitary_results.csv").set_index("subgroup")
    terms = published.index.tolist()
    chosen = source(
        path,
        id="row_number",
        text="phrase",
        label="toxicity",
        label_values={"toxic": 1, "nontoxic": 0},
        identities=[],
        terms=terms,
        matching="overlap",
        cluster="template",
    )
    found = freeze(chosen, tmp_path / "store")
    assert (found.n_rows, len(found.identities)) == (30_240, 51)
    y_true = found.column("label").to_numpy() >= 0.5
    subgroups = {
        term: found.column(f"identity/{term}").to_numpy() >= 0.5 for term in found.identities
    }
    order = np.array(values(found, "id"), dtype=int)
    for model in ("TOXICITY@1", "TOXICITY@6"):
        y_score = pq.read_table(path, columns=[model]).column(0).to_numpy()[order]
        report = evaluate_bias(y_true, y_score, subgroups)
        for term, bias in report.subgroups.items():
            for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
                expected = published.loc[term, f"{model}_{metric}"]
                assert getattr(bias, metric).value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("cells", [["high", "low", "high", "low"], ["a b, c", "d, e f", "g", "h"]])
def test_other_text_in_place_of_an_identity_is_not_taken_for_lists(frozen, tmp_path, cells):
    FRAME.assign(groups=cells).to_csv(tmp_path / "words.csv", index=False)
    with pytest.raises(InputError, match="must be a number") as told:
        frozen("words.csv", identities=["groups"])
    assert "separator" not in str(told.value)


@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_word_of_a_label_is_counted_and_can_be_removed(frozen, tmp_path, missing):
    FRAME.assign(kind=["toxic", missing, "nontoxic", missing]).to_csv(tmp_path / "holes.csv")
    with pytest.raises(InputError, match="a label must not be missing") as told:
        frozen("holes.csv", label="kind", label_values={"toxic": 1, "nontoxic": 0})
    assert 'first 4 rows have none. Remove these rows: `t.dropna(subset=["kind"])`' in str(
        told.value
    )
