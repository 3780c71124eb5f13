"""Evaluations on new rows every night: judged by all of them, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from support.evaluations import run

pytestmark = pytest.mark.slow
POLICY = """\
version: 1
name: fresh
allow_first: true
rules:
  - {metric: auc, scope: overall, floor: 0.75, margin: 0.05}
  - {metric: bpsn_auc, scope: [gay], floor: 0.5, min_negatives: 60}
"""
FILE = """\
name: fresh
registered_model: toxicity
evaluation_sets:
  - name: comments
    source: table
    path: tonight.csv
    text: text
    identities: [gay]
    cluster: thread
    pool_nights: {rows: 600}
candidates:
  - name: words
    kind: tfidf
    train_on: {name: training, source: table, path: train.csv, text: text, identities: [gay]}
policy: fresh.yaml
"""
WORDS = {True: ["awful", "stupid", "vile", "house"], False: ["kind", "warm", "gentle", "street"]}


def write_rows(path, number, n=200):
    """Comments of one night in threads that go on for several nights."""
    rng = np.random.default_rng(number)
    label, gay = rng.random(n) < 0.5, rng.random(n) < 0.4
    texts = [
        " ".join([*rng.choice(WORDS[bool(one != (rng.random() < 0.1))], 3), f"x{number}y{row}"])
        for row, one in enumerate(label)
    ]
    columns = {"id": [f"{number}-{row}" for row in range(n)], "label": label.astype(int)}
    columns |= {
        "gay": gay.astype(int),
        "text": texts,
        "thread": [f"t{row // 2}" for row in range(n)],
    }
    pd.DataFrame(columns).to_csv(path, index=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """Six nights, of which the second was evaluated twice."""
    del prefect_server
    folder = tmp_path_factory.mktemp("nights")
    write_rows(folder / "train.csv", 0, n=400)
    (folder / "fresh.yaml").write_text(POLICY)
    (folder / "evaluation.yaml").write_text(FILE)
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        for number in (1, 2, 2, 3, 4, 5, 6):
            write_rows("tonight.csv", number)
            told.append(run("evaluate", "evaluation.yaml", "--output", f"out{len(told)}"))
        yield folder, told


def verdict(home, at):
    folder, _ = home
    return json.loads((folder / f"out{at}/comments/words/verdict.json").read_text())


def test_a_version_is_judged_by_the_rows_of_all_nights(home):
    nights = [verdict(home, at)["nights"] for at in range(7)]
    told = [(one["number"], one["n_rows"]) for one in nights]
    assert told == [(1, 200), (2, 400), (2, 400), (3, 600), (4, 800), (5, 1000), (6, 1200)]
    _, results = home
    assert [code for code, _ in results] == [4, 4, 4, 4, 4, 0, 0]


def test_a_thread_of_several_nights_is_one_cluster(home):
    [result, *_] = verdict(home, 5)["results"]
    assert result["n_clusters"] <= 100


def test_the_command_says_which_night_it_is(home):
    _, results = home
    assert "night 1 (the version had no verdict on this set), 200 rows in all" in results[0][1]
    assert "night 5, 1,000 rows in all" in results[5][1]


def test_the_report_is_of_the_last_night_alone(home):
    folder, _ = home
    report = json.loads((folder / "out5/comments/words/report.json").read_text())
    assert report["bias"]["overall"]["n"] == 200


def test_the_terminal_shows_the_numbers_of_all_nights_like_the_verdict(home):
    folder, results = home
    [auc, *_] = verdict(home, 5)["results"]
    title = f"1,000 rows of 5 nights, {auc['n_positive']} positive, AUC {auc['value']:.3f}"
    assert title in run("show", folder / "out5", "--all")[1]
    assert "Night 5: judged by the 1,000 rows of all nights." in results[5][1]
    assert "200 rows, " in run("show", folder / "out0", "--all")[1]


def test_the_page_says_what_is_of_the_last_night_alone(home):
    folder, _ = home
    page = (folder / "out5/report.html").read_text("utf-8")
    assert "(last night alone)" in page
    worst = [line for line in run("show", folder / "out5")[1].splitlines() if "worst" in line]
    assert worst
    assert not [line for line in worst if "last night alone" in line]


def test_the_first_nights_say_that_nobody_knows_how_nights_differ(home):
    _, results = home
    early, late = (" ".join(results[number][1].split()) for number in (2, 5))
    assert "how much nights differ is not known before night 5" in early
    assert "too few comments" not in early
    assert "how much nights differ" not in late


def test_the_verdict_verifies(home):
    del home
    code, text = run("verify", "toxicity")
    assert "recomputing the verdict on comments gives the same one (pass)" in text
    assert code == 0


def test_rows_of_an_earlier_night_end_the_evaluation(home):
    del home
    write_rows("tonight.csv", 1, n=210)
    code, text = run("evaluate", "evaluation.yaml", "--output", "again")
    assert code == 2
    assert "200 of tonight's 210 were in the 6 nights before" in text
    assert "scoring" not in text
