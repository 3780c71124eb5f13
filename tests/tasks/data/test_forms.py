"""Values in unexpected forms: read correctly, or refused with a remedy."""

import csv
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import freeze_table, table_source

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.common.yaml_files import load_yaml
from biasgate.tasks.counting.settings import CountFile
from biasgate.tasks.counting.shards import count_scores
from biasgate.tasks.data.freezing import freeze_source
from biasgate.tasks.data.identity_names import check_identity_names
from biasgate.tasks.data.plain_columns import normalize_value, suggest_id_form
from biasgate.tasks.data.scores import ScoreColumns
from biasgate.tasks.evidence.choose import choose_rows
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

N = 12
ROWS = pd.DataFrame(
    {
        "id": range(N),
        "text": [f"words {n}" for n in range(N)],
        "label": [0.2, 0.9] * (N // 2),
        "gay": [0, 1, 1] * (N // 3),
    }
)


make_source, freeze_rows = partial(table_source, text="text"), partial(freeze_table, text="text")


WRONG = {
    "labels of -1": (
        {"label": [-1, 0, 1] * 4},
        '`{"-1": null}` if -1 means unlabelled.',
    ),
    "an identity as a count": ({"gay": [0, 3, 1] * 4}, "in pandas `(t['gay'] > 0).astype(int)`."),
    "an identity in percent": ({"gay": [0, 50, 100] * 4}, "Divide percentages by 100."),
    "an identity of -1": ({"gay": [0, -1, 1] * 4}, "Leave unrated cells empty."),
    "other words": ({"gay": ["da", "njet"] * 6}, "`t['gay'].map({'da': ..., 'njet': ...})`."),
    "a single word": ({"gay": ["da", ""] * 6}, "`t['gay'].map({'da': ...})`. Empty cells count as"),
    "percent signs": ({"gay": ["50%", "0%"] * 6}, ".str.rstrip('%').astype(float)`; divide"),
    "a total": ({"gay": [0, 1] * 5 + [1, 5]}, "It is the last row read: if it is a total, remove"),
    "thousands": ({"label": ["0.1", "1,000.0"] * 6}, "without thousands separators"),
    "decimal commas": ({"label": ["9,4e-01", "0,5"] * 6}, 'Set `decimal: ","`, or write decimals'),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_another_form_is_refused_with_a_remedy(tmp_path, name):
    columns, remedy = WRONG[name]
    with pytest.raises(InputError) as error:
        freeze_rows(tmp_path, ROWS.assign(**columns))
    assert remedy in str(error.value)
    assert "names: [...]" not in str(error.value)


@pytest.mark.parametrize(("yes", "no"), [("yes", "no"), ("Oui", "non"), ("JA", "Nein"), ("x", 0)])
def test_words_for_a_mention_are_read(tmp_path, yes, no):
    rows = freeze_rows(tmp_path, ROWS.assign(gay=[yes, no, ""] * (N // 3)))
    assert rows.column("identity/gay").to_pylist() == [1.0, 0.0, None] * (N // 3)


def test_a_thousands_separator_is_not_called_a_decimal_point(tmp_path):
    rows = ROWS.assign(label=["0,1", "1.000,0"] * (N // 2))
    with pytest.raises(InputError, match="must be without thousands separators"):
        freeze_rows(tmp_path, rows, decimal=",")


def test_an_empty_identity_is_named(tmp_path):
    rows = freeze_rows(tmp_path, ROWS.assign(tall=None), identities=["gay", "tall"])
    settings = make_source(tmp_path / "t.csv", identities=["gay", "tall"])
    with pytest.raises(InputError, match=r"the column of 'tall' is empty. Remove it from"):
        choose_rows(rows, settings)
    assert choose_rows(rows, settings.model_copy(update={"identity_rows": "all"}))[2].n_rows == N


# Lines


@pytest.mark.parametrize("line_break", ["\r", "\n", "\r\n"])
@pytest.mark.parametrize(
    "columns", [["id", "text", "label", "gay"], ["id", "label", "gay", "text"]]
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_line_break_in_a_text_without_quotes_is_named(tmp_path, line_break, columns, ending):
    rows = ROWS.assign(text=["a secret", *ROWS["text"][1:]])[columns]
    text = rows.to_csv(index=False, lineterminator=ending).replace(
        "a secret", f"a{line_break}secret"
    )
    (tmp_path / "t.csv").write_text(text, newline="")
    with pytest.raises(InputError) as error:
        freeze_source(make_source(tmp_path / "t.csv"), tmp_path / "store")
    assert f"{'row 0 has 2' if columns[1] == 'text' else 'row 1 has 1'} field" in str(error.value)
    assert "quoting=csv.QUOTE_NONNUMERIC" in str(error.value)
    assert "secret" not in str(error.value)


def test_the_remedy_for_torn_rows_works(tmp_path):
    rows = ROWS.assign(text=["a\rb", "a\nb", "a\r\nb", *ROWS["text"][3:]])
    rows.to_csv(tmp_path / "t.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    frozen = freeze_source(make_source(tmp_path / "t.csv"), tmp_path / "store")
    assert frozen.column("text").to_pylist() == rows["text"].tolist()


def test_a_torn_row_whose_pieces_could_be_rows_is_refused(tmp_path):
    # Without the check, "1" would be the label of a comment with the id "b".
    (tmp_path / "t.csv").write_text("id,label,text,gay\n1,0,x,1\n2,0.5,a\nb,1\n3,1,y,1\n")
    with pytest.raises(InputError, match="row 1 has 3 fields, the header 4"):
        freeze_source(make_source(tmp_path / "t.csv"), tmp_path / "store")


def test_empty_cells_at_the_end_are_no_torn_rows(tmp_path):
    rows = freeze_rows(tmp_path, ROWS.assign(gay=[None] + [0, 1] * 5 + [None]))
    assert rows.n_rows == N


# Numbers


@pytest.mark.parametrize("form", ["{:.3f}", "{:.5e}"])
def test_decimal_commas_are_read_where_they_are_announced(tmp_path, form):
    comma = ROWS["label"].map(lambda value: form.format(value).replace(".", ","))
    rows = ROWS.assign(label=comma, score=comma)
    frozen = freeze_rows(tmp_path, rows, decimal=",")
    assert frozen.column("label").to_pylist() == ROWS["label"].tolist()
    columns = ScoreColumns(score="score", decimal=",")
    scores = columns.read_scores(tmp_path / "t.csv", allow_missing=False)
    assert scores.tolist() == ROWS["label"].tolist()
    mixed = rows.assign(label=["0.5", *comma[1:]])
    with pytest.raises(InputError, match="must have a decimal comma, not a point"):
        freeze_rows(tmp_path, mixed, decimal=",")


# Labels


@pytest.mark.parametrize("missing", [-1, -1.0, "-1"])
@pytest.mark.parametrize("values", [{"-1": None}, {"-1": None, "0": 0, "1": 1}])
def test_rows_without_a_label_are_left_out_and_counted(tmp_path, missing, values):
    rows = ROWS.assign(label=[missing, 0, 1] * 4)
    frozen = freeze_rows(tmp_path, rows, label_values=values)
    assert frozen.column("id").to_pylist() == [str(n) for n in range(N) if n % 3]
    assert frozen.column("label").to_pylist() == [0.0, 1.0] * 4
    assert frozen.n_unlabelled == 4
    choices = choose_rows(frozen, make_source(tmp_path / "t.csv", label_values=values))[2]
    assert (choices.n_rows, choices.n_rows_unlabelled) == (8, 4)


def test_of_several_labels_one_that_is_missing_leaves_the_row_out(tmp_path):
    rows = ROWS.assign(insult=[-1, 0, 1] * 4, threat=[1, 0, 0] * 4)
    values = {"label": ["insult", "threat"], "label_values": {"-1": None}}
    frozen = freeze_rows(tmp_path, rows, **values)
    assert frozen.column("label").to_pylist() == [0.0, 1.0] * 4


def test_other_labels_are_checked_as_ever(tmp_path):
    with pytest.raises(InputError, match=r"must be in \[0, 1\]; got -2.*row 1, id 1"):
        freeze_rows(tmp_path, ROWS.assign(label=[-1, -2, 1] * 4), label_values={"-1": None})
    with pytest.raises(InputError, match=r"got nothing .*row 1, id 1"):
        freeze_rows(tmp_path, ROWS.assign(label=[-1, None, 1] * 4), label_values={"-1": None})


def test_scores_of_all_rows_fit_a_set_without_the_unlabelled_ones(tmp_path):
    rows = freeze_rows(tmp_path, ROWS.assign(label=[-1, 0, 1] * 4), label_values={"-1": None})
    scores = pd.DataFrame({"id": range(N), "prediction": np.arange(N) / N})

    def score_table(table):
        table.to_csv(tmp_path / "scores.csv", index=False)
        options = {"name": "m", "kind": "scores", "path": tmp_path / "scores.csv"}
        candidate = CANDIDATES.validate_python(options)
        with candidate.open(None) as scorer:
            scorer.check(rows)
            return score_rows(scorer, rows, candidate, str(tmp_path / "scores"))

    assert score_table(scores).table()["score"].to_pylist() == [n / N for n in range(N) if n % 3]
    assert score_table(scores[scores["id"] % 3 > 0]).record.n_rows == 8
    with pytest.raises(InputError, match="3 have a score but are not in the set"):
        score_table(scores[scores["id"] > 0])


def test_counts_leave_unlabelled_rows_out_too(tmp_path):
    ROWS.assign(label=[-1, 0, 1] * 4, s=np.arange(N) / N).to_csv(tmp_path / "a.csv", index=False)
    content = {"name": "c", "source": "shards", "path": str(tmp_path / "a.csv"), "label": "label"}
    content |= {"identities": ["gay"], "candidate": {"name": "m", "score": "s"}}
    content |= {"label_values": {"-1": None}}
    counts = count_scores(CountFile.model_validate(content), tmp_path / "a.csv")
    [shard] = counts.record.shards
    assert (shard.n_rows, shard.n_unlabelled) == (8, 4)


@pytest.mark.parametrize(
    ("written", "values", "key"),
    [("Yes", "No", "{Yes: 1, No: 0}"), ("on", "off", "{on: 1, off: 0}"), (1, 2, "{1: 1, 2: 0}")],
)
def test_keys_of_yaml_mean_what_is_written(tmp_path, written, values, key):
    rows = ROWS.assign(label=[written, values] * 6)
    frozen = freeze_rows(tmp_path, rows, **load_yaml(f"label_values: {key}"))
    assert frozen.column("label").to_pylist() == [1.0, 0.0] * 6


@pytest.mark.parametrize("form", [(1.0, 0.0), ("1.0", "0.0"), (True, False), ("TRUE", "FALSE")])
def test_values_of_labels_are_known_in_every_form(tmp_path, form):
    key = "{true: 1, false: 0}" if form[0] is True or form[0] == "TRUE" else "{1: 1, 0: 0}"
    rows = ROWS.assign(label=list(form) * 6)
    frozen = freeze_rows(tmp_path, rows, **load_yaml(f"label_values: {key}"))
    assert frozen.column("label").to_pylist() == [1.0, 0.0] * 6


# Names and ids


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("identity_columns", "identities"),
        ("identity_column", "identities"),
        ("text_column", "text"),
        ("label_col", "label"),
    ],
)
def test_a_key_of_another_program_suggests_ours(given, known):
    with pytest.raises(ValueError, match=f"unknown key. Did you mean '{known}'?"):
        make_source("t.csv", **{given: "x"})


@pytest.mark.parametrize(
    "names",
    [
        ("Zoë", "Zoe\u0308"),
        ("gay", "gay\u200b"),
        ("gay", "ga\u00ady"),
        ("gay", "\ufeffgay"),
        ("gay", "\uff47\uff41\uff59"),
        ("a b", "a\u00a0b"),
    ],
)
def test_names_that_look_the_same_are_refused(names):
    with pytest.raises(ValueError, match="are the same text in Unicode, or differ by invisible"):
        check_identity_names(names)
    check_identity_names(["gay", "Gay", "größe", "grösse"])


def test_a_name_in_a_cell_is_known_in_every_normal_form(tmp_path):
    rows = ROWS.assign(groups=["Zoe\u0308", "other"] * 6)
    named = {"column": "groups", "names": ["zoë"]}
    frozen = freeze_rows(tmp_path, rows, identities=named)
    assert frozen.column("identity/zoë").to_pylist() == [1.0, 0.0] * 6


WHOLE, AGAIN, ALIKE = "without `.0`", "read as text", "Write ids in the same form in both files."
PAIRS = [
    ("7097858", "7097858.0", WHOLE),
    ("007029192", "7029192.0", WHOLE),
    ("007029192", "7029192", AGAIN),
    ("7097858", "7.097858e+06", AGAIN),
    ("c1", "C1", ALIKE),
    ("c1", " c1 ", ALIKE),
    ("c1", '"c1"', ALIKE),
    ("c1", "c1\u200b", ALIKE),
]


@pytest.mark.parametrize(
    ("in_set", "in_file", "cure"), [*PAIRS, *((b, a, cure) for a, b, cure in PAIRS)]
)
def test_ids_that_differ_in_their_form_alone_are_said_to(tmp_path, in_set, in_file, cure):
    rows = freeze_rows(tmp_path, ROWS.assign(id=[in_set, *(f"x{n}" for n in range(1, N))]))
    ids = [in_file, *(f"x{n}" for n in range(1, N))]
    scores = pd.DataFrame({"id": ids, "prediction": np.arange(N) / N})
    scores.to_csv(tmp_path / "scores.csv", index=False)
    options = {"name": "m", "kind": "scores", "path": tmp_path / "scores.csv"}
    with (
        CANDIDATES.validate_python(options).open(None) as scorer,
        pytest.raises(InputError, match="Some ids differ only in their form, as ") as error,
    ):
        scorer.check(rows)
    assert cure in str(error.value)


def test_other_ids_get_no_hint_about_their_form():
    assert suggest_id_form(["1", "a"], ["2", "b"]) == ""


@given(st.integers(-(10**15), 10**15), st.integers(0, 3), st.integers(0, 3))
def test_all_forms_of_a_whole_number_are_one(number, n_before, n_after):
    sign = "-" if number < 0 else ""
    text = f"{sign}{'0' * n_before}{abs(number)}"
    assert normalize_value(f" {text}{'.' * bool(n_after)}{'0' * n_after} ") == str(number)
    assert normalize_value(f"{number}.5") != normalize_value(str(number))


class Mapped(Settings):
    names: dict[str, int]


def test_every_key_of_yaml_is_text():
    content = load_yaml("names: {no: 1, 2: 2, 3.0: 3, ~: 4, 2026-01-01: 5, 'x': 6}")
    assert list(Mapped.model_validate(content).names) == ["no", "2", "3.0", "~", "2026-01-01", "x"]
