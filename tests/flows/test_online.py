"""Evaluations whose decisions the ledger counts over a year, and sets that are used again."""

import json

import numpy as np
import pytest
from support.evaluations import FILE, frame, run, write_inputs

from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway

pytestmark = pytest.mark.slow
POLICY = """\
version: 1
name: own
allow_first: true
promote: better
correction: online
online: {decisions: 10}
rules: [{metric: auc, scope: overall, floor: 0.6, margin: 0.1}]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """A first version; a worse one, which is judged twice; the first version again."""
    del prefect_server
    folder = write_inputs(tmp_path_factory.mktemp("online"))
    (folder / "own.yaml").write_text(POLICY)
    rows = frame()
    rows["prediction"] = np.random.default_rng(3).random(len(rows))
    rows[["id", "prediction"]].to_csv(folder / "noise.csv", index=False)
    (folder / "noise.yaml").write_text(
        FILE.replace("scores.csv", "noise.csv").replace("name: file", "name: noise")
    )
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        for at, name in enumerate(["file", "noise", "noise", "file"]):
            told.append(run("evaluate", f"{name}.yaml", "--output", f"out{at}"))
        yield folder, told


def read(home, at, name, file="verdict.json"):
    path = home[0] / f"out{at}"
    return json.loads((path / file if name is None else path / "rows" / name / file).read_text())


def test_each_decision_has_its_own_number_and_is_counted_once(home):
    folder, told = home
    assert [code for code, _ in told] == [0, 3, 3, 0]
    numbers = [
        read(home, at, name)["online"]["number"] for at, name in enumerate(["file", "noise"])
    ]
    assert numbers == [1, 2]
    assert read(home, 2, "noise")["online"] == read(home, 1, "noise")["online"]
    ledger = Ledger(Gateway.of_store(folder / ".biasgate"), "toxicity")
    spent = [one.content.spent for one in ledger.entries() if one.content.action == "spent"]
    assert [[one.number for one in of_entry] for of_entry in spent] == [[1], [2]]


def test_the_champion_judged_again_is_no_decision(home):
    assert "online" not in read(home, 3, "file")


def test_terminal_page_and_card_say_which_decision_it_is(home):
    folder, _ = home
    words = "(10 are planned): a candidate that is not good enough passes it"
    assert words in run("show", folder / "out0", "--all")[1]
    for file in ("report.html", "rows/file/model_card.md"):
        assert words in " ".join((folder / "out0" / file).read_text("utf-8").split())


def test_the_summary_says_how_often_the_set_was_used_and_how_large_the_store_is(home):
    uses = [read(home, at, None, "summary.json")["sets"][0]["n_candidates"] for at in range(4)]
    assert uses == [1, 2, 2, 2]
    assert "rows has judged 2 candidates so far." in home[1][1][1]
    sizes = read(home, 3, None, "summary.json")["store"]
    assert sizes["total"] > sizes["sets"] > 0


def test_the_verdicts_hold(home, monkeypatch):
    monkeypatch.chdir(home[0])
    assert run("verify", "toxicity")[0] == 0


def test_without_a_registered_model_it_is_refused_before_any_work(home, monkeypatch):
    folder, _ = home
    monkeypatch.chdir(folder)
    text = (folder / "file.yaml").read_text()
    text = text.replace("registered_model: toxicity\n", "").replace("    register: toxicity\n", "")
    (folder / "none.yaml").write_text(text)
    code, said = run("evaluate", "none.yaml", "--output", "none")
    assert (code, "which needs `registered_model`" in said) == (2, True)


def test_a_registered_set_and_its_scores_are_never_cleaned(home, monkeypatch):
    folder, _ = home
    monkeypatch.chdir(folder)
    code, said = run("clean", "--keep", "0B")
    assert code == 0
    assert "a move of champion rests" in said
