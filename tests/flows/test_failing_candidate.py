"""A candidate that cannot be scored is reported, and the others are judged."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import mlflow
import pytest
import yaml
from support.evaluations import COMMENT, FILE, run, write_inputs

from biasgate.tasks.mlflow_server.runs import Gateway

pytestmark = pytest.mark.evaluates
FAILS = """
def score(texts):
    raise RuntimeError("cannot read " + texts[0])
"""
BROKEN = {"name": "broken", "kind": "python", "call": "fails.py:score", "version": "1"}


def evaluated(file, command="evaluate", **changes):
    content = yaml.safe_load(FILE) | {"step_retries": 0} | changes
    Path(f"{file}.yaml").write_text(yaml.safe_dump(content), "utf-8")
    return run(command, f"{file}.yaml", "--output", file, "--store", "store")


def with_broken(**more):
    return {"candidates": [BROKEN, *yaml.safe_load(FILE)["candidates"]], **more}


def read(path):
    return json.loads(Path(path).read_text("utf-8"))


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """A folder with an evaluation of a candidate that fails and a candidate that passes."""
    del prefect_server
    with pytest.MonkeyPatch.context() as patch:
        folder = write_inputs(tmp_path_factory.mktemp("failing"))
        patch.chdir(folder)
        Path("fails.py").write_text(FAILS, "utf-8")
        yield evaluated("both", **with_broken())


def test_the_command_ends_with_an_error_that_names_the_candidate(home):
    code, printed = home
    assert code == 1
    assert re.search(r"file +PASSED \(exceptions\)", printed)
    assert re.search("broken +ERROR", printed)
    assert "broken could not be scored; the others are judged without it" in printed


def test_the_other_candidate_is_judged_and_promoted(home):
    del home
    summary = read("both/summary.json")
    decisions = {decision["candidate"]: decision for decision in summary["decisions"]}
    assert summary["outcome"] == "error"
    assert summary["outcome_of"] == ["broken", "file"]
    assert decisions["file"]["promoted"]
    assert [verdict["candidate"]["name"] for verdict in summary["verdicts"]] == ["file"]
    assert [path.name for path in Path("both/rows").iterdir()] == ["file"]
    champion = Gateway.from_store(Path("store")).get_alias("toxicity", "champion")
    assert champion.version == "1"


def test_the_decision_says_why_and_quotes_no_comment(home):
    _, printed = home
    [broken] = [
        decision for decision in read("both/summary.json")["decisions"] if not decision["promoted"]
    ]
    assert broken["outcome"] == "error"
    assert broken["sentence"].startswith("Not judged, since it could not be scored: ")
    assert "RuntimeError" in broken["sentence"]
    for text in (
        printed,
        Path("both/summary.json").read_text(),
        Path("both/report.html").read_text(),
    ):
        assert COMMENT not in text


def test_page_junit_and_mlflow_show_the_error(home):
    del home
    assert "Not judged, since it could not be scored" in Path("both/report.html").read_text()
    cases = ET.parse("both/junit.xml").findall(".//testsuite[@name='decisions']/testcase")  # noqa: S314
    kinds = {case.get("name"): [child.tag for child in case] for case in cases}
    assert kinds == {"broken": ["error"], "file": ["system-out"]}
    client = mlflow.MlflowClient(Gateway.from_store(Path("store")).uri)
    parent = client.get_run(read("both/summary.json")["run_id"])
    assert parent.info.status == "FAILED"
    assert parent.data.tags["biasgate.outcome"] == "error"


def test_a_candidate_whose_outcome_does_not_count_fails_nothing(home):
    del home
    code, printed = evaluated("uncounted", **with_broken(outcome_of=["file"]))
    assert code == 0
    assert re.search("broken +ERROR", printed)


def test_where_the_policy_only_reports_it_is_an_error_still(home):
    del home
    policy = Path("own.yaml").read_text() + "report_only: true\n"
    Path("reporting.yaml").write_text(policy)
    code, printed = evaluated("reported", **with_broken(policy="reporting.yaml"))
    assert code == 1
    assert re.search("file +REPORTED", printed)
    assert re.search("broken +ERROR", printed)


def test_a_night_goes_on_without_it(home):
    del home
    assert evaluated("whole", "nightly", name="nights")[0] == 0
    code, printed = evaluated("part", "nightly", **with_broken(name="nights"))
    assert code == 1
    assert "broken" in printed
    [night] = Path("part").iterdir()
    assert [len(entry["models"]) for entry in read(night / "trend.json")["nights"]] == [1, 1]


def test_a_night_measures_the_champion_if_its_only_candidate_fails(home):
    del home
    code, _ = evaluated("watched", "nightly", name="watching", candidates=[BROKEN])
    [night] = Path("watched").iterdir()
    decisions = read(night / "summary.json")["decisions"]
    assert code == 1
    assert {decision["candidate"]: decision["outcome"] for decision in decisions} == {
        "champion": "pass",
        "broken": "error",
    }


def test_a_found_version_that_cannot_be_opened_keeps_nobody_from_being_judged(home):
    del home
    gateway = Gateway.from_store(Path("store"))
    version = gateway.client.create_model_version("toxicity", str(Path("nothing").absolute()))
    gateway.client.set_model_version_tag("toxicity", version.version, "judge", "yes")
    content = {"registered_candidates": {"tags": {"judge": "yes"}}}
    code, printed = evaluated("found", **content)
    assert code == 1
    decisions = {
        decision["candidate"]: decision for decision in read("found/summary.json")["decisions"]
    }
    assert decisions["file"]["outcome"] == "pass"
    assert decisions[f"toxicity-{version.version}"]["outcome"] == "error"
    assert f"toxicity-{version.version}" in printed


def test_if_the_champion_cannot_be_scored_nobody_is_judged(home):
    del home
    changes = with_broken(champion=BROKEN | {"name": "old"})
    del changes["candidates"][0]
    changes["candidates"][0].pop("register")
    content = yaml.safe_load(FILE) | {"step_retries": 0} | changes
    del content["registered_model"]
    Path("rival.yaml").write_text(yaml.safe_dump(content), "utf-8")
    code, printed = run("evaluate", "rival.yaml", "--output", "rival", "--store", "store")
    assert code == 1
    assert "no candidate can be judged: champion old could not be scored: " in printed
    assert not Path("rival").exists()


def test_a_registered_champion_that_cannot_be_scored_is_named_with_a_cure(home):
    del home
    rows = Path("rows.csv").read_text()
    Path("others.csv").write_text(rows.replace("\n1", "\n9"))
    scores = Path("scores.csv").read_text()
    Path("other_scores.csv").write_text(scores.replace("\n1", "\n9"))
    content = yaml.safe_load(FILE)
    sets = [content["evaluation_sets"][0] | {"path": "others.csv"}]
    files = [content["candidates"][0] | {"path": "other_scores.csv"}]
    code, printed = evaluated("later", evaluation_sets=sets, candidates=files)
    assert code == 2
    assert "no candidate can be judged: champion models:/toxicity/1 could not be " in printed
    assert "400 of the set have no score" in printed
    assert "see `--reset` in `biasgate promote --help`" in printed


def test_if_every_candidate_fails_so_does_the_evaluation(home):
    del home
    others = [BROKEN, BROKEN | {"name": "broken_too"}]
    code, printed = evaluated("none", candidates=others)
    assert code == 1
    assert "candidate 'broken'" in printed
    assert not Path("none").exists()
