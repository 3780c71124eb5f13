"""Verification and manual changes of the champion."""

import functools
import json
from dataclasses import replace

import pytest
from support.made import result, verdict_of
from support.partial import partial
from support.promoted import MODEL, POLICY, edit_json, judge_version, scores_of, trust
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.ledger.entry import Move
from biasgate.tasks.ledger.ledger import find_alias_mismatch
from biasgate.tasks.promoting import by_hand, decisions, rivals
from biasgate.tasks.promoting.attest import write_attestation
from biasgate.tasks.promoting.by_hand import promote_version, read_history, reset_ledger, roll_back
from biasgate.tasks.promoting.champion import record_move
from biasgate.tasks.promoting.pinned import register_policy
from biasgate.tasks.promoting.succession import JudgedCandidate
from biasgate.tasks.promoting.verify import (
    NotVerifiedError,
    open_champion,
    require_champion,
    verify_model,
)
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.verifying.verdict import compare_verdicts
from biasgate.tasks.verifying.version import verify_version


@pytest.fixture
def champion(registry):
    """The first promoted version."""
    return registry.promote_next()


@pytest.fixture
def replaced(registry, champion):
    """The first champion, which a second one replaced."""
    registry.promote_next()
    return champion


@pytest.fixture
def _unread_rows(champion, monkeypatch):
    """Evidence of a champion, of which no row may be read."""
    del champion
    monkeypatch.setattr(EvidenceFile, "_table", property(lambda _: pytest.fail("rows were read")))


@pytest.mark.usefixtures("_unread_rows")
def test_no_row_is_read_of_evidence_that_is_not_the_judged_one(registry, monkeypatch):
    with registry.find_file(FILE).open("ab") as stream:
        stream.write(b"PAR1")
    monkeypatch.setattr(EvidenceFile, "record", property(lambda _: pytest.fail("it was read")))
    assert {"evidence", "verdict"} <= registry.failed


@pytest.mark.usefixtures("_unread_rows")
def test_no_row_is_read_of_a_verdict_that_is_not_signed(registry, champion, tmp_path, monkeypatch):
    trust(monkeypatch, tmp_path / "trusted", other=PrivateKey.generate())
    findings = verify_version(champion[0], registry.gateway)
    failed = [one.sentence for one in findings if one.what == "signature" and not one.holds]
    assert "is not recomputed: its signature did not hold" in " ".join(failed)


def test_an_alias_that_no_promotion_set_is_found(registry):
    registry.judge_next()
    registry.gateway.set_alias(MODEL, "champion", "1")
    assert registry.failed == {"alias"}


def test_no_champion_is_said(registry):
    registry.gateway.client.create_registered_model(MODEL)
    with pytest.raises(InputError, match="must have a `champion`"):
        registry.find_failures()


@pytest.mark.parametrize(
    "read",
    [
        lambda registry: registry.find_failures("1", "toxicty"),
        lambda registry: require_champion("toxicty", registry.gateway),
        lambda registry: open_champion("toxicty", registry.folder / "model", registry.gateway),
        lambda registry: roll_back("toxicty", "complaints", registry.gateway),
    ],
)
def test_a_model_that_the_registry_lacks_is_refused_before_any_check(registry, read):
    with pytest.raises(InputError, match="'toxicty' must be in the registry"):
        read(registry)


@pytest.mark.mlflow
@pytest.mark.parametrize("named", ["01", " 1", "1 ", "+1", "\u0661", "0", "latest", "9" * 20])
def test_a_version_is_named_by_its_number_alone(registry, named):
    registry.promote_next()
    expected = r"must be in the registry .*; a version must be a"
    with pytest.raises(InputError, match=expected):
        registry.find_failures(named)
    with pytest.raises(InputError, match=expected):
        promote_version(MODEL, named, "good", registry.gateway)


