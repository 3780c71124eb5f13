"""A set with the comments of the last nights, kept by the function in the guide."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.blocks import blocks_of
from support.evaluations import run

pytestmark = pytest.mark.slow
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "nightly.md"
POLICY = """\
version: 1
name: fresh
allow_first: true
rules:
  - {metric: auc, scope: overall, floor: 0.75}
  - {metric: bpsn_auc, scope: [gay], floor: 0.5}
"""
FILE = """\
name: fresh
evaluation_sets:
  - name: last_nights
    source: table
    path: last-nights.csv
    text: text
    identities: [gay]
    cluster: day
candidates: [{name: file, kind: scores, path: last-nights.csv, score: score}]
policy: fresh.yaml
"""


def write_night(number, n=30):
    """Write the comments of a night, with scores that share a shift."""
    rng = np.random.default_rng(number)
    label = np.arange(n) % 2
    shift = 0.3 * rng.standard_normal()
    columns = {
        "id": [f"{number}-{row}" for row in range(n)],
        "label": label,
        "gay": (rng.random(n) < 0.5).astype(int),
        "text": "a comment",
        "score": 1 / (1 + np.exp(-3 * label - rng.standard_normal(n) - shift)),
    }
    pd.DataFrame(columns).to_csv("tonight.csv", index=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """22 nights with the last 21 kept, evaluated at nights 19, 20 and 22."""
    del prefect_server
    [block] = [block for block in blocks_of(GUIDE) if "def keep_nights" in block.content]
    names = {}
    exec(block.content, names)  # noqa: S102 - the guide's own code
    keep_nights = names["keep_nights"]
    folder = tmp_path_factory.mktemp("nights")
    (folder / "fresh.yaml").write_text(POLICY)
    (folder / "evaluation.yaml").write_text(FILE)
    codes = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        for number in range(1, 23):
            write_night(number)
            keep_nights("tonight.csv", "last-nights.csv", f"2026-11-{number:02d}", n_nights=21)
            if number in {19, 20, 22}:
                codes[number], _ = run("evaluate", "evaluation.yaml", "--output", f"out{number}")
        keep_nights("tonight.csv", "last-nights.csv", "2026-11-22", n_nights=21)
        yield folder, codes


def auc_check(home, number):
    path = home[0] / f"out{number}" / "last_nights" / "file" / "verdict.json"
    return json.loads(path.read_text())["results"][0]


def test_the_last_nights_are_kept_and_a_night_that_is_added_again_counts_once(home):
    kept = pd.read_csv(home[0] / "last-nights.csv")
    assert kept["day"].nunique() == 21
    assert kept["day"].min() == "2026-11-02"
    assert (len(kept), kept["id"].is_unique) == (21 * 30, True)


def test_with_fewer_than_20_nights_there_is_not_enough_evidence(home):
    _, codes = home
    assert codes == {19: 4, 20: 0, 22: 0}
    assert auc_check(home, 19)["why"] == "19 clusters where 20 are needed"


def test_nights_are_the_clusters_of_the_bounds(home):
    assert [auc_check(home, number)["n_clusters"] for number in (20, 22)] == [20, 21]


def test_an_id_of_an_earlier_night_ends_the_evaluation(home, monkeypatch):
    monkeypatch.chdir(home[0])
    rows = pd.read_csv("last-nights.csv")
    rows.assign(id=["2-0", *rows["id"][:-1]]).to_csv("last-nights.csv", index=False)
    code, text = run("evaluate", "evaluation.yaml", "--output", "again")
    assert (code, "2-0" in text) == (2, True)
