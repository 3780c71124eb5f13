"""`biasgate evaluate` of a count file, from shards to a verified verdict."""

import json

import pytest
import yaml
from support.evaluations import run
from support.shards import POLICY, write_shards


def evaluate(config, output):
    return run("evaluate", config, "--output", output, "--store", config.parent / "st")


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    del prefect_server
    home = tmp_path_factory.mktemp("counted")
    write_shards(home)
    code, text = run(
        "evaluate", home / "chats.yaml", "--output", home / "out", "--store", home / "st"
    )
    assert code == 0, text
    return home, text


def test_the_command_says_the_verdict_and_that_it_rests_on_counts(home):
    _, text = home
    assert "Passed: next on chats" in text
    assert "Decided by counts of 3 shards, without rows: every AUC is exact to" in text


def test_the_folder_has_what_is_read_again(home):
    folder, _ = home
    code, again = run("show", folder / "out", "--all")
    assert code == 0
    assert "Passed: next on chats" in again
    assert "Counts do not record which comments mention several identities" in again
    page = (folder / "out/report.html").read_text()
    assert "Decided by counts of 3 shards" in page
    assert len(list((folder / "out/counts").iterdir())) == 3


def test_the_verdict_is_recomputed_from_the_counts(home):
    folder, _ = home
    code, text = run("verify", folder / "out")
    assert code == 0, text
    assert "the counts on chats are the sum of the counts of 3 shards" in text
    assert "recomputing the verdict on chats reproduces it (pass)" in text


def test_a_blocked_candidate_is_verified_by_a_pinned_policy(home, tmp_path):
    folder, _ = home
    write_shards(tmp_path)
    policy = POLICY | {"rules": [{"metric": "auc", "scope": "overall", "floor": 0.99}]}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(policy))
    out = tmp_path / "out"
    code, text = run(
        "evaluate", tmp_path / "chats.yaml", "--output", out, "--store", tmp_path / "st"
    )
    assert code == 3, text
    code, text = run("verify", out)
    assert (code, "reproduces it (fail)" in text) == (0, True), text
    assert "reproduces it (fail). Not compared: warnings, analyses, terms" in text
    assert "not checked signature: the attestation in chats is not signed, which is" in text
    pinned = json.loads((folder / "out/verdict.json").read_text())["policy"]["digest"]
    assert run("verify", folder / "out", "--policy-digest", pinned)[0] == 0
    assert run("verify", out, "--policy-digest", pinned)[0] == 3


def test_a_changed_verdict_or_evidence_does_not_hold(home, tmp_path):
    folder, _ = home
    for name in ("verdict.json", "policy.json", "report.json", "evidence.counts"):
        (tmp_path / name).write_bytes((folder / "out" / name).read_bytes())
    code, text = run("verify", tmp_path)
    assert code == 0
    assert "counts (*.counts) of 3 of 3 shards of chats are missing" in text
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    verdict["results"][1]["bound"] += 0.01
    (tmp_path / "verdict.json").write_text(json.dumps(verdict))
    assert run("verify", tmp_path)[0] == 3
    (tmp_path / "evidence.counts").write_bytes(b"nothing")
    assert run("verify", tmp_path)[0] == 3