@pytest.mark.usefixtures("key")
def test_a_signature_that_nobody_checks_is_said_to_be_unchecked(registry):
    registry.promote_next()
    registry.patch.delenv("BIASGATE_PRIVATE_KEY")
    trust(registry.patch, registry.folder / "nobody")
    findings = verify_model(MODEL, None, registry.gateway, registry.store)
    sentences = [finding.sentence for finding in findings if not finding.checked]
    expected = "the verdict on comments is signed, not checked: no key is trusted here. Anyone"
    assert any(sentence.startswith(expected) for sentence in sentences), sentences


# ------------------------------------------------------------------ a verdict, recomputed


def rename_code(verdict, **changes):
    """Return a verdict that records other code."""
    return replace(verdict, code=replace(verdict.code, version="0.0.1"), **changes)


def test_a_reservation_is_recomputed_whichever_code_a_verdict_names():
    again = verdict_of(result(), reservations=["Measured on 9 of 10 rows."])
    reworded = ["Measured on 10 of 10 rows."]
    for forged in (replace(again, reservations=[]), rename_code(again, reservations=[])):
        [same, *_] = compare_verdicts(forged, again, "comments")
        assert not same.holds
        assert same.sentence.endswith("Different: reservations.")
    *_, code = compare_verdicts(rename_code(again, reservations=reworded), again, "comments")
    assert code.sentence.endswith("this code has: reservations.0: Measured on 9 of 10 rows.")
    *_, code = compare_verdicts(rename_code(again), again, "comments")
    assert code.sentence.endswith("'0.0.1'. This code gives the same sentences.")
    same_code = compare_verdicts(replace(again, reservations=reworded), again, "comments")
    assert not any(finding.holds for finding in same_code)


@pytest.mark.parametrize(("n", "end"), [(5, ""), (7, "; and 2 more")])
def test_of_many_reworded_sentences_five_are_told_and_the_others_counted(n, end):
    again = verdict_of(reservations=[f"It is {number}." for number in range(7)])
    written = rename_code(again, reservations=["all is well"] * n + again.reservations[n:])
    same, code = compare_verdicts(written, again, "comments")
    expected = "; ".join(f"reservations.{number}: It is {number}." for number in range(5))
    assert (same.holds, code.holds) == (True, True)
    assert code.sentence.endswith(f"not verified; this code has: {expected}{end}")


def test_of_many_differences_the_first_few_are_named_and_how_many_more_there_are():
    again = verdict_of(*(result(metric=f"m{number}") for number in range(6)))
    forged = replace(again, results=[replace(row, metric="other") for row in again.results])
    [same] = compare_verdicts(forged, again, "comments")
    expected = "; ".join(f"results.{number}.metric" for number in range(5))
    assert same.sentence.endswith(f"Different: {expected}; and 1 more.")


# ------------------------------------------------------------------ by hand


def test_a_verdict_on_a_sample_replaces_no_champion_of_the_whole_set(registry, champion):
    second = registry.judge_next(seed=1, sampled_from=6_000)
    assert second[1].evaluation_set.sample == 600
    assert "Judged on a random sample: 600 of 6,000 comments." in second[1].reservations
    decision = registry.promote(second)
    assert not decision.promoted
    expected = "a sample of 600 comments of comments, and the champion on the whole"
    assert expected in decision.sentence
    with pytest.raises(InputError, match="judged on as many comments as the champion: it was"):
        promote_version(MODEL, second[0].version, "please", registry.gateway)
    assert registry.find_alias() == champion[0].version
    assert registry.failed == set()


def test_a_champion_of_a_sample_is_replaced_after_a_verdict_on_the_whole(registry):
    registry.promote_next(sampled_from=6_000)
    [entry] = registry.ledger.chain.links
    assert [verdict.sample for verdict in entry.content.verdicts] == [600]
    registry.promote_next()
    assert registry.failed == set()


