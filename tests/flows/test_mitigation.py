"""A blocked candidate is trained again with each method and evaluated."""

import json

import pytest
import yaml
from support.evaluations import run

from biasgate.tasks.evaluation_file import EvaluationFile
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.store import Workplace

pytestmark = pytest.mark.usefixtures("prefect_server")

TRAIN = {"name": "training", "source": "templates", "part": "train"}
TRAIN |= {"terms": ["gay", "muslim", "tall", "white"]}
PLANTED = TRAIN | {"planted_bias": {"terms": ["gay"], "strength": 0.8}}
PHRASES = {"name": "phrases", "source": "templates", "terms": TRAIN["terms"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mitigation")


@pytest.fixture(scope="module")
def config(folder):
    content = {
        "name": "planted",
        "registered_model": "planted",
        "policy": "policy.yaml",
        "evaluation_sets": [PHRASES],
        "candidates": [{"name": "mine", "kind": "tfidf", "train_on": PLANTED}],
        "mitigation": {
            "methods": ["reweight", {"kind": "swap", "copies": 2}],
        },
    }
    rules = [{"metric": "bpsn_auc", "scope": "each", "floor": 0.6}]
    policy = {"version": 1, "name": "loose", "allow_first": True, "rules": rules}
    policy["roll_up"] = "civil_comments"
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy), "utf-8")
    path = folder / "planted.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


def biasgate(folder, *arguments):
    return run(*arguments, "--store", folder / "store")


@pytest.mark.slow
def test_a_blocked_candidate_is_mitigated_and_passes(folder, config):
    output = folder / "out"
    code, text = biasgate(folder, "evaluate", config, "--output", output)
    assert code == 3, text
    blocked = output / "phrases" / "mine"
    mitigated = folder / "mitigated"
    code, text = biasgate(folder, "mitigate", "--from", blocked, "--output", mitigated)
    assert code == 0, text
    assert "pass" in {outcome for outcome, _ in outcomes(mitigated).values()}
    assert champion_of_planted(folder) is None
    summary = json.loads((mitigated / "summary.json").read_text("utf-8"))
    passed = [decision for decision in summary["decisions"] if decision["outcome"] == "pass"]
    for decision in passed:
        assert "planted has no champion yet: `biasgate mitigate` is an exp" in decision["sentence"]
        assert "promotes only with `--promote`" in decision["sentence"]
    written = read_evaluation(mitigated / "mitigation" / "evaluation.yaml")
    assert isinstance(written, EvaluationFile)
    assert [candidate.name for candidate in written.candidates] == ["mine reweight", "mine swap"]
    assert {candidate.train_on.only for candidate in written.candidates} == {("gay",)}
    shown = run("show", mitigated)
    assert shown[0] == 0
    assert "mine reweight" in shown[1]


@pytest.mark.slow
def test_the_alias_moves_if_that_is_asked_for(folder):
    blocked = folder / "out" / "phrases" / "mine"
    before = outcomes(folder / "mitigated")
    options = ("--from", blocked, "--output", folder / "promoted", "--promote")
    code, text = biasgate(folder, "mitigate", *options)
    assert code == 0, text
    champion = champion_of_planted(folder)
    assert f"{champion.uri} is champion now" in joined(text)
    assert outcomes(folder / "promoted") == before


def outcomes(output):
    """Return the outcome of each candidate, and of each of its checks."""
    return {
        path.parent.name: (verdict["outcome"], [check["outcome"] for check in verdict["results"]])
        for path in output.glob("phrases/*/verdict.json")
        for verdict in [json.loads(path.read_text("utf-8"))]
    }


def champion_of_planted(folder):
    return Workplace(folder / "store").gateway.get_alias("planted", "champion")


def joined(text):
    return " ".join(text.split())


@pytest.mark.slow
def test_results_of_the_blocked_candidate_are_not_replaced(folder, config):
    blocked = folder / "out" / "phrases" / "mine"
    code, text = biasgate(folder, "mitigate", config, "--from", blocked, "--output", folder / "out")
    assert (code, "must be another folder" in text) == (2, True)
