"""A deployed champion verifies even if an evaluation is killed while it writes tags."""

import json
import tempfile
from pathlib import Path

import pytest
from support.promoted import MODEL, judge_version

from biasgate.tasks.promoting.attest import write_attestation
from biasgate.tasks.promoting.by_hand import roll_back
from biasgate.tasks.promoting.verify import require_champion, verify_model
from biasgate.tasks.signing.statement import FILE
from biasgate.tasks.verifying.documents import WRITING, write_verdict_tags


class Killed(BaseException):
    """A simulated end of the process."""


@pytest.fixture
def champion(registry):
    """The second champion, which is deployed."""
    registry.promote_next()
    return registry.promote_next()


def judge_again(registry, judged, scores=None):
    """Judge a champion again, against the one before it."""
    [*before, _] = registry.champions
    rival = (before[0][0], before[0][2]) if before else None
    version, _, own = judged
    place = registry.gateway, registry.store, Path(tempfile.mkdtemp(dir=registry.folder))
    return judge_version(*place, version, own if scores is None else scores, rival)


def kill_judging(registry, nth, judged, scores=None):
    """Judge again, and end the process in the nth call that changes a tag of a version."""
    calls, client = [], registry.gateway.client

    def count(call):
        def change(*args):
            calls.append(args)
            if len(calls) == nth:
                raise Killed
            return call(*args)

        return change

    with registry.patch.context() as patch:
        for name in ("set_model_version_tag", "delete_model_version_tag"):
            patch.setattr(client, name, count(getattr(client, name)))
        with pytest.raises(Killed):
            judge_again(registry, judged, scores)


@pytest.mark.parametrize(
    "nth", [1, 4, 8, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 5, 6, 7, 9, 10))]
)
def test_a_champion_that_is_judged_again_verifies_wherever_that_is_killed(registry, champion, nth):
    kill_judging(registry, nth, champion)
    findings = verify_model(MODEL, None, registry.gateway, registry.store)
    assert all(finding.holds for finding in findings)
    sentences = " ".join(finding.sentence for finding in findings)
    assert ("Run `biasgate evaluate` again to complete the tags" in sentences) == (nth > 1)
    assert require_champion(MODEL, registry.gateway, registry.store).version == "2"
    if nth == 4:  # the next evaluation completes the tags
        verdict = judge_again(registry, champion)
        tags = registry.get_version().tags
        assert WRITING not in tags
        assert tags["biasgate.comments.run_id"] == verdict.run_id
        assert registry.failed == set()
    assert roll_back(MODEL, "try", registry.gateway).promoted


@pytest.mark.usefixtures("key")
def test_a_champion_whose_tags_are_half_written_is_attested_by_the_verdicts_that_count(
    registry, tmp_path
):
    judged = registry.promote_next()
    kill_judging(registry, 2, judged)
    tags = registry.get_version().tags
    [run_id] = json.loads(tags[WRITING])
    assert tags["biasgate.comments.run_id"] != run_id
    write_attestation(MODEL, None, tmp_path / "attested.jsonl", registry.gateway)
    attested = json.loads((tmp_path / "attested.jsonl").read_text("utf-8"))
    assert attested == registry.gateway.read_json(run_id, FILE)
    assert attested != registry.gateway.read_json(judged[1].run_id, FILE)


def test_verdicts_that_do_not_pass_count_as_soon_as_they_are_being_written(registry):
    judged = registry.promote_next()
    kill_judging(registry, 2, judged, judged[2] * 0 + judged[2][::-1])
    assert "verdict" in registry.failed


def test_a_tag_that_names_no_verdicts_leaves_the_tags_as_they_are(registry, champion):
    version, verdict, _ = champion
    for nonsense in ("not JSON", '["no-such-run"]', "7"):
        registry.gateway.tag_version(version, {WRITING: nonsense})
        assert registry.failed == set()
    write_verdict_tags(version, [verdict], registry.gateway)
    assert WRITING not in registry.get_version().tags
