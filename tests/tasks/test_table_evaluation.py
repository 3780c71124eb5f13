"""An evaluation file from a table: what a spreadsheet or another tool wrote is recognised."""

import numpy as np
import pandas as pd
import pytest
import yaml
from support.evaluations import run

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.store import Workplace
from biasgate.tasks.table_evaluation import TableOptions, describe_table

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
    assert notes == [f"label {toxic!r} counts as toxic"]


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


REFUSED = {
    "no such column": (TableOptions("toxi", ("gay",), ("b",)), "'toxi'; .* Did you mean 'toxic'"),
    "no such score": (TableOptions("toxic", ("gay",), ("c",)), "must have the column 'c'"),
    "no such word": (TableOptions("toxic=bad", ("gay",), ("b",)), "'bad' is not one"),
    "no scores": (TableOptions("toxic", ("gay",)), "`--score` must name a column of scores"),
    "words": (TableOptions("verdict", ("gay",), ("b",)), r"as in `--label verdict=WORD`"),
    "short texts": (TableOptions("toxic", ("remark",), ("b",)), "at most 100 names of identities"),
    "a label of texts": (TableOptions("remark=r 1 is a remark", ("gay",), ("b",)), "holds words:"),
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
