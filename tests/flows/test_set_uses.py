"""A set counts each candidate once, even if it is judged again."""

import json

import numpy as np
import pytest
from support.evaluations import FILE, frame, run, write_inputs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """Evaluations of a first version, and of a worse version that is judged twice."""
    del prefect_server
    folder = write_inputs(tmp_path_factory.mktemp("uses"))
    rows = frame()
    rows["prediction"] = np.random.default_rng(3).random(len(rows))
    rows[["id", "prediction"]].to_csv(folder / "noise.csv", index=False)
    (folder / "noise.yaml").write_text(
        FILE.replace("scores.csv", "noise.csv").replace("name: file", "name: noise")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        runs = [
            run("evaluate", f"{name}.yaml", "--output", f"out{at}")
            for at, name in enumerate(["file", "noise", "noise"])
        ]
        yield folder, runs


def test_the_summary_has_the_uses_of_the_set_and_the_size_of_the_store(home):
    folder, runs = home
    assert [code for code, _ in runs] == [0, 3, 3]
    summaries = [json.loads((folder / f"out{at}/summary.json").read_text()) for at in range(3)]
    assert [summary["sets"][0]["n_candidates"] for summary in summaries] == [1, 2, 2]
    assert "rows has judged 2 candidates so far." in runs[1][1]
    sizes = summaries[-1]["store"]
    assert sizes["total"] > sizes["sets"] > 0


def test_the_verdicts_hold(home, monkeypatch):
    monkeypatch.chdir(home[0])
    assert run("verify", "toxicity")[0] == 0


def test_a_registered_set_and_its_scores_are_never_cleaned(home, monkeypatch):
    monkeypatch.chdir(home[0])
    code, printed = run("clean", "--keep", "1d")
    assert code == 0
    assert "2 that a ledger refers to" in printed
