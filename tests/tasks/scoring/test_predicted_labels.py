"""Exports of text classifiers, with the score of the predicted label, are noticed and read."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.scores import ScoreColumns
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.model_answers import extract_scores

TOXIC = np.array([0.1, 0.9, 0.35, 0.62, 0.5, 0.05, 0.77, 0.2, 0.99, 0.4, 0.3, 0.8])
IDS = [f"c{n}" for n in range(len(TOXIC))]
LABELS = np.where(TOXIC >= 0.5, "toxic", "fine")
CERTAINTY = np.maximum(TOXIC, 1 - TOXIC)
FLAT = pd.DataFrame({"id": IDS, "label": LABELS, "score": CERTAINTY})
BY_LABEL = {"score": "score", "label": "label", "positive_label": "toxic"}


def read_scores(path, **columns):
    return ScoreColumns(**columns).read_scores(path, allow_missing=False)


def write_lines(path, values):
    rows = [{"id": key, "prediction": value} for key, value in zip(IDS, values, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def make_pairs():
    """Return each label with its score, in the form of `top_k=None`."""
    return [
        [{"label": "fine", "score": 1 - score}, {"label": "toxic", "score": score}]
        for score in TOXIC
    ]


def make_predictions():
    return [{"label": row.label, "score": row.score} for row in FLAT.itertuples()]


WRITERS = {
    "CSV": lambda path: FLAT.to_csv(path.with_suffix(".csv"), index=False),
    "JSON lines": lambda path: FLAT.to_json(
        path.with_suffix(".jsonl"), orient="records", lines=True
    ),
    "Parquet": lambda path: FLAT.to_parquet(path.with_suffix(".parquet")),
    "codes": lambda path: FLAT.assign(label=(FLAT["label"] == "toxic").astype(int)).to_csv(
        path.with_suffix(".csv"), index=False
    ),
    "true and false": lambda path: FLAT.assign(label=FLAT["label"] == "toxic").to_parquet(
        path.with_suffix(".parquet")
    ),
}


@pytest.mark.parametrize("form", WRITERS)
def test_scores_of_predicted_labels_are_noticed_and_read_by_their_label(tmp_path, form):
    WRITERS[form](tmp_path / "scores")
    path = next(tmp_path.iterdir())
    with pytest.raises(InputError) as error:
        read_scores(path, score="score")
    said = str(error.value)
    assert "scores of the predicted label" in said
    assert "Set `label: label`, and `positive_label` to the label that means toxic." in said
    positive = {"codes": 1, "true and false": True}.get(form, "toxic")
    found = read_scores(path, **BY_LABEL | {"positive_label": positive})
    assert found.index.tolist() == IDS
    np.testing.assert_allclose(found, TOXIC, rtol=0, atol=1e-15)


NESTED = {
    "all labels": make_pairs,
    "all labels in two lists": lambda: [[each] for each in make_pairs()],
    "the first label": lambda: [[top] for top in make_predictions()],
    "one object": make_predictions,
}


@pytest.mark.parametrize("form", NESTED)
def test_nested_labels_are_read_by_their_label(tmp_path, form):
    path = write_lines(tmp_path / "scores.jsonl", NESTED[form]())
    with pytest.raises(
        InputError, match=r"Set `positive_label` to the label that means toxic .'fine' or 'toxic'."
    ):
        read_scores(path)
    np.testing.assert_allclose(read_scores(path, positive_label="toxic"), TOXIC, rtol=0, atol=1e-15)
    table = pa.table({"id": IDS, "prediction": NESTED[form]()})
    pq.write_table(table, tmp_path / "scores.parquet")
    found = read_scores(tmp_path / "scores.parquet", positive_label="toxic")
    np.testing.assert_allclose(found, TOXIC, rtol=0, atol=1e-15)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_whatever_the_export_the_score_is_that_of_the_toxic_label(tmp_path_factory, scores):
    path = tmp_path_factory.mktemp("one") / "scores.csv"
    toxic = np.array(scores)
    table = pd.DataFrame({"id": range(len(toxic)), "score": np.maximum(toxic, 1 - toxic)})
    table["label"] = np.where(toxic >= 0.5, "toxic", "fine")
    table.loc[len(toxic)] = [len(toxic), 1.0, "toxic"]
    table.to_csv(path, index=False)
    np.testing.assert_allclose(read_scores(path, **BY_LABEL)[:-1], toxic, rtol=0, atol=1e-15)


THREE = FLAT.assign(label=["spam", *LABELS[1:]])
WRONG = {
    "a third label": (
        THREE,
        {},
        "predicted labels must be two; in addition to 'toxic' there are 'fine' and 'spam'",
    ),
    "a misspelt label": (
        FLAT,
        {"positive_label": "toxik"},
        "no row has 'toxik', the labels are 'fine' and 'toxic'",
    ),
    "a missing label": (
        FLAT.assign(label=[None, *LABELS[1:]]),
        {},
        "a score must have a label (file {path}, column label, row 0, id c0)",
    ),
    "a logit": (
        FLAT.assign(score=[2.5, *CERTAINTY[1:]]),
        {},
        "must be from 0 to 1; got 2.5 (file {path}, column score, row 0, id c0)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_two_labels_cannot_be_is_refused_with_its_place(tmp_path, name):
    table, options, message = WRONG[name]
    path = tmp_path / "scores.csv"
    table.to_csv(path, index=False)
    with pytest.raises(InputError) as error:
        read_scores(path, **BY_LABEL | options)
    assert message.format(path=path) in str(error.value)


def test_of_several_labels_one_must_be_the_positive_one(tmp_path):
    values = [*make_pairs()[:-1], [{"label": "a", "score": 0.5}, {"label": "b", "score": 0.5}]]
    path = write_lines(tmp_path / "scores.jsonl", values)
    with pytest.raises(InputError, match=r"several labels must include .*row 11, id c11"):
        read_scores(path, positive_label="toxic")


def test_lists_in_the_text_of_a_csv_file_are_refused_with_what_to_write(tmp_path):
    FLAT.assign(prediction=[str(each) for each in make_pairs()]).to_csv(
        tmp_path / "a.csv", index=False
    )
    with pytest.raises(InputError, match=r"It holds lists or objects: write a single number"):
        read_scores(tmp_path / "a.csv")


def test_scores_of_the_toxic_class_beside_labels_are_read_as_they_are(tmp_path):
    path = tmp_path / "scores.csv"
    FLAT.assign(score=TOXIC).to_csv(path, index=False)
    assert read_scores(path, score="score").tolist() == TOXIC.tolist()
    FLAT.assign(score=CERTAINTY * 4).to_csv(path, index=False)
    assert read_scores(path, score="score").max() > 1
    FLAT.assign(label="en").to_csv(path, index=False)
    assert read_scores(path, score="score").min() >= 0.5


SHARES = np.random.default_rng(0).dirichlet([0.5] * 4, 60)


def make_export(names, shares=SHARES):
    """Return an export with the predicted label of several."""
    shares = shares[:, : len(names)] / shares[:, : len(names)].sum(1, keepdims=True)
    labels = np.array(names)[shares.argmax(1)]
    return pd.DataFrame({"id": range(len(labels)), "score": shares.max(1), "label": labels})


CLASSES = ["hate", "neutral", "offensive", "spam"]


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("label", CLASSES),
        ("predicted_label", ["ok", "kasar", "netral", "lain"]),
        ("class", [0, 1, 2, 3]),
        ("most_likely", CLASSES),
        ("most_likely", [f"LABEL_{at}" for at in range(4)]),
        ("most_likely", ["Not toxic", "Severely toxic", "Toxic", "Other"]),
    ],
)
def test_scores_of_one_of_several_predicted_labels_are_noticed(tmp_path, n, column, names):
    table = make_export(names[:n]).rename(columns={"label": column})
    assert 1 / n <= table["score"].min() < 0.5
    table.round(2).to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(InputError) as error:
        read_scores(tmp_path / "scores.csv", score="score")
    said = str(error.value)
    assert f"at least {1 / n:.2g}, and {column!r} has {n} labels, " in said
    assert all(repr(str(name)) in said for name in names[:n])
    assert "Write the score of the toxic label to a column of its own" in said
    assert f"leave column {column!r} out of the file" in said


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("language", ["en", "de", "fr", "it"]),
        ("category", ["news", "sports", "whatever", "arts"]),
        ("day", ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]),
        ("year", [2023, 2024, 2025, 2026]),
    ],
)
def test_other_columns_of_a_few_words_are_no_labels(tmp_path, column, names):
    table = make_export(names).rename(columns={"label": column})
    table.to_csv(tmp_path / "scores.csv", index=False)
    assert read_scores(tmp_path / "scores.csv", score="score").min() >= 0.25


@pytest.mark.parametrize(
    "scores", [SHARES[:, 0], 0.25 + SHARES[:, 0] / 4], ids=["below 1/k", "mostly below 0.5"]
)
def test_scores_of_the_toxic_class_beside_several_labels_are_read(tmp_path, scores):
    make_export(CLASSES).assign(score=scores).to_csv(tmp_path / "scores.csv", index=False)
    assert read_scores(tmp_path / "scores.csv", score="score").tolist() == scores.tolist()


def test_a_model_that_answers_with_one_of_several_labels_is_noticed():
    with pytest.raises(InputError, match=r"has 3 labels, .* in a column, and name it with"):
        extract_scores(make_export(CLASSES[:3])[["label", "score"]], "model m", output="score")


def test_missing_scores_may_have_no_label(tmp_path):
    path = tmp_path / "scores.csv"
    FLAT.assign(score=[None, *CERTAINTY[1:]], label=["", *LABELS[1:]]).to_csv(path, index=False)
    found = ScoreColumns(**BY_LABEL).read_scores(path, allow_missing=True)
    assert np.isnan(found.iloc[0])
    np.testing.assert_allclose(found[1:], TOXIC[1:], rtol=0, atol=1e-15)


def test_the_keys_belong_together(tmp_path):
    with pytest.raises(ValidationError, match="`label` needs `positive_label`"):
        ScoreColumns(label="label")
    FLAT.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match="`positive_label` needs `label`, the column of the"):
        read_scores(tmp_path / "a.csv", score="score", positive_label="toxic")
    options = {"name": "m", "kind": "scores", "path": tmp_path / "a.csv"} | BY_LABEL
    assert CANDIDATES.validate_python(options).opened_as()["read_by"] == {"id": "id"} | BY_LABEL


def test_a_model_that_answers_with_predicted_labels_is_noticed():
    table = FLAT[["label", "score"]]
    with pytest.raises(InputError, match="Name the label that means toxic: `label:` instead of"):
        extract_scores(table, "model m", output="score")
    np.testing.assert_allclose(extract_scores(table, "model m", label="toxic"), TOXIC, atol=1e-15)
    harmless = table.assign(score=TOXIC)
    assert extract_scores(harmless, "model m", output="score").tolist() == TOXIC.tolist()
