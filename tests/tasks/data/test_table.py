import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from bias_metrics import evaluate_bias
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze_source

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


def make_source(path, **options):
    options = COLUMNS | {"identities": ["muslims"]} | options
    return SOURCES.validate_python({"name": "t", "source": "table", "path": path, **options})


@pytest.fixture
def freeze_frame(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    return lambda name="t.csv", **options: freeze_source(
        make_source(tmp_path / name, **options), tmp_path / "store"
    )


def read_values(frozen, column):
    return frozen.column(column).to_pylist()


def test_the_mapped_columns_are_frozen(freeze_frame):
    frozen = freeze_frame(
        identities={"muslim": "muslims"}, cluster="thread", slices={"short": "brief"}
    )
    columns = ["id", "text", "label", "cluster", "identity/muslim", "slice/short"]
    assert frozen.columns == columns
    assert read_values(frozen, "id") == ["11", "12", "13", "14"]
    assert read_values(frozen, "text") == FRAME["comment"].tolist()
    assert read_values(frozen, "label") == FRAME["toxicity"].tolist()
    assert read_values(frozen, "cluster") == ["a", "a", "b", "b"]
    assert read_values(frozen, "identity/muslim") == [0.5, None, 0.1, 1.0]
    assert read_values(frozen, "slice/short") == [True, False, True, True]


def test_ids_may_be_the_row_numbers(freeze_frame):
    assert read_values(freeze_frame(id="row_number"), "id") == ["0", "1", "2", "3"]


def test_label_values_say_what_a_label_means(freeze_frame):
    frozen = freeze_frame(label="kind", label_values={"toxic": 1, "nontoxic": 0})
    assert read_values(frozen, "label") == [1.0, 1.0, 0.0, 0.0]


def test_terms_are_found_in_the_text(freeze_frame):
    frozen = freeze_frame(identities=[], terms=["african", "american", "african american"])
    assert frozen.identities == ["african", "american", "african american"]
    assert read_values(frozen, "identity/african american") == [0.0, 1.0, 0.0, 0.0]
    assert read_values(frozen, "identity/african") == [0.0, 0.0, 0.0, 0.0]
    both = freeze_frame(identities=[], terms=["african", "african american"], matching="overlap")
    assert read_values(both, "identity/african") == [0.0, 1.0, 0.0, 0.0]


def test_columns_and_terms_may_stand_side_by_side(freeze_frame):
    frozen = freeze_frame(terms={"men": ["man", "men"]})
    assert frozen.identities == ["muslims", "men"]
    assert read_values(frozen, "identity/men") == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("text", [None, "comment"])
def test_the_parts_of_a_split_are_disjoint_complete_and_stable(tmp_path, text):
    frame = pd.DataFrame(
        {"key": range(2000), "comment": [f"t {n}" for n in range(2000)], "toxicity": 0.5, "m": 0.0}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    frame.iloc[::-2].to_parquet(tmp_path / "half.parquet")

    def read_ids(name, split):
        options = {"identities": ["m"], "text": text, "split": split, "test_fraction": 0.3}
        frozen = freeze_source(make_source(tmp_path / name, **options), tmp_path / "store")
        return set(read_values(frozen, "id"))

    train, test = read_ids("t.parquet", "train"), read_ids("t.parquet", "test")
    assert not train & test
    assert train | test == set(map(str, range(2000)))
    assert 0.25 < len(test) / 2000 < 0.35
    assert read_ids("half.parquet", "test") == test & read_ids("half.parquet", "all")


def test_rows_of_the_same_text_fall_into_the_same_part(tmp_path):
    pd.DataFrame(
        {"key": range(200), "comment": [f"t {n // 2}" for n in range(200)], "toxicity": 0.5, "m": 0}
    ).to_parquet(tmp_path / "t.parquet")
    frozen = freeze_source(
        make_source(tmp_path / "t.parquet", identities=["m"], split="test"), tmp_path / "s"
    )
    ids = set(map(int, read_values(frozen, "id")))
    assert ids == {number ^ 1 for number in ids}


def test_a_missing_column_is_refused_by_the_check(tmp_path, freeze_frame):
    del freeze_frame
    with pytest.raises(InputError, match="must have the columns 'jews', 'votes'"):
        make_source(tmp_path / "t.csv", identities=["jews"], slices=["votes"]).check()


def test_a_column_of_words_is_no_slice_and_the_option_that_makes_slices_of_it_is_named(
    tmp_path, freeze_frame
):
    FRAME.assign(lang=["de", "en", "de", "en"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"must be a number.* write `slices_in: \[lang\]`\."):
        freeze_frame(slices={"german": "lang"})
    frozen = freeze_frame(slices_in=["lang"])
    assert read_values(frozen, "slice/lang.de") == [True, False, True, False]


def test_a_column_of_identity_names_is_refused_with_the_option_that_reads_it(
    tmp_path, freeze_frame
):
    FRAME.assign(who=[f"group {at}" for at in range(len(FRAME))]).to_csv(
        tmp_path / "t.csv", index=False
    )
    remedy = r"must be a number.*column who, row 0.* write `identities: \{column: who, names: "
    with pytest.raises(InputError, match=remedy):
        freeze_frame(identities={"column": "who"})


def test_a_repeated_id_is_refused_with_both_rows_and_the_file_order(tmp_path, freeze_frame):
    pd.concat([FRAME, FRAME[:1]]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="id 11 is in rows 0 and 4"):
        freeze_frame()


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
        make_source("t.csv", **options)


def test_the_identity_rows_of_the_civil_comments_test_freeze_whole(tmp_path, real_data):
    path = real_data / "civil_comments_test_identities.parquet"
    names = [name for name in pq.read_schema(path).names if name not in {"id", "toxicity"}]
    chosen = make_source(path, id="id", label="toxicity", text=None, identities=names)
    frozen = freeze_source(chosen, tmp_path / "store")
    assert frozen.n_rows == 42_870
    assert len(frozen.identities) == 9
    labels = frozen.column("label").to_numpy()
    assert (int((labels >= 0.5).sum()), int((labels == 0.5).sum())) == (4_759, 1_358)
    as_csv = tmp_path / "as.csv"
    pyarrow.csv.write_csv(pq.read_table(path), as_csv)
    again = make_source(as_csv, id="id", label="toxicity", text=None, identities=names)
    assert freeze_source(again, tmp_path / "store").digest == frozen.digest


def test_the_published_perspective_results_are_reproduced_to_a_millionth(tmp_path, real_data):
    path = real_data / "perspective_templates.parquet"
    published = pd.read_csv(real_data / "perspective_unitary_results.csv").set_index("subgroup")
    terms = published.index.tolist()
    chosen = make_source(
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
    frozen = freeze_source(chosen, tmp_path / "store")
    assert (frozen.n_rows, len(frozen.identities)) == (30_240, 51)
    y_true = frozen.column("label").to_numpy() >= 0.5
    subgroups = {
        term: frozen.column(f"identity/{term}").to_numpy() >= 0.5 for term in frozen.identities
    }
    order = np.array(read_values(frozen, "id"), dtype=int)
    for model in ("TOXICITY@1", "TOXICITY@6"):
        y_score = pq.read_table(path, columns=[model]).column(0).to_numpy()[order]
        report = evaluate_bias(y_true, y_score, subgroups)
        for term, bias in report.subgroups.items():
            for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
                expected = published.loc[term, f"{model}_{metric}"]
                assert getattr(bias, metric).value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("cells", [["high", "low", "high", "low"], ["a b, c", "d, e f", "g", "h"]])
def test_other_text_in_place_of_an_identity_is_not_taken_for_lists(freeze_frame, tmp_path, cells):
    FRAME.assign(groups=cells).to_csv(tmp_path / "words.csv", index=False)
    with pytest.raises(InputError, match="must be a number") as error:
        freeze_frame("words.csv", identities=["groups"])
    assert "separator" not in str(error.value)


@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_word_of_a_label_is_counted_and_can_be_removed(freeze_frame, tmp_path, missing):
    FRAME.assign(kind=["toxic", missing, "nontoxic", missing]).to_csv(tmp_path / "holes.csv")
    with pytest.raises(InputError, match="a label must not be missing") as error:
        freeze_frame("holes.csv", label="kind", label_values={"toxic": 1, "nontoxic": 0})
    assert 'first 4 rows have none. Remove these rows: `t.dropna(subset=["kind"])`' in str(
        error.value
    )