def test_a_version_is_promoted_by_hand_on_its_verdicts(registry):
    registry.judge_next()
    assert promote_version(MODEL, "1", "it is time", registry.gateway).promoted
    [entry] = read_history(MODEL, registry.gateway)
    assert (entry.state, entry.version) == ("done", "1")
    assert entry.reason == (
        "it is time. Passed for no identity on its own. "
        "Exception: gay: not measured (few; until 2100-01-01) (1 check); own subgroup_auc 0.921, "
        "lower bound 0.90; 80% power to detect 0.56; 254 more harmless comments needed. "
        "Exception: no champion to compare with: 1 check was skipped"
    )
    assert registry.failed == set()
    assert not promote_version(MODEL, "1", "again", registry.gateway).promoted


def test_an_alias_that_names_another_version_than_the_ledger_is_told_with_what_to_do(
    registry, champion
):
    gateway, ledger, messages = registry.gateway, registry.ledger, []
    assert find_alias_mismatch(ledger) is None
    gateway.delete_alias(MODEL, "champion")
    warning = find_alias_mismatch(ledger)
    assert f"alias `champion` of {MODEL} names no version; by entry 1 of" in warning
    assert "champion is version 1, and candidates are compared with it." in warning
    assert f"biasgate promote {MODEL} 1" in warning
    registry.patch.setattr(rivals, "log_message", messages.append)
    evaluated = None, None, MODEL, POLICY, [], partial({"gateway": gateway})
    assert rivals.pin_rivals.fn(*evaluated)["champion"].uri == champion[0].uri
    assert messages == [warning]
    promote_version(MODEL, "1", "the alias was deleted", gateway)
    assert find_alias_mismatch(ledger) is None
    other = gateway.register(MODEL, champion[0].run_id, "model", {})
    gateway.set_alias(MODEL, "champion", other.version)
    promote_version(MODEL, "1", "the alias was moved", gateway)
    assert find_alias_mismatch(ledger) is None
    rivals.pin_rivals.fn(*evaluated)
    assert messages == [warning]
    reset_ledger(MODEL, None, "nobody", gateway)
    gateway.set_alias(MODEL, "champion", "1")
    expected = "no version is champion, and candidates are compared with none"
    assert expected in find_alias_mismatch(ledger)


def test_nothing_is_compared_with_the_champion_of_a_ledger_that_was_changed(registry, champion):
    del champion
    registry.edit_entry(1, number=7)
    with pytest.raises(InputError, match="must be unchanged before anything is promoted"):
        rivals.pin_rivals.fn(None, None, MODEL, POLICY, [], partial({"gateway": registry.gateway}))


def test_the_history_shows_moves_and_on_request_what_moved_nothing(registry, champion):
    for _ in range(3):  # a version that is blocked night after night
        blocked = Move(action="blocked", reason="it did not pass", blocked=["7"])
        record_move(registry.ledger, blocked, "version 7 is blocked")
    command = ["history", MODEL, "--store", str(registry.store)]
    short, full = (CliRunner().invoke(app, [*command, *more]).output for more in ([], ["--all"]))
    assert "not shown: entries of blocked versions, 3 (--all)" in short
    assert "not shown" not in full
    assert [text.count("it did not pass") for text in (short, full)] == [0, 3]
    promotion = f"promotion: version {champion[0].version}, which replaced none"
    assert all(promotion in text for text in (short, full))


def test_a_version_compared_with_an_earlier_champion_is_to_be_judged_again(registry, champion):
    del champion
    late, _, _ = registry.judge_next(seed=2)
    registry.promote_next()
    expected = r"compared with models:/toxicity/1, but champion is now .*/3"
    with pytest.raises(InputError, match=expected):
        promote_version(MODEL, late.version, "late", registry.gateway)


@pytest.mark.parametrize("act", [promote_version, reset_ledger])
def test_a_blocked_version_is_not_promoted_by_hand(registry, act):
    _, verdict, _ = registry.judge_next(noise=50.0)
    assert verdict.outcome in {"fail", "insufficient"}
    with pytest.raises(NotVerifiedError, match="must not be deployed"):
        act(MODEL, "1", "please", registry.gateway)
    assert registry.find_alias() is None


