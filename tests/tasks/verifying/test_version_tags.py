"""A deployed champion verifies even if an evaluation is killed while it writes tags."""

import json

import pytest
from support.promoted import MODEL, judge_version, judged_version, promote_one, signing_key

from biasgate.tasks.promoting.attest import write_attestation
from biasgate.tasks.promoting.by_hand import roll_back
from biasgate.tasks.promoting.verify import require_champion, verify_model
from biasgate.tasks.signing.statement import FILE
from biasgate.tasks.verifying.documents import WRITING, write_verdict_tags


class Killed(BaseException):
    """A simulated end of the process."""


@pytest.fixture
def champions(gateway, store, tmp_path):
    """Two champions; the second is deployed."""
    first = judged_version(gateway, store, tmp_path / "first")
    assert promote_one([first[1]], first[0], gateway).promoted
    second = judged_version(gateway, store, tmp_path / "second", champion=first, seed=1)
    assert promote_one([second[1]], second[0], gateway).promoted
    return first, second


def kill_before_call(nth, monkeypatch, gateway):
    """End the process in the nth call that changes a tag of a version."""
    calls = []

    def counted(call):
        def change(*args):
            calls.append(args)
            if len(calls) == nth:
                raise Killed
            return call(*args)

        return change

    for name in ("set_model_version_tag", "delete_model_version_tag"):
        monkeypatch.setattr(gateway.client, name, counted(getattr(gateway.client, name)))


def list_failures(gateway, store):
    findings = verify_model(MODEL, None, gateway, store)
    assert [finding.sentence for finding in findings if not finding.holds] == []
    return " ".join(finding.sentence for finding in findings)


@pytest.mark.parametrize(
    "nth", [1, 4, 8, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 5, 6, 7, 9, 10))]
)
def test_a_champion_that_is_judged_again_verifies_wherever_that_is_killed(
    gateway, store, champions, tmp_path, monkeypatch, nth
):
    first, (version, _, scores) = champions
    rival = (first[0], first[2])
    with monkeypatch.context() as patch:
        kill_before_call(nth, patch, gateway)
        with pytest.raises(Killed):
            judge_version(gateway, store, tmp_path / "again", version, scores, rival)
    failures = list_failures(gateway, store)
    assert ("Run `biasgate evaluate` again to complete the tags" in failures) == (nth > 1)
    assert require_champion(MODEL, gateway, store).version == "2"
    assert roll_back(MODEL, "try", gateway).promoted


def test_the_next_evaluation_completes_the_tags(gateway, store, champions, tmp_path, monkeypatch):
    first, (version, _, scores) = champions
    rival = (first[0], first[2])
    with monkeypatch.context() as patch:
        kill_before_call(4, patch, gateway)
        with pytest.raises(Killed):
            judge_version(gateway, store, tmp_path / "again", version, scores, rival)
    verdict = judge_version(gateway, store, tmp_path / "later", version, scores, rival)
    tags = gateway.resolve(version.uri).tags
    assert WRITING not in tags
    assert tags["biasgate.comments.run_id"] == verdict.run_id
    list_failures(gateway, store)


def test_a_champion_whose_tags_are_half_written_is_attested_by_the_verdicts_that_count(
    gateway, store, tmp_path, monkeypatch
):
    signing_key(monkeypatch, tmp_path / "secret")
    version, verdict, scores = judged_version(gateway, store, tmp_path / "first")
    assert promote_one([verdict], version, gateway).promoted
    with monkeypatch.context() as patch:
        kill_before_call(2, patch, gateway)
        with pytest.raises(Killed):
            judge_version(gateway, store, tmp_path / "again", version, scores)
    [run_id] = json.loads(gateway.resolve(version.uri).tags[WRITING])
    assert gateway.resolve(version.uri).tags["biasgate.comments.run_id"] != run_id
    write_attestation(MODEL, None, tmp_path / "attested.jsonl", gateway)
    attested = json.loads((tmp_path / "attested.jsonl").read_text("utf-8"))
    assert attested == gateway.read_json(run_id, FILE)
    assert attested != gateway.read_json(verdict.run_id, FILE)


def test_verdicts_that_do_not_pass_count_as_soon_as_they_are_being_written(
    gateway, store, champions, tmp_path, monkeypatch
):
    _, (version, _, scores) = champions
    with monkeypatch.context() as patch:
        kill_before_call(2, patch, gateway)
        with pytest.raises(Killed):
            judge_version(gateway, store, tmp_path / "bad", version, scores * 0 + scores[::-1])
    wrong = [
        finding.what for finding in verify_model(MODEL, None, gateway, store) if not finding.holds
    ]
    assert "verdict" in wrong


def test_a_tag_that_names_no_verdicts_leaves_the_tags_as_they_are(gateway, store, champions):
    for nonsense in ("not JSON", '["no-such-run"]', "7"):
        gateway.tag_version(champions[1][0], {WRITING: nonsense})
        list_failures(gateway, store)
    write_verdict_tags(champions[1][0], [champions[1][1]], gateway)
    assert WRITING not in gateway.resolve(champions[1][0].uri).tags
