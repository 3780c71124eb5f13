"""With `promote: manual`, a passed version waits until a person approves or rejects it."""

import threading
from dataclasses import replace

import pytest
from support.promoted import MODEL, POLICY, judge_against_now, judged_version, promote_one

from biasgate.output import print_history
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.promoting import by_hand
from biasgate.tasks.promoting.decisions import promote_candidates
from biasgate.tasks.promoting.succession import JudgedCandidate, SuccessionRule
from biasgate.tasks.promoting.verify import verify_model

MANUAL = POLICY.model_copy(update={"promote": "manual"})


def find_alias(gateway, name):
    version = gateway.get_alias(MODEL, name)
    return None if version is None else version.version


@pytest.fixture
def proposed(gateway, store, tmp_path):
    """A passed version that is proposed."""
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v0", policy=MANUAL)
    decision = promote_one([verdict], version, gateway, rule="manual")
    return version, verdict, decision


def test_a_pass_makes_a_version_challenger_and_not_champion(gateway, proposed):
    version, _, decision = proposed
    assert (decision.outcome, decision.promoted) == ("pass", False)
    assert decision.sentence == (
        f"{version.uri} passed and is challenger: approve it with `biasgate promote {MODEL} 1 "
        "--by NAME --reason TEXT`, or reject it with `--reject`."
    )
    assert (find_alias(gateway, "challenger"), find_alias(gateway, "champion")) == ("1", None)


def test_an_approval_names_who_decided_and_why(gateway, store, proposed, capsys):
    del proposed
    for by, reason in ((None, "good"), ("Ann", None)):
        with pytest.raises(InputError, match="`--by` and `--reason` must be given"):
            by_hand.promote_version(MODEL, "1", reason, gateway, by)
    done = by_hand.promote_version(MODEL, "1", "reads well", gateway, "Ann")
    assert done.promoted
    assert (find_alias(gateway, "challenger"), find_alias(gateway, "champion")) == (None, "1")
    [entry] = by_hand.read_history(MODEL, gateway)
    assert (entry.action, entry.by) == ("promotion", "Ann")
    assert entry.reason.startswith("reads well")
    assert all(finding.holds for finding in verify_model(MODEL, None, gateway, store))
    print_history(MODEL, [entry], everything=False)
    assert "by: Ann" in capsys.readouterr().out


def test_a_rejected_version_is_not_proposed_again(gateway, store, proposed, tmp_path, capsys):
    version, *_ = proposed
    by_hand.reject_version(MODEL, "1", "flags slurs of one town", "Bo", gateway)
    assert find_alias(gateway, "challenger") is None
    with pytest.raises(InputError, match="entry 1 of the ledger"):
        by_hand.promote_version(MODEL, "1", "all the same", gateway, "Ann")
    scores = EvidenceFile(tmp_path / "v0/judged" / FILE).column("score/candidate")
    again = judge_against_now(gateway, store, tmp_path / "again", version, scores)
    decision = promote_one([again], version, gateway, rule="manual")
    assert "version 1 was rejected by a person" in decision.sentence
    assert find_alias(gateway, "challenger") is None
    print_history(MODEL, by_hand.read_history(MODEL, gateway), everything=False)
    output = capsys.readouterr().out
    assert "rejection: version 1" in output
    assert "by: Bo" in output


def test_the_best_of_several_is_proposed_and_a_later_failure_withdraws_it(
    gateway, store, proposed, tmp_path
):
    first, passed, _ = proposed
    better = judged_version(gateway, store, tmp_path / "v1", noise=1.2, seed=1, policy=MANUAL)
    both = [JudgedCandidate("a", [passed], first), JudgedCandidate("b", [better[1]], better[0])]
    manual = SuccessionRule("manual", allow_first=True)
    sentences = [decision.sentence for decision in promote_candidates(both, MODEL, gateway, manual)]
    assert find_alias(gateway, "challenger") == "2"
    assert "passed, but" in sentences[0]
    failed = [JudgedCandidate("b", [replace(better[1], outcome="fail")], better[0])]
    promote_candidates(failed, MODEL, gateway, manual)
    assert find_alias(gateway, "challenger") is None


def test_a_yardstick_is_judged_and_never_promoted(gateway, store, tmp_path):
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v0")
    judged = [JudgedCandidate("c", [verdict], version, may_promote=False)]
    [decision] = promote_candidates(
        judged, MODEL, gateway, SuccessionRule("newer", allow_first=True)
    )
    assert decision.sentence.endswith("the evaluation file has `promote: false` for it.")
    assert (decision.outcome, find_alias(gateway, "champion")) == ("pass", None)


def test_the_champion_cannot_be_rejected(gateway, proposed):
    del proposed
    by_hand.promote_version(MODEL, "1", "good", gateway, "Ann")
    with pytest.raises(InputError, match="is champion, so it cannot be rejected"):
        by_hand.reject_version(MODEL, "1", "late", "Bo", gateway)


def test_of_two_approvals_at_once_one_makes_the_champion(gateway, store, proposed, tmp_path):
    del proposed
    judged_version(gateway, store, tmp_path / "v1", noise=1.2, seed=1, policy=MANUAL)
    found = []

    def approve(version, by):
        try:
            found.append(by_hand.promote_version(MODEL, version, "good", gateway, by))
        except InputError as error:
            found.append(error)

    threads = [threading.Thread(target=approve, args=pair) for pair in (("1", "Ann"), ("2", "Bo"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    promoted = [one for one in found if getattr(one, "promoted", False)]
    assert len(promoted) == 1
    done = [item for item in by_hand.read_history(MODEL, gateway) if item.state == "done"]
    assert [item.by for item in done if item.action == "promotion"] in (["Ann"], ["Bo"])
    assert find_alias(gateway, "champion") == done[0].version
