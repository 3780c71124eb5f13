"""Two models on comments without labels, from the file to the sample."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from biasgate.cli import app

N = 600
FILE = {
    "name": "shadow",
    "comments": {
        "name": "site",
        "source": "table",
        "path": "site.csv",
        "text": "comment",
        "terms": ["gay", "deaf"],
    },
    "before": {"name": "old", "kind": "scores", "path": "old.csv", "threshold": 0.5},
    "after": {"name": "new", "kind": "scores", "path": "new.csv"},
    "margin": 0.05,
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    gay = rng.random(N) < 0.3
    text = np.where(gay, "a gay secretword", "a kind secretword")
    ids = [f"c{at}" for at in range(N)]
    old = rng.random(N)
    new = np.clip(old + rng.normal(0, 0.1, N) + 0.2 * gay, 0, 1)
    pd.DataFrame({"id": ids, "comment": text}).to_csv("site.csv", index=False)
    pd.DataFrame({"id": ids, "prediction": old}).to_csv("old.csv", index=False)
    pd.DataFrame({"id": ids, "prediction": new}).to_csv("new.csv", index=False)
    return tmp_path


def run(**changed):
    with open("shadow.yaml", "w", encoding="utf-8") as stream:  # noqa: PTH123
        yaml.safe_dump(FILE | changed, stream)
    done = CliRunner().invoke(app, ["shadow", "shadow.yaml", "--output", "out"])
    return done.exit_code, " ".join((done.output + done.stderr).split())


def report(home):
    return json.loads((home / "out" / "shadow.json").read_text("utf-8"))


def test_the_successor_flags_as_many_and_one_identity_more(home):
    code, text = run()
    assert code == 0, text
    flags = report(home)["flags"]
    assert flags["overall"]["n_before"] == flags["overall"]["n_after"]
    assert flags["subgroups"]["gay"]["change"]["low"] > 0
    assert flags["subgroups"]["deaf"]["n"] == 0
    assert "gay: " in text
    assert "secretword" not in text


def test_a_threshold_of_its_own_is_kept(home):
    assert run(after=FILE["after"] | {"threshold": 0.9})[0] == 0
    assert report(home)["flags"]["after"] == 0.9


def test_the_sample_has_ids_and_weights_and_no_texts(home):
    run()
    sample, scores = pd.read_csv("out/sample.csv"), pd.read_csv("out/scores.csv")
    assert list(sample.columns) == ["id", "weight", "stratum", "before", "after"]
    assert sample["weight"].sum() == pytest.approx(N)
    assert sample["id"].is_unique
    joined = sample.merge(scores, on="id")
    assert (joined["before_x"] == joined["before_y"]).all()
    flags = report(home)["flags"]
    apart = sample[sample["stratum"] == "only_after"]
    assert (apart["after"] >= flags["after"]).all()
    assert (apart["before"] < flags["before"]).all()
    assert "secretword" not in (home / "out" / "shadow.json").read_text("utf-8")


def test_comments_without_a_score_are_left_out_and_counted(home):
    old = pd.read_csv("old.csv")
    old.loc[:9, "prediction"] = np.nan
    old.to_csv("old.csv", index=False)
    code, text = run(before=FILE["before"] | {"allow_missing": True})
    assert code == 0, text
    assert f"{N - 10} of {N} comments have a score of both models." in text
    assert report(home)["n_compared"] == N - 10
    assert pd.read_csv("out/scores.csv")["before"].isna().sum() == 10


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"before": FILE["after"] | {"name": "old"}}, "`before` must have the `threshold`"),
        ({"after": FILE["before"]}, "names of `before` and `after` must differ"),
        ({"margin": 0}, "margin"),
        ({"surprise": 1}, "surprise"),
        ({"comments": FILE["comments"] | {"text": "nothing"}}, "nothing"),
        ({"comments": FILE["comments"] | {"weight": "id"}}, "must have no `weight`"),
        ({"after": FILE["after"] | {"path": "absent.csv"}}, "absent.csv"),
        (
            {"after": {"name": "s", "kind": "http", "url": "http://models.example/i"}},
            "add `sends_text_to: models.example`",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_scored(home, changed, message):
    code, text = run(**changed)
    assert code == 2, text
    assert message in text
    assert not (home / "out" / "shadow.json").exists()


def test_ids_that_one_model_lacks_are_told(home):
    del home
    pd.read_csv("new.csv")[5:].to_csv("new.csv", index=False)
    code, text = run()
    assert code == 2
    assert "5 of the set have no score" in text


def test_no_comment_with_both_scores_is_told(home):
    del home
    nothing = pd.read_csv("old.csv").assign(prediction=np.nan)
    nothing.to_csv("old.csv", index=False)
    old = FILE["before"] | {"allow_missing": True, "allow_two_valued": True}
    code, text = run(before=old)
    assert code == 2
    assert "no comment of 'site' has a score of both models" in text
