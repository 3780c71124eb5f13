"""Verification and manual changes of the champion."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.made import result, verdict_of
from support.partial import partial
from support.promoted import (
    LEDGER,
    MODEL,
    POLICY,
    artifact,
    edit_json,
    entry,
    judge_version,
    judged_version,
    promote_one,
    rewrite,
    scores_of,
    signing_key,
    trust,
    wrong,
)
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.ledger.entry import TAG, Move
from biasgate.tasks.ledger.ledger import Ledger, find_alias_mismatch
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


def promote_judged(gateway, store, folder, **options):
    judged = judged_version(gateway, store, folder, **options)
    version, verdict, _ = judged
    assert verdict.outcome == "pass"
    assert promote_one([verdict], version, gateway).promoted
    return judged


@pytest.fixture
def champion(gateway, store, tmp_path):
    return promote_judged(gateway, store, tmp_path / "first")


def test_an_untouched_promotion_holds(gateway, store, champion):
    assert wrong(gateway, store) == set()
    sentences = [
        finding.sentence
        for finding in verify_model(MODEL, None, gateway, store)
        if finding.what == "alias"
    ]
    assert sentences == [
        "champion is version 1; last promoted: 1.",
        "previous_champion is version none; last replaced: none.",
    ]
    assert require_champion(MODEL, gateway, store).version == champion[0].version


def test_no_row_is_read_of_evidence_that_is_not_the_judged_one(
    gateway, store, champion, monkeypatch
):
    with artifact(gateway, champion[0], FILE).open("ab") as stream:
        stream.write(b"PAR1")
    monkeypatch.setattr(EvidenceFile, "_table", property(lambda _: pytest.fail("rows were read")))
    monkeypatch.setattr(EvidenceFile, "record", property(lambda _: pytest.fail("it was read")))
    assert {"evidence", "verdict"} <= wrong(gateway, store)


def test_no_row_is_read_of_a_verdict_that_is_not_signed(gateway, champion, tmp_path, monkeypatch):
    trust(monkeypatch, tmp_path / "trusted", other=PrivateKey.generate())
    monkeypatch.setattr(EvidenceFile, "_table", property(lambda _: pytest.fail("rows were read")))
    findings = verify_version(champion[0], gateway)
    sentences = [
        finding.sentence
        for finding in findings
        if finding.what == "signature" and not finding.holds
    ]
    assert "is not recomputed: its signature did not hold" in " ".join(sentences)


def test_an_alias_that_no_promotion_set_is_found(gateway, store, tmp_path):
    version, _, _ = judged_version(gateway, store, tmp_path / "first")
    gateway.set_alias(MODEL, "champion", version.version)
    assert wrong(gateway, store) == {"alias"}


def test_no_champion_is_said(gateway, store):
    gateway.client.create_registered_model(MODEL)
    with pytest.raises(InputError, match="must have a `champion`"):
        verify_model(MODEL, None, gateway, store)


# ------------------------------------------------------------------ signing


def test_a_model_that_the_registry_lacks_is_refused_before_any_check(gateway, store, tmp_path):
    with pytest.raises(InputError, match="'toxicty' must be in the registry"):
        verify_model("toxicty", "1", gateway, store)
    with pytest.raises(InputError, match="'toxicty' must be in the registry"):
        require_champion("toxicty", gateway)
    with pytest.raises(InputError, match="'toxicty' must be in the registry"):
        open_champion("toxicty", tmp_path / "model", gateway)
    with pytest.raises(InputError, match="'toxicty' must be in the registry"):
        roll_back("toxicty", "complaints", gateway)


def test_a_reservation_is_recomputed_whichever_code_a_verdict_names():
    again = verdict_of(result(), reservations=["Measured on 9 of 10 rows."])
    other = replace(again, code=replace(again.code, version="0.0.1"))
    for forged in (again, other):
        [same, *_] = compare_verdicts(replace(forged, reservations=[]), again, "comments")
        assert not same.holds
        assert same.sentence.endswith("Different: reservations.")
    reworded = replace(other, reservations=["Measured on 10 of 10 rows."])
    code = list(compare_verdicts(reworded, again, "comments"))[-1]
    assert code.sentence.endswith("this code has: reservations.0: Measured on 9 of 10 rows.")
    for one in compare_verdicts(
        replace(again, reservations=reworded.reservations), again, "comments"
    ):
        assert not one.holds


def test_of_many_reworded_sentences_five_are_told_and_the_others_counted():
    again = verdict_of(reservations=[f"It is {number}." for number in range(7)])
    other = replace(again, code=replace(again.code, version="0.0.1"))
    for n, end in ((5, ""), (7, "; and 2 more")):
        reworded = ["all is well"] * n
        written = replace(other, reservations=[*reworded, *again.reservations[n:]])
        same, code = compare_verdicts(written, again, "comments")
        expected = "; ".join(f"reservations.{number}: It is {number}." for number in range(5))
        assert (same.holds, code.holds) == (True, True)
        assert code.sentence.endswith(f"not verified; this code has: {expected}{end}")


@pytest.fixture
def key(monkeypatch, tmp_path):
    """The private key of the evaluating machine."""
    return signing_key(monkeypatch, tmp_path / "secret")


@pytest.mark.usefixtures("key")
def test_a_signature_that_nobody_checks_is_said_to_be_unchecked(
    gateway, store, tmp_path, monkeypatch
):
    promote_judged(gateway, store, tmp_path / "first")
    monkeypatch.delenv("BIASGATE_PRIVATE_KEY")
    sentences = [
        finding.sentence
        for finding in verify_model(MODEL, None, gateway, store)
        if not finding.checked
    ]
    expected = "the verdict on comments is signed, not checked: no key is trusted here. Anyone"
    assert any(sentence.startswith(expected) for sentence in sentences), sentences


@pytest.mark.parametrize("place", ["local store", "server"])
def test_a_verdict_whose_attestation_was_removed_does_not_hold(
    gateway, store, champion, monkeypatch, tmp_path, place
):
    artifact(gateway, champion[0], "attestation.json").unlink()
    if place == "server":  # which refuses to list what it lacks
        files = type(gateway).open_run_files

        def refused(self, run_id, names=None):
            if names == ["attestation.json"]:
                msg = "the run has no such file"
                raise InputError(msg)
            return files(self, run_id, names)

        monkeypatch.setattr(type(gateway), "open_run_files", refused)
    assert wrong(gateway, store) == {"signature"}
    assert "is not signed: its attestation is missing" in str(
        verify_model(MODEL, None, gateway, store)
    )
    trust(monkeypatch, tmp_path / "trusted", evaluations=PrivateKey.generate())
    assert wrong(gateway, store) == {"signature"}


# ------------------------------------------------------------------ by hand


def test_a_verdict_on_a_sample_replaces_no_champion_of_the_whole_set(gateway, store, tmp_path):
    champion = promote_judged(gateway, store, tmp_path / "first")
    second, verdict, _ = judged_version(
        gateway, store, tmp_path / "second", champion=champion, seed=1, sampled_from=6_000
    )
    assert verdict.evaluation_set.sample == 600
    assert "Judged on a random sample: 600 of 6,000 comments." in verdict.reservations
    decision = promote_one([verdict], second, gateway)
    assert not decision.promoted
    assert (
        "a sample of 600 comments of comments, and the champion on the whole" in decision.sentence
    )
    with pytest.raises(InputError, match="judged on as many comments as the champion: it was"):
        promote_version(MODEL, second.version, "please", gateway)
    assert gateway.get_alias(MODEL, "champion").version == champion[0].version
    assert wrong(gateway, store) == set()


def test_a_champion_of_a_sample_is_replaced_after_a_verdict_on_the_whole(gateway, store, tmp_path):
    first, verdict, scores = judged_version(gateway, store, tmp_path / "first", sampled_from=6_000)
    assert promote_one([verdict], first, gateway).promoted
    [entry] = Ledger(gateway, MODEL).chain.links
    assert [verdict.sample for verdict in entry.content.verdicts] == [600]
    second, verdict, _ = judged_version(
        gateway, store, tmp_path / "second", champion=(first, None, scores), seed=1
    )
    assert promote_one([verdict], second, gateway).promoted
    assert wrong(gateway, store) == set()


def test_a_version_is_promoted_by_hand_on_its_verdicts(gateway, store, tmp_path):
    version, _, _ = judged_version(gateway, store, tmp_path / "first")
    decision = promote_version(MODEL, version.version, "it is time", gateway)
    assert decision.promoted
    [entry] = read_history(MODEL, gateway)
    assert (entry.state, entry.version) == ("done", "1")
    assert entry.reason == (
        "it is time. Passed for no identity on its own. "
        "Exception: gay: not measured (few; until 2100-01-01) (1 check); own subgroup_auc 0.921, "
        "lower bound 0.90; 80% power to detect 0.56; 254 more harmless comments needed. "
        "Exception: no champion to compare with: 1 check was skipped"
    )
    assert wrong(gateway, store) == set()
    assert not promote_version(MODEL, version.version, "again", gateway).promoted


def test_an_alias_that_names_another_version_than_the_ledger_is_told_with_what_to_do(
    gateway, champion, monkeypatch
):
    moved, ledger = champion[0].version, Ledger(gateway, MODEL)
    assert find_alias_mismatch(ledger) is None
    gateway.delete_alias(MODEL, "champion")
    warning = find_alias_mismatch(ledger)
    assert f"alias `champion` of {MODEL} names no version; by entry 1 of" in warning
    assert f"champion is version {moved}, and candidates are compared with it." in warning
    assert f"biasgate promote {MODEL} {moved}" in warning
    messages = []
    monkeypatch.setattr(rivals, "log_message", messages.append)
    evaluated = None, None, MODEL, POLICY, [], partial({"gateway": gateway})
    assert rivals.pin_rivals.fn(*evaluated)["champion"].uri == champion[0].uri
    assert messages == [warning]
    promote_version(MODEL, moved, "the alias was deleted", gateway)
    assert find_alias_mismatch(ledger) is None
    other = gateway.register(MODEL, champion[0].run_id, "model", {})
    gateway.set_alias(MODEL, "champion", other.version)
    promote_version(MODEL, moved, "the alias was moved", gateway)
    assert find_alias_mismatch(ledger) is None
    rivals.pin_rivals.fn(*evaluated)
    assert messages == [warning]
    reset_ledger(MODEL, None, "nobody", gateway)
    gateway.set_alias(MODEL, "champion", moved)
    assert "no version is champion, and candidates are compared with none" in find_alias_mismatch(
        ledger
    )


def test_nothing_is_compared_with_the_champion_of_a_ledger_that_was_changed(gateway, champion):
    del champion
    rewrite(gateway, Ledger(gateway, MODEL).chain.last_move, number=7)
    with pytest.raises(InputError, match="must be unchanged before anything is promoted"):
        rivals.pin_rivals.fn(None, None, MODEL, POLICY, [], partial({"gateway": gateway}))


def test_the_history_shows_moves_and_on_request_what_moved_nothing(gateway, store, champion):
    moved, _, _ = champion
    for _ in range(3):  # a version that is blocked night after night
        blocked = Move(action="blocked", reason="it did not pass", blocked=["7"])
        record_move(Ledger(gateway, MODEL), blocked, "version 7 is blocked")
    command = ["history", MODEL, "--store", str(store)]
    short, full = (CliRunner().invoke(app, [*command, *more]).output for more in ([], ["--all"]))
    assert "not shown: entries of blocked versions, 3 (--all)" in short
    assert "it did not pass" not in short
    assert full.count("it did not pass") == 3
    assert "not shown" not in full
    for said in (short, full):
        assert f"promotion: version {moved.version}, which replaced none" in said


def test_a_version_compared_with_an_earlier_champion_is_to_be_judged_again(
    gateway, store, champion, tmp_path
):
    late, _, _ = judged_version(gateway, store, tmp_path / "late", champion=champion, seed=2)
    promote_judged(gateway, store, tmp_path / "second", champion=champion, seed=1)
    with pytest.raises(
        InputError, match=r"compared with models:/toxicity/1, but champion is now .*/3"
    ):
        promote_version(MODEL, late.version, "late", gateway)


def test_a_blocked_version_is_not_promoted_by_hand(gateway, store, tmp_path):
    bad, verdict, _ = judged_version(gateway, store, tmp_path / "bad", noise=50.0)
    assert verdict.outcome in {"fail", "insufficient"}
    with pytest.raises(NotVerifiedError, match="must not be deployed"):
        promote_version(MODEL, bad.version, "please", gateway)
    with pytest.raises(NotVerifiedError, match="must not be deployed"):
        reset_ledger(MODEL, bad.version, "please", gateway)
    assert gateway.get_alias(MODEL, "champion") is None


def test_a_rollback_restores_the_champion_before_and_is_in_the_history(
    gateway, store, champion, tmp_path
):
    promote_judged(gateway, store, tmp_path / "second", champion=champion, seed=1)
    assert roll_back(MODEL, "complaints", gateway).promoted
    assert gateway.get_alias(MODEL, "champion").version == "1"
    assert gateway.get_alias(MODEL, "previous_champion").version == "2"
    last, before, _ = read_history(MODEL, gateway)
    assert (last.action, last.reason, last.replaces) == ("rollback", "complaints", "2")
    assert before.action == "promotion"
    assert wrong(gateway, store) == set()


def test_a_rollback_that_is_repeated_changes_nothing_more(gateway, store, champion, tmp_path):
    promote_judged(gateway, store, tmp_path / "second", champion=champion, seed=1)
    roll_back(MODEL, "complaints", gateway)
    again = roll_back(MODEL, "once more", gateway)
    assert (again.outcome, again.promoted) == ("pass", False)
    assert "models:/toxicity/1 is champion already by entry 3" in again.sentence
    assert again.sentence.endswith(
        "which rolled back from version 2 (complaints). To go back further, name a version: "
        "--to VERSION."
    )
    decision = roll_back(MODEL, "once more", gateway, "1")
    assert decision.sentence.endswith("which rolled back from version 2 (complaints).")
    assert gateway.get_alias(MODEL, "champion").version == "1"
    assert len(read_history(MODEL, gateway)) == 3


@pytest.mark.parametrize("step", ["find_champion", "require_verified", "move_champion"])
def test_a_rollback_of_another_process_meanwhile_is_not_undone(
    gateway, store, champion, tmp_path, monkeypatch, step
):
    promote_judged(gateway, store, tmp_path / "second", champion=champion, seed=1)
    real, others = getattr(by_hand, step), iter([True])

    def after_another(*given):
        if next(others, False):
            roll_back(MODEL, "the other's", gateway)
        return real(*given)

    monkeypatch.setattr(by_hand, step, after_another)
    decision = roll_back(MODEL, "mine", gateway)
    assert decision.outcome == "pass"
    assert "(the other's)" in decision.sentence
    assert gateway.get_alias(MODEL, "champion").version == "1"
    assert [item.action for item in read_history(MODEL, gateway) if item.state == "done"] == [
        "rollback",
        "promotion",
        "promotion",
    ]


def read_sentences(gateway, store, version):
    """Return the sentences of `verify` on a version that verifies."""
    findings = verify_model(MODEL, version, gateway, store)
    assert all(finding.holds for finding in findings)
    return " ".join(finding.sentence for finding in findings)


def test_what_was_rolled_away_comes_back_only_by_name_and_with_the_reason_why_it_went(
    gateway, store, champion, tmp_path
):
    promote_judged(gateway, store, tmp_path / "second", champion=champion, seed=1)
    roll_back(MODEL, "complaints", gateway)
    expected = "entry 3 of the ledger rolled back from models:/toxicity/2 (complaints): it is not"
    sentences_by_version = {
        version: read_sentences(gateway, store, version) for version in ("1", "2")
    }
    assert [expected in sentences for sentences in sentences_by_version.values()] == [False, True]
    decision = roll_back(MODEL, "false alarm", gateway, "2")
    assert expected not in read_sentences(gateway, store, "2")
    assert decision.promoted
    assert "It replaced version 1 (false alarm)" in decision.sentence
    assert "Entry 3 had rolled back from it (complaints)" in decision.sentence
    assert gateway.get_alias(MODEL, "champion").version == "2"
    assert not roll_back(MODEL, "again", gateway, "2").promoted
    assert set(Ledger(gateway, MODEL).chain.rollbacks) == {"1"}
    with pytest.raises(InputError, match="version 7 never was"):
        roll_back(MODEL, "x", gateway, "7")
    assert wrong(gateway, store) == set()


def test_a_version_that_was_rolled_away_is_never_the_default(gateway, store, champion, tmp_path):
    promote_judged(gateway, store, tmp_path / "second", champion=champion, seed=1)
    roll_back(MODEL, "complaints", gateway)
    gateway.set_alias(MODEL, "champion", "2")  # by hand, past the ledger
    reset_ledger(MODEL, "1", "the alias was moved by hand", gateway)
    with pytest.raises(
        InputError, match=r"`--to 2` must be given .* entry 3 rolled back from it .complaints."
    ):
        roll_back(MODEL, "x", gateway)
    assert gateway.get_alias(MODEL, "champion").version == "1"


def test_a_model_that_never_had_a_champion_has_nothing_to_roll_back_to(gateway, store, tmp_path):
    judged_version(gateway, store, tmp_path / "first")
    with pytest.raises(InputError, match="must have a `previous_champion` to roll back to"):
        roll_back(MODEL, "why not", gateway)


def test_there_is_nothing_to_roll_back_to_after_the_first(gateway, champion):
    del champion
    with pytest.raises(InputError, match="must have a `previous_champion` to roll back to"):
        roll_back(MODEL, "why not", gateway)


def test_scores_of_the_evidence_are_the_ones_that_were_judged(gateway, champion):
    version, _, scores = champion
    evidence = EvidenceFile(artifact(gateway, version, FILE))
    np.testing.assert_array_equal(evidence.column("score/candidate"), scores)


def test_of_many_differences_the_first_few_are_named_and_how_many_more_there_are():
    again = verdict_of(*(result(metric=f"m{number}") for number in range(6)))
    forged = replace(again, results=[replace(row, metric="other") for row in again.results])
    [same] = compare_verdicts(forged, again, "comments")
    expected = "; ".join(f"results.{number}.metric" for number in range(5))
    assert same.sentence.endswith(f"Different: {expected}; and 1 more.")


# ------------------------------------------------------------------ what happens in between


@pytest.fixture
def before_the_move(monkeypatch):
    """Call a function once, between verification of a version and the move of `champion`."""

    def during(call):
        real, others = decisions.move_champion, iter([True])

        def moved(*given):
            if next(others, False):
                call()
            return real(*given)

        monkeypatch.setattr(decisions, "move_champion", moved)
        monkeypatch.setattr(by_hand, "move_champion", moved)

    return during


def evaluated(gateway, found):
    return promote_one([found[1]], found[0], gateway)


def promote_by_person(gateway, found):
    return promote_version(MODEL, found[0].version, "good", gateway)


def block_again(gateway, store, folder, found, champion):
    scores, rival = scores_of(store, seed=2, noise=50.0), (champion[0], champion[2])
    blocked = judge_version(gateway, store, folder, found[0], scores, rival)
    assert blocked.outcome != "pass"
    decisions.record_blocked([JudgedCandidate("c", [blocked], found[0])], MODEL, gateway)


@pytest.mark.parametrize("act", [evaluated, promote_by_person])
def test_a_version_that_is_blocked_meanwhile_is_not_promoted(
    gateway, store, champion, tmp_path, before_the_move, act
):
    judged = judged_version(gateway, store, tmp_path / "second", champion=champion, seed=1)
    again = tmp_path / "again"
    before_the_move(lambda: block_again(gateway, store, again, judged, champion))
    decision = act(gateway, judged)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert decision.champion_moved  # an evaluation judges again
    assert gateway.get_alias(MODEL, "champion").version == "1"
    assert read_history(MODEL, gateway)[0].note == (
        "models:/toxicity/2 did not pass by entry 2 of the ledger, after its verdicts"
    )


@pytest.mark.mlflow
def test_a_former_champion_that_is_blocked_meanwhile_does_not_come_back(
    gateway, store, champion, tmp_path, before_the_move
):
    second = promote_judged(gateway, store, tmp_path / "second", champion=champion, seed=1)
    again = tmp_path / "again"
    before_the_move(lambda: block_again(gateway, store, again, champion, second))
    decision = roll_back(MODEL, "complaints", gateway)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert "did not pass by entry 3 of the ledger" in decision.sentence
    assert gateway.get_alias(MODEL, "champion").version == "2"


@pytest.mark.parametrize("act", [evaluated, promote_by_person])
def test_a_policy_that_is_registered_meanwhile_is_the_only_one_that_counts(
    gateway, store, champion, tmp_path, before_the_move, act
):
    judged = judged_version(gateway, store, tmp_path / "second", champion=champion, seed=1)
    before_the_move(lambda: register_policy("strict", MODEL, gateway))
    decision = act(gateway, judged)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert gateway.get_alias(MODEL, "champion").version == "1"
    assert "is registered for toxicity, and this is p" in read_history(MODEL, gateway)[0].note


@pytest.mark.parametrize("file", ["verdict.json", "policy.json"])
def test_what_a_promotion_rests_on_must_not_change_after_it_was_verified(
    gateway, store, tmp_path, monkeypatch, file
):
    version, _, _ = judged_version(gateway, store, tmp_path / "first")
    strict = POLICY.model_copy(update={"allow_first": False}).model_dump(mode="json")
    change = {"verdict.json": {"n_candidates": 7}, "policy.json": strict}[file]

    def verified(*_):
        edit_json(artifact(gateway, version, file), lambda content: content.update(change))

    monkeypatch.setattr(by_hand, "require_verified", verified)
    with pytest.raises(InputError, match=r"the \w+ on comments must not change while models:/tox"):
        promote_version(MODEL, "1", "good", gateway)
    assert gateway.get_alias(MODEL, "champion") is None


# ------------------------------------------------------------------ the ledger of one version


def restore_pass(gateway, store, folder, champion):
    """Pass and block a version, then restore its passing tags."""
    judged = judged_version(gateway, store, folder / "second", champion=champion, seed=1)
    tags = gateway.resolve(judged[0].uri).tags
    block_again(gateway, store, folder / "again", judged, champion)
    gateway.tag_version(judged[0], tags)
    return judged[0].version


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("how", ["removed", "edited"])
def test_a_version_does_not_hold_where_the_entry_that_blocked_it_was_tampered_with(
    gateway, store, champion, tmp_path, how
):
    number = restore_pass(gateway, store, tmp_path, champion)
    if how == "removed":
        gateway.client.delete_model_version(LEDGER, "2")
    else:
        payload = entry(gateway, 2).content.to_dict() | {"blocked": ["9"]}
        signatures = json.loads(entry(gateway, 2).record.tags[TAG])["signatures"]
        tag = {TAG: json.dumps({"payload": payload, "signatures": signatures})}
        gateway.tag_version(entry(gateway, 2).record, tag)
    assert "ledger" in {
        finding.what for finding in verify_model(MODEL, number, gateway, store) if not finding.holds
    }
    with pytest.raises(InputError, match="must verify before it is attested; it does not: "):
        write_attestation(MODEL, number, tmp_path / "a.jsonl", gateway)
    assert not (tmp_path / "a.jsonl").exists()


@pytest.mark.mlflow
@pytest.mark.parametrize("named", ["01", " 1", "1 ", "+1", "\u0661", "0", "latest", "9" * 20])
def test_a_version_is_named_by_its_number_alone(gateway, store, champion, named):
    del champion
    for read in (
        lambda: verify_model(MODEL, named, gateway, store),
        lambda: promote_version(MODEL, named, "good", gateway),
    ):
        with pytest.raises(InputError, match=r"must be in the registry .*; a version must be a"):
            read()