# ------------------------------------------------------------------ rollbacks


@pytest.mark.usefixtures("replaced")
def test_a_rollback_restores_the_champion_before_and_a_repeated_one_changes_nothing(registry):
    assert roll_back(MODEL, "complaints", registry.gateway).promoted
    last, before, _ = read_history(MODEL, registry.gateway)
    assert (last.action, last.reason, last.replaces) == ("rollback", "complaints", "2")
    assert before.action == "promotion"
    assert registry.failed == set()
    again = roll_back(MODEL, "once more", registry.gateway)
    assert (again.outcome, again.promoted) == ("pass", False)
    assert "models:/toxicity/1 is champion already by entry 3" in again.sentence
    assert again.sentence.endswith(
        "which rolled back from version 2 (complaints). To go back further, name a version: "
        "--to VERSION."
    )
    decision = roll_back(MODEL, "once more", registry.gateway, "1")
    assert decision.sentence.endswith("which rolled back from version 2 (complaints).")
    assert [registry.find_alias(name) for name in ("champion", "previous_champion")] == ["1", "2"]
    assert len(read_history(MODEL, registry.gateway)) == 3


@pytest.mark.usefixtures("replaced")
@pytest.mark.parametrize("step", ["find_champion", "require_verified", "move_champion"])
def test_a_rollback_of_another_process_meanwhile_is_not_undone(registry, step):
    registry.interrupt(step, lambda: roll_back(MODEL, "the other's", registry.gateway), by_hand)
    decision = roll_back(MODEL, "mine", registry.gateway)
    assert decision.outcome == "pass"
    assert "(the other's)" in decision.sentence
    assert registry.find_alias() == "1"
    done = [item.action for item in read_history(MODEL, registry.gateway) if item.state == "done"]
    assert done == ["rollback", "promotion", "promotion"]


@pytest.mark.usefixtures("replaced")
def test_what_was_rolled_away_comes_back_only_by_name_and_with_the_reason_why_it_went(registry):
    gateway = registry.gateway

    def read_sentences(version):
        findings = verify_model(MODEL, version, gateway, registry.store)
        assert all(finding.holds for finding in findings)
        return " ".join(finding.sentence for finding in findings)

    roll_back(MODEL, "complaints", gateway)
    expected = "entry 3 of the ledger rolled back from models:/toxicity/2 (complaints): it is not"
    assert [expected in read_sentences(version) for version in ("1", "2")] == [False, True]
    decision = roll_back(MODEL, "false alarm", gateway, "2")
    assert expected not in read_sentences("2")
    assert decision.promoted
    assert "It replaced version 1 (false alarm)" in decision.sentence
    assert "Entry 3 had rolled back from it (complaints)" in decision.sentence
    assert registry.find_alias() == "2"
    assert not roll_back(MODEL, "again", gateway, "2").promoted
    assert set(registry.ledger.chain.rollbacks) == {"1"}
    with pytest.raises(InputError, match="version 7 never was"):
        roll_back(MODEL, "x", gateway, "7")
    assert registry.failed == set()


@pytest.mark.usefixtures("replaced")
def test_a_version_that_was_rolled_away_is_never_the_default(registry):
    roll_back(MODEL, "complaints", registry.gateway)
    registry.gateway.set_alias(MODEL, "champion", "2")  # by hand, past the ledger
    reset_ledger(MODEL, "1", "the alias was moved by hand", registry.gateway)
    expected = r"`--to 2` must be given .* entry 3 rolled back from it .complaints."
    with pytest.raises(InputError, match=expected):
        roll_back(MODEL, "x", registry.gateway)
    assert registry.find_alias() == "1"


