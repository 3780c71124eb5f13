"""An evaluation file from a table: what a spreadsheet or another tool wrote is recognised."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import yaml
from support.evaluations import run

from biasgate.running import read_table_options
from biasgate.tasks import table_evaluation
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import chunks
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.store import Workplace
from biasgate.tasks.table_evaluation import TableOptions, check_rows, describe_table

COLUMNS = TableOptions("toxic", ("gay", "muslim"), ("model a", "b"))


def table(n=60):
    rng = np.random.default_rng(4)
    toxic, gay, muslim = (rng.random(n) < share for share in (0.4, 0.3, 0.3))
    return pd.DataFrame(
        {
            "comment": [f"é {number}, ü" for number in range(n)],
            "toxic": toxic.astype(int),
            "gay": gay.astype(int),
            "muslim": muslim.astype(int),
            "model a": np.round(rng.random(n), 3),
            "b": np.round(rng.random(n), 3),
        }
    )


def described(path, options=COLUMNS):
    text, notes = describe_table(path, options)
    return yaml.safe_load(text), notes


def frozen(path, tmp_path, options=COLUMNS):
    """Freeze the set of a described table; return it and the scores by candidate."""
    file = tmp_path / "evaluation.yaml"
    file.write_text(describe_table(path, options)[0], "utf-8")
    evaluation = read_evaluation(file)
    workplace = Workplace(tmp_path / "store")
    [source] = evaluation.evaluation_sets
    found = freeze_evaluation_set.fn(source, workplace)
    scores = {
        one.name: one.read_scores(one.path, allow_missing=False) for one in evaluation.candidates
    }
    return found, scores


WRITTEN = {
    "plain": ({}, []),
    "excel": (
        {"sep": ";", "decimal": ",", "encoding": "cp1252"},
        [
            "rows.csv is not UTF-8 and is read as cp1252",
            "columns of rows.csv are separated by semicolons",
            "numbers of rows.csv have a decimal comma",
        ],
    ),
    "tabs": ({"sep": "\t"}, ["columns of rows.csv are separated by tabs"]),
    "bars": ({"sep": "|"}, ["columns of rows.csv are separated by vertical bars"]),
    "latin": ({"encoding": "latin-1"}, ["rows.csv is not UTF-8 and is read as cp1252"]),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_every_form_of_a_table_gives_the_same_rows_and_scores(tmp_path, form):
    options, expected = WRITTEN[form]
    path = tmp_path / "rows.csv"
    rows = table()
    rows.to_csv(path, index=False, **options)
    content, notes = described(path)
    assert notes == expected
    assert [one["name"] for one in content["candidates"]] == ["model a", "b"]
    assert [one["id"] for one in content["candidates"]] == ["row_number"] * 2
    _, scores = frozen(path, tmp_path)
    for name, column in scores.items():
        assert column.to_numpy() == pytest.approx(rows[name])


def test_the_form_of_the_files_stands_once_in_the_evaluation(tmp_path):
    path = tmp_path / "rows.csv"
    table().to_csv(path, index=False, sep=";", decimal=",", encoding="cp1252")
    content, _ = described(path)
    form = {"separator": ";", "decimal": ",", "encoding": "cp1252"}
    assert form.items() <= content.items()
    sections = [*content["evaluation_sets"], *content["candidates"]]
    assert not any({*form} & {*section} for section in sections)


def test_scores_in_a_file_of_their_own_are_joined_by_id(tmp_path):
    rows = table()
    rows.insert(0, "id", [str(1234567890123456789 + at) for at in range(len(rows))])
    rows.drop(columns=["model a", "b"]).to_csv(tmp_path / "rows.csv", index=False)
    shuffled = rows[["id", "model a", "b"]].sample(frac=1, random_state=1)
    shuffled.to_csv(tmp_path / "scores.csv", index=False, sep=";", decimal=",")
    options = TableOptions("toxic", ("gay", "muslim"), scores_file=tmp_path / "scores.csv")
    content, notes = described(tmp_path / "rows.csv", options)
    assert [one["score"] for one in content["candidates"]] == ["model a", "b"]
    assert {one["separator"] for one in content["candidates"]} == {";"}
    assert len(notes) == 2
    _, scores = frozen(tmp_path / "rows.csv", tmp_path, options)
    expected = rows.set_index("id")["model a"]
    assert scores["model a"][expected.index].to_numpy() == pytest.approx(expected)
    assert scores["b"].index[0] == shuffled["id"].iloc[0]  # 19 digits stay as they are


@pytest.mark.parametrize(
    ("words", "label", "toxic"),
    [
        (("yes", "no"), "toxic", "yes"),
        (("ja", "nein"), "toxic", "ja"),
        (("offensive", "fine"), "toxic=offensive", "offensive"),
    ],
)
def test_words_of_a_label_are_mapped(tmp_path, words, label, toxic):
    rows = table().assign(toxic=lambda one: np.where(one["toxic"] == 1, *words))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    options = TableOptions(label, ("gay", "muslim"), ("b",))
    content, notes = described(tmp_path / "rows.csv", options)
    assert content["evaluation_sets"][0]["label_values"] == {words[0]: 1, words[1]: 0}
    n_toxic = int((rows["toxic"] == toxic).sum())
    assert notes == [
        f"label {toxic!r} ({n_toxic} rows) counts as toxic",
        f"label {words[1]!r} ({len(rows) - n_toxic} rows) counts as harmless",
    ]


def test_a_column_of_names_gives_one_identity_for_each_name(tmp_path):
    rows = table()
    pairs = zip(rows["gay"], rows["muslim"], strict=True)
    rows["groups"] = [";".join(["gay"] * gay + ["muslim"] * muslim) for gay, muslim in pairs]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    options = TableOptions("toxic", ("groups",), ("b",))
    content, notes = described(tmp_path / "rows.csv", options)
    [source] = content["evaluation_sets"]
    named = source["identities"]
    assert (named["column"], named["separator"]) == ("groups", ";")
    assert sorted(named["names"]) == ["gay", "muslim"]
    n_empty = int((rows["groups"] == "").sum())
    assert source["identity_rows"] == "all"
    assert notes == [
        "groups holds names of 2 identities",
        f"{n_empty} rows without a name in groups count as mentioning no identity",
    ]
    folder, _ = frozen(tmp_path / "rows.csv", tmp_path, options)
    found = pd.read_parquet(f"{folder}/rows.parquet")
    assert (found["identity/gay"].fillna(0) == rows["gay"]).all()


def written(tmp_path, rows, name="rows.csv", **options):
    rows.to_csv(tmp_path / name, index=False, **options)
    return tmp_path / name


def labelled(tmp_path, values, label):
    """Describe a table with these labels; return their meanings and the frozen labels."""
    rows = table().assign(toxic=np.resize(np.array(values, dtype=object), 60))
    options = TableOptions(label, ("gay", "muslim"), ("b",))
    content, notes = described(written(tmp_path, rows), options)
    folder, _ = frozen(tmp_path / "rows.csv", tmp_path, options)
    labels = pd.read_parquet(f"{folder}/rows.parquet")["label"]
    return content["evaluation_sets"][0].get("label_values"), labels.tolist(), notes


@pytest.mark.parametrize(
    ("values", "label", "means", "labels"),
    [
        (["yes", "no", "unsure"], "toxic=yes/no", {"yes": 1, "no": 0, "unsure": None}, [1, 0]),
        (["yes", "no", "unsure"], "toxic=yes/no,unsure", {"yes": 1, "no": 0, "unsure": 0}, 0),
        (["hate", "rude", "fine"], "toxic=hate,rude/fine", {"hate": 1, "rude": 1, "fine": 0}, 0),
        (["a/b", "c"], "toxic=a/b", {"a/b": 1, "c": 0}, 0),
        (["Yes", "yes", "NO"], "toxic", {"Yes": 1, "yes": 1, "NO": 0}, 0),
        (["0", "1", "2"], "toxic=0,1/2", {"0": 1, "1": 1, "2": 0}, 0),
        (["yes", "no", ""], "toxic", {"yes": 1, "no": 0, "": None}, [1, 0]),
        (["x", ""], "toxic=x/", {"x": 1, "": 0}, 0),
        (["1", "0", "0.4", ""], "toxic", {"": None}, [1, 0, 0.4]),
    ],
)
def test_values_of_a_label_mean_what_is_named(tmp_path, values, label, means, labels):
    found, read, notes = labelled(tmp_path, values, label)
    assert found == means
    expected = labels or [means[value] for value in values]
    assert read == expected * (60 // len(values))
    n_left_out = sum("is left out" in note for note in notes)
    assert n_left_out == (None in means.values())


@pytest.mark.parametrize(
    ("values", "label", "message"),
    [
        (["yes", "no", "unsure"], "toxic=yes", r"'unsure' \(20 rows\).*--label toxic=yes/no`"),
        (["yes", "no", "unsure"], "toxic", r"'unsure' \(20 rows\).*--label toxic=yes/no`"),
        (["yes", "maybe"], "toxic", "--label toxic=yes/HARMLESS`"),
        (["x", ""], "toxic=x", "If empty cells are harmless, write `--label toxic=x/`"),
        (["yes", "no"], "toxic=yes/yes", "must name a value once"),
        (["yes", "no"], "toxic=yse", r"'yse' is not: .* 'no' \(30 rows\), 'yes' \(30 rows\)"),
        (["yes", "no"], "toxic=", "'' is not"),
        (["0", "1", "unsure"], "toxic", "it must be plain which are toxic"),
    ],
)
def test_labels_that_are_not_plain_are_refused(tmp_path, values, label, message):
    with pytest.raises(InputError, match=message):
        labelled(tmp_path, values, label)


def test_labels_are_read_to_the_end_of_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(table_evaluation, "read_chunks", partial(chunks.read_chunks, size=10))
    with pytest.raises(InputError, match=r"'unsure' \(1 row\)"):
        labelled(tmp_path, ["yes", "no"] * 29 + ["yes", "unsure"], "toxic=yes")


def test_comments_are_not_quoted_as_labels(tmp_path):
    with pytest.raises(InputError, match="has 60 different values") as error:
        labelled(tmp_path, [f"idiot {at}" for at in range(60)], "toxic=yes")
    assert "idiot" not in str(error.value)


def test_missing_labels_of_parquet_are_left_out(tmp_path):
    rows = table().assign(toxic=[1.0, 0.0, np.nan] * 20)
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    content, notes = described(tmp_path / "rows.parquet")
    assert content["evaluation_sets"][0]["label_values"] == {"": None}
    assert notes == ["empty label (20 rows) is left out"]
    folder, _ = frozen(tmp_path / "rows.parquet", tmp_path)
    assert len(pd.read_parquet(f"{folder}/rows.parquet")) == 40


@pytest.mark.parametrize(
    ("yes", "no", "notes"),
    [
        ("x", "", ["identity 'x' counts as a mention", "empty cells in gay, muslim count as not"]),
        ("1", "", ["empty cells in gay, muslim count as not mentioned"]),
        ("Oui", "non", ["identity 'Oui' counts as a mention", "identity 'non' counts as no menti"]),
    ],
)
@pytest.mark.parametrize("columns", [("gay", "muslim"), ("gay",)])
def test_words_and_marks_of_identities_are_read(tmp_path, yes, no, notes, columns):
    rows = table()
    words = {name: np.where(rows[name] == 1, yes, no) for name in ("gay", "muslim")}
    path = written(tmp_path, rows.assign(**words))
    options = TableOptions("toxic", columns, ("b",))
    content, found = described(path, options)
    assert len(found) == len(notes)
    wanted = [note.replace("gay, muslim", ", ".join(columns)) for note in notes]
    assert all(map(str.startswith, found, wanted))
    assert content["evaluation_sets"][0].get("identity_rows") == (None if no else "all")
    folder, _ = frozen(path, tmp_path, options)
    frozen_rows = pd.read_parquet(f"{folder}/rows.parquet")
    for name in columns:
        assert (frozen_rows[f"identity/{name}"].fillna(0) == rows[name]).all()


def test_empty_cells_must_mean_the_same_in_all_identity_columns(tmp_path):
    rows = table().assign(gay=["x", "", ""] * 20, muslim=[1, 0, None] * 20)
    with pytest.raises(InputError, match=r"column 'gay' has only marks .* column 'muslim' also"):
        described(written(tmp_path, rows))


def test_spellings_of_a_name_are_a_single_identity(tmp_path):
    cells = ["gay", "Gay", "gay ", "josé", "jose\u0301", "JOSÉ"] * 10
    path = written(tmp_path, table().assign(groups=cells))
    content, notes = described(path, TableOptions("toxic", ("groups",), ("b",)))
    assert content["evaluation_sets"][0]["identities"]["names"] == ["gay", "josé"]
    assert "groups holds names of 2 identities" in notes
    assert any("'gay' = 'Gay'" in note for note in notes)


def test_mixed_separators_of_names_are_named(tmp_path):
    path = written(tmp_path, table().assign(groups=["gay,muslim", "gay|muslim", "gay"] * 20))
    with pytest.raises(InputError, match=r"a single separator; they have ',' and '\|'"):
        described(path, TableOptions("toxic", ("groups",), ("b",)))


WRONG_ROWS = {
    "a total": ({"toxic": [0, 1] * 29 + [1, 29]}, r"row 59.* if it is a total, remove it"),
    "percent signs": ({"b": ["87%"] * 60}, r"without `%`; got 87% .*rstrip"),
    "a missing score": ({"b": [0.5] * 59 + [None]}, "evaluation file with `--save FILE`"),
    "another scale": ({"b": [0.5, 0.6] * 30}, "`threshold` of 'b' must be on the scale"),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_wrong_rows_are_refused_before_the_evaluation(tmp_path, case):
    columns, message = WRONG_ROWS[case]
    options = TableOptions("toxic", ("gay",), ("b",), threshold=50)
    text, _ = describe_table(written(tmp_path, table().assign(**columns)), options)
    with pytest.raises(InputError, match=message):
        check_rows(text, tmp_path / "store", with_scores=True)


def scored_apart(tmp_path, ids, id_option, **form):
    """Describe a table and scores of some of its rows, whose column of ids has another name."""
    rows = table().assign(key=range(60))
    scores = pd.DataFrame({"comment_id": ids, "b": 0.5})
    written(tmp_path, scores, "scores.csv", **form)
    options = TableOptions("toxic", ("gay",), scores_file=tmp_path / "scores.csv", id=id_option)
    return describe_table(written(tmp_path, rows, sep=";"), options)[0]


def test_the_ids_may_have_another_name_in_the_scores(tmp_path):
    check_rows(
        scored_apart(tmp_path, range(60), "key=comment_id"), tmp_path / "store", with_scores=True
    )
    with pytest.raises(InputError, match="`--id key=NAME`"):
        scored_apart(tmp_path, range(60), "key")


def test_ids_that_do_not_match_are_refused_with_what_keeps_the_common_rows(tmp_path):
    text = scored_apart(tmp_path, range(5, 65), "key=comment_id")
    check_rows(text, tmp_path / "store", with_scores=False)
    remedy = r"t\[t\['key'\].isin\(s\['comment_id'\]\)\]"
    with pytest.raises(InputError, match=f"5 of the set have no score.*{remedy}"):
        check_rows(text, tmp_path / "store", with_scores=True)


REFUSED = {
    "no such column": (TableOptions("toxi", ("gay",), ("b",)), "'toxi'; .* Did you mean 'toxic'"),
    "no such score": (TableOptions("toxic", ("gay",), ("c",)), "must have the column 'c'"),
    "no such word": (TableOptions("toxic=bad", ("gay",), ("b",)), "'bad' is not: .* '0' "),
    "no scores": (TableOptions("toxic", ("gay",)), "`--score` must name a column of scores"),
    "words": (TableOptions("verdict", ("gay",), ("b",)), "as in `--label verdict=TOXIC/HARMLESS`"),
    "short texts": (TableOptions("toxic", ("remark",), ("b",)), "at most 100 names of identities"),
    "a label of texts": (
        TableOptions("remark=r 1 is a remark", ("gay",), ("b",)),
        "has 20 different values: it must be plain",
    ),
    "texts": (TableOptions("toxic", ("comment",), ("b",)), "at most 100 names of identities"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_recognised_is_asked_for(tmp_path, case):
    options, message = REFUSED[case]
    rows = table(200).assign(
        verdict=["good", "bad"] * 100, remark=[f"r {at % 20} is a remark" for at in range(200)]
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(InputError, match=message):
        describe_table(tmp_path / "rows.csv", options)


def test_a_table_without_options_is_refused_with_its_columns(tmp_path):
    table().to_csv(tmp_path / "rows.csv", index=False, sep=";")
    code, told = run("evaluate", tmp_path / "rows.csv", "--label", "toxic")
    told = " ".join(told.split())
    assert code == 2
    assert "name its columns with `--identities` and `--score`" in told
    assert "'gay', 'muslim'" in told


@pytest.mark.parametrize("name", ["rows.txt", "rows.data", "rows"])
def test_a_table_may_have_any_name(tmp_path, name):
    path = written(tmp_path, table(), name)
    given = ["--label", "toxic", "--identities", "gay", "--score", "b"]
    code, told = run("evaluate", path, *given, "--save", tmp_path / "mine.yaml")
    assert code == 0, told


@pytest.mark.parametrize("options", [(), ("--label", "toxic")])
def test_a_workbook_is_refused_with_what_to_save(tmp_path, options):
    (tmp_path / "rows.xlsx").write_bytes(b"PK\x03\x04")
    given = () if not options else (*options, "--identities", "gay", "--score", "b")
    code, told = run("evaluate", tmp_path / "rows.xlsx", *given, "--output", tmp_path / "out")
    assert (code, "Save the sheet with the rows as CSV" in " ".join(told.split())) == (2, True)


def test_a_table_without_rows_is_not_saved(tmp_path):
    path = written(tmp_path, table().iloc[:0])
    given = ["--label", "toxic", "--identities", "gay", "--score", "b"]
    code, told = run("evaluate", path, *given, "--save", tmp_path / "mine.yaml")
    assert (code, "must have rows" in " ".join(told.split())) == (2, True)
    assert not (tmp_path / "mine.yaml").exists()


def test_a_wrong_column_is_refused_with_the_names_of_all(tmp_path):
    rows = table().rename(columns={"gay": "erwähnt schwul", "muslim": "musulmán"})
    options = TableOptions("toxic", ("musulmán",), ("scor",))
    with pytest.raises(InputError, match=r"'scor'; it has .*'erwähnt schwul', 'musulmán'"):
        described(written(tmp_path, rows), options)


def test_a_threshold_with_a_comma_is_refused_with_its_remedy(tmp_path):
    code, told = run("evaluate", written(tmp_path, table()), "--threshold", "0,5")
    assert (code, "Write decimals with a point" in " ".join(told.split())) == (2, True)


def test_options_of_a_table_are_refused_for_an_evaluation_file():
    code, told = run("evaluate", "demo", "--label", "toxic", "--output", "out")
    assert (code, "must be given with a table" in " ".join(told.split())) == (2, True)


def test_save_writes_the_file_that_would_be_run(tmp_path):
    table().to_csv(tmp_path / "rows.csv", index=False)
    given = ["--label", "toxic", "--identities", "gay,muslim", "--score", "b"]
    code, told = run("evaluate", tmp_path / "rows.csv", *given, "--save", tmp_path / "mine.yaml")
    assert code == 0, told
    assert [one.name for one in read_evaluation(tmp_path / "mine.yaml").candidates] == ["b"]
    again = run("evaluate", tmp_path / "rows.csv", *given, "--save", tmp_path / "mine.yaml")
    assert again[0] == 2


@pytest.mark.parametrize("name", ["night.yaml", "comments.csv.yaml", "comments.csv.YML"])
def test_the_last_suffix_decides_that_a_file_is_an_evaluation_file(name):
    options = {"--label": None, "--identities": None, "--score": []}
    assert read_table_options(name, options) is None
    with pytest.raises(InputError, match=f"{name} is an evaluation file"):
        read_table_options(name, options | {"--label": "toxic"})
