"""With `promote: manual`, a passed version waits until a person approves or rejects it."""

from dataclasses import replace

import pytest
from support.promoted import MODEL, POLICY, judge_against_now, promote_one
from support.registry import run_together

from biasgate.output import print_history
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.promoting import by_hand
from biasgate.tasks.promoting.champion import Transition, settle_stale_entries
from biasgate.tasks.promoting.decisions import promote_candidates
from biasgate.tasks.promoting.succession import JudgedCandidate, SuccessionRule

MANUAL = POLICY.model_copy(update={"promote": "manual"})


@pytest.fixture
def proposed(registry):
    """A passed version that is proposed."""
    version, verdict, scores = registry.judge_next(policy=MANUAL)
    decision = promote_one([verdict], version, registry.gateway, rule="manual")
    return version, verdict, scores, decision


def test_a_pass_makes_a_version_challenger_and_not_champion(registry, proposed):
    version, *_, decision = proposed
    assert (decision.outcome, decision.promoted) == ("pass", False)
    assert decision.sentence == (
        f"{version.uri} passed and is challenger: approve it with `biasgate promote {MODEL} 1 "
        "--by NAME --reason TEXT`, or reject it with `--reject`."
    )
    assert [registry.find_alias(name) for name in ("challenger", "champion")] == ["1", None]


@pytest.mark.usefixtures("proposed")
def test_an_approval_names_who_decided_and_why(registry, capsys):
    for by, reason in ((None, "good"), ("Ann", None)):
        with pytest.raises(InputError, match="`--by` and `--reason` must be given"):
            by_hand.promote_version(MODEL, "1", reason, registry.gateway, by)
    assert by_hand.promote_version(MODEL, "1", "reads well", registry.gateway, "Ann").promoted
    assert [registry.find_alias(name) for name in ("challenger", "champion")] == [None, "1"]
    [entry] = by_hand.read_history(MODEL, registry.gateway)
    assert (entry.action, entry.by) == ("promotion", "Ann")
    assert entry.reason.startswith("reads well")
    assert registry.failed == set()
    print_history(MODEL, [entry], everything=False)
    assert "by: Ann" in capsys.readouterr().out
    with pytest.raises(InputError, match="is champion, so it cannot be rejected"):
        by_hand.reject_version(MODEL, "1", "late", "Bo", registry.gateway)


def test_a_rejected_version_is_not_proposed_again(registry, proposed, tmp_path, capsys):
    version, _, scores, _ = proposed
    by_hand.reject_version(MODEL, "1", "flags slurs of one town", "Bo", registry.gateway)
    assert registry.find_alias("challenger") is None
    with pytest.raises(InputError, match="entry 1 of the ledger"):
        by_hand.promote_version(MODEL, "1", "all the same", registry.gateway, "Ann")
    place = registry.gateway, registry.store, tmp_path / "again"
    again = judge_against_now(*place, version, scores)
    decision = promote_one([again], version, registry.gateway, rule="manual")
    assert "version 1 was rejected by a person" in decision.sentence
    assert registry.find_alias("challenger") is None
    print_history(MODEL, by_hand.read_history(MODEL, registry.gateway), everything=False)
    output = capsys.readouterr().out
    assert "rejection: version 1" in output
    assert "by: Bo" in output


def test_the_best_of_several_is_proposed_and_a_later_failure_withdraws_it(registry, proposed):
    first, passed, *_ = proposed
    version, verdict, _ = registry.judge_next(noise=1.2, seed=1, policy=MANUAL)
    both = [JudgedCandidate("a", [passed], first), JudgedCandidate("b", [verdict], version)]
    manual = SuccessionRule("manual", allow_first=True)
    decision, _ = promote_candidates(both, MODEL, registry.gateway, manual)
    assert registry.find_alias("challenger") == "2"
    assert "passed, but" in decision.sentence
    failed = [JudgedCandidate("b", [replace(verdict, outcome="fail")], version)]
    promote_candidates(failed, MODEL, registry.gateway, manual)
    assert registry.find_alias("challenger") is None


def test_a_yardstick_is_judged_and_never_promoted(registry):
    version, verdict, _ = registry.judge_next()
    judged = [JudgedCandidate("c", [verdict], version, may_promote=False)]
    newer = SuccessionRule("newer", allow_first=True)
    [decision] = promote_candidates(judged, MODEL, registry.gateway, newer)
    assert decision.sentence.endswith("the evaluation file has `promote: false` for it.")
    assert (decision.outcome, registry.find_alias()) == ("pass", None)


@pytest.mark.usefixtures("proposed")
def test_of_two_approvals_at_once_one_makes_the_champion(registry):
    registry.judge_next(noise=1.2, seed=1, policy=MANUAL)
    decisions = run_together(
        lambda pair: by_hand.promote_version(MODEL, pair[0], "good", registry.gateway, pair[1]),
        ("1", "Ann"),
        ("2", "Bo"),
    )
    assert sum(getattr(decision, "promoted", False) for decision in decisions) == 1
    history = by_hand.read_history(MODEL, registry.gateway)
    done = [item for item in history if item.state == "done"]
    assert [item.by for item in done if item.action == "promotion"] in (["Ann"], ["Bo"])
    assert registry.find_alias() == done[0].version


def test_an_owner_that_closes_its_entry_and_ends_meanwhile_keeps_its_state(
    registry, proposed, monkeypatch
):
    version, verdict, *_ = proposed
    ledger = Ledger(registry.gateway, MODEL)
    move = Transition("promotion", version, None, [verdict], "good").to_move()
    with ledger.open(move, None) as queued:
        entry = ledger.claim(queued, ledger.chain)
        snapshots = [ledger.read_entries()]
        ledger.close(entry, "done", "closed after the first reading")
    read_entries = Ledger.read_entries

    def read_late(self):
        return snapshots.pop() if snapshots else read_entries(self)

    monkeypatch.setattr(Ledger, "read_entries", read_late)
    assert settle_stale_entries(ledger) == []
    assert [entry.state for entry in ledger.read_entries()] == ["done"]