@pytest.mark.parametrize("make", ["judge_next", "promote_next"])
def test_before_a_second_champion_there_is_nothing_to_roll_back_to(registry, make):
    getattr(registry, make)()
    with pytest.raises(InputError, match="must have a `previous_champion` to roll back to"):
        roll_back(MODEL, "why not", registry.gateway)


# ------------------------------------------------------------------ what happens in between


def block_again(registry, judged, champion):
    """Judge a version again, so that it is blocked, and record this."""
    scores, rival = scores_of(registry.store, seed=2, noise=50.0), (champion[0], champion[2])
    place = registry.gateway, registry.store, registry.folder / "again"
    blocked = judge_version(*place, judged[0], scores, rival)
    assert blocked.outcome != "pass"
    failed = JudgedCandidate("c", [blocked], judged[0])
    decisions.record_blocked([failed], MODEL, registry.gateway)


@pytest.mark.parametrize("is_by_hand", [False, True])
@pytest.mark.parametrize(
    ("interrupt", "note"),
    [
        (block_again, "models:/toxicity/2 did not pass by entry 2 of the ledger, after its verdic"),
        (
            lambda registry, *_: register_policy("strict", MODEL, registry.gateway),
            "is registered for toxicity, and this is p",
        ),
    ],
    ids=["blocked", "another policy"],
)
def test_what_the_ledger_records_meanwhile_stops_the_promotion(
    registry, champion, interrupt, note, is_by_hand
):
    judged = registry.judge_next(seed=1)
    call = functools.partial(interrupt, registry, judged, champion)
    registry.interrupt("move_champion", call, decisions, by_hand)
    if is_by_hand:
        decision = promote_version(MODEL, judged[0].version, "good", registry.gateway)
    else:
        decision = registry.promote(judged)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert decision.champion_moved  # an evaluation judges again
    assert registry.find_alias() == "1"
    assert note in read_history(MODEL, registry.gateway)[0].note


@pytest.mark.mlflow
def test_a_former_champion_that_is_blocked_meanwhile_does_not_come_back(registry, replaced):
    call = functools.partial(block_again, registry, replaced, registry.champions[1])
    registry.interrupt("move_champion", call, decisions, by_hand)
    decision = roll_back(MODEL, "complaints", registry.gateway)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert "did not pass by entry 3 of the ledger" in decision.sentence
    assert registry.find_alias() == "2"


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("verdict.json", {"n_candidates": 7}),
        ("policy.json", POLICY.model_copy(update={"allow_first": False}).model_dump(mode="json")),
    ],
)
def test_what_a_promotion_rests_on_must_not_change_after_it_was_verified(
    registry, monkeypatch, file, change
):
    registry.judge_next()

    def edit_verified(*_):
        edit_json(registry.find_file(file, 1), lambda content: content.update(change))

    monkeypatch.setattr(by_hand, "require_verified", edit_verified)
    with pytest.raises(InputError, match=r"the \w+ on comments must not change while models:/tox"):
        promote_version(MODEL, "1", "good", registry.gateway)
    assert registry.find_alias() is None


# ------------------------------------------------------------------ the ledger of one version


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("how", ["removed", "edited"])
def test_a_version_does_not_hold_where_the_entry_that_blocked_it_was_tampered_with(
    registry, champion, tmp_path, how
):
    judged = registry.judge_next(seed=1)
    passing = registry.get_version(2).tags
    block_again(registry, judged, champion)
    registry.gateway.tag_version(judged[0], passing)
    if how == "removed":
        registry.remove_entry(2)
    else:
        tag = json.loads(registry.read_tag(2))
        tag["payload"]["blocked"] = ["9"]
        registry.put_tag(2, json.dumps(tag))
    assert "ledger" in {finding.what for finding in registry.find_failures("2")}
    with pytest.raises(InputError, match="must verify before it is attested; it does not: "):
        write_attestation(MODEL, "2", tmp_path / "a.jsonl", registry.gateway)
    assert not (tmp_path / "a.jsonl").exists()
