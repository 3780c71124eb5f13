"""What an evaluation file must say where a set pools the rows of nights."""

import pytest
from support.evaluations import change

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.reading_evaluation import read_evaluation

FILE = """\
name: fresh
registered_model: toxicity
evaluation_sets:
  - name: comments
    source: table
    path: tonight.csv
    identities: [gay]
    text: text
    cluster: thread
    pool_nights: {rows: 600}
candidates:
  - {name: challenger, kind: mlflow, model: models:/toxicity@challenger}
reference: {name: fixed, kind: mlflow, model: models:/other/1}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tonight.csv").write_text("id,label,gay,text,thread,score\n1,0,1,a,t,.5\n")
    (tmp_path / "file.yaml").write_text(FILE)
    return tmp_path / "file.yaml"


def test_versions_of_the_registered_model_may_be_judged_by_pooled_nights(file):
    [source] = read_evaluation(file).evaluation_sets
    assert source.pool_nights.rows == 600


def test_a_candidate_that_is_trained_here_becomes_a_version(file):
    trained = "{name: words, kind: tfidf, train_on: {name: t, source: table, path: tonight.csv, "
    trained += "text: text, identities: [gay]}}"
    change(
        "file.yaml", "{name: challenger, kind: mlflow, model: models:/toxicity@challenger}", trained
    )
    assert read_evaluation(file).candidates[0].training() is not None


def test_other_sets_may_be_judged_without(file):
    change("file.yaml", "    pool_nights: {rows: 600}\n", "")
    change("file.yaml", "registered_model: toxicity\n", "")
    assert read_evaluation(file).evaluation_sets[0].pool_nights is None


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("registered_model: toxicity\n", "", "`pool_nights`, which needs `registered_model`"),
        (
            "candidates:\n",
            "candidates:\n  - {name: file, kind: scores, path: tonight.csv, score: score}\n",
            "candidates must be versions of toxicity; candidate file is none",
        ),
        ("models:/toxicity@", "models:/toxicity2@", "candidate challenger is none"),
        (
            "{name: fixed, kind: mlflow, model: models:/other/1}",
            "{name: fixed, kind: scores, path: tonight.csv, score: score}",
            "`reference` must be a registered version; fixed is none",
        ),
        ("path: tonight.csv\n", "path: tonight.csv\n    id: row_number\n", "`id: row_number`"),
        (
            "cluster: thread\n",
            "cluster: thread\n    population: these_rows\n",
            "`pool_nights` is for comments that are new every night",
        ),
        ("{rows: 600}", "{rows: 0}", "pool_nights.rows"),
        ("{rows: 600}", "600", "pool_nights"),
    ],
)
def test_what_cannot_be_pooled_is_refused(file, old, new, text):
    change("file.yaml", old, new)
    with pytest.raises(InputError, match=text):
        read_evaluation(file)
