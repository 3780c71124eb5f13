"""Attacks with write access everywhere, but without a private key."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.partial import partial
from support.promoted import (
    LEDGER,
    MODEL,
    POLICY,
    artifact,
    entry,
    judge_version,
    judged_version,
    promote_one,
    registered_version,
    revoke,
    rewrite,
    scores_of,
    signing_key,
    tag_of_entry,
    trust,
    wrong,
)

from biasgate.tasks import reading_evaluation
from biasgate.tasks.cleaning import VerdictReferences
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger import entry as entries
from biasgate.tasks.ledger.chain import VouchedVerdicts
from biasgate.tasks.ledger.entry import TAG
from biasgate.tasks.ledger.ledger import Ledger, find_champion
from biasgate.tasks.ledger.sound import require_sound
from biasgate.tasks.promoting.by_hand import promote_version, read_history, reset_ledger, roll_back
from biasgate.tasks.promoting.champion import settle_stale_entries
from biasgate.tasks.promoting.decisions import record_blocked
from biasgate.tasks.promoting.rivals import pin_rivals
from biasgate.tasks.promoting.succession import JudgedCandidate
from biasgate.tasks.promoting.verify import NotVerifiedError, require_champion, verify_model
from biasgate.tasks.reporting.version_tags import build_tags
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import (
    compute_verdict_digest,
    read_annotations,
    read_statement,
)
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.verdict import check_run_attestation
from biasgate.tasks.verifying.version import verify_version

# ------------------------------------------------------------------ the chain


@pytest.mark.usefixtures("key")
def test_untouched_entries_are_chained_and_signed(gateway, store, promoted):
    for _ in range(3):
        promoted()
    assert wrong(gateway, store) == set()
    chain = Ledger(gateway, MODEL).chain
    assert [
        item.content.predecessor and item.content.predecessor.number for item in chain.links
    ] == [
        None,
        1,
        2,
    ]


@pytest.mark.mlflow
def test_an_edited_unsigned_entry_is_refused_before_anything_is_added(gateway, promoted, attacker):
    promoted()
    attacker(rewrite, gateway, entry(gateway, 1), reason="nothing to see")
    with pytest.raises(InputError, match=r"entry 1 is not signed; missing .*`biasgate history"):
        require_sound(Ledger(gateway, MODEL))


# ------------------------------------------------------------------ healing


def forge_open_entry(gateway, version, replaces, verdict, /, **changes):
    """Write an open entry, as left by a promoter that died after it moved the alias."""
    rests_on = {"set": "comments", "run_id": verdict.run_id, "digest": "0"}
    chain = Ledger(gateway, MODEL).chain
    number = len(gateway.list_versions(LEDGER)) + 1
    content = {
        "action": "promotion",
        "replaces": replaces,
        "version": version,
        "rule": "newer",
        "reason": "forged",
        "passed_over": [],
        "verdicts": [rests_on],
        "owner": "elsewhere 1 2.0 abc",
        "opened": "2026-01-01T00:00:00+00:00",
        "expires": "2026-01-01T00:05:00+00:00",
        "model": MODEL,
        "number": number,
        "predecessor": convert_to_plain(chain.head),
        "time": "2026-01-01T00:00:00+00:00",
        "state": "open",
        "note": "",
    } | changes
    gateway.record_version(LEDGER, None, tag_of_entry(content))


@pytest.mark.mlflow
def test_a_forged_open_entry_is_not_healed_into_a_promotion(
    gateway, store, promoted, attacker, tmp_path
):
    first = promoted()
    version, verdict, _ = judged_version(gateway, store, tmp_path / "x", champion=first, seed=3)
    attacker(forge_open_entry, gateway, version.version, "1", verdict)
    gateway.set_alias(MODEL, "champion", version.version)
    assert "alias" in wrong(gateway, store)
    [healed] = settle_stale_entries(Ledger(gateway, MODEL))
    settled = entry(gateway, healed.number)
    assert (settled.state, settled.content.note) == ("abandoned", "not completed: it is not signed")
    assert "alias" in wrong(gateway, store)
    assert find_champion(Ledger(gateway, MODEL)).version == "1"


def test_an_open_entry_of_a_blocked_version_is_not_completed(gateway, store, promoted, tmp_path):
    first = promoted()
    bad, verdict, _ = judged_version(gateway, store, tmp_path / "b", champion=first, noise=50.0)
    forge_open_entry(gateway, bad.version, "1", verdict)
    gateway.set_alias(MODEL, "champion", bad.version)
    settle_stale_entries(Ledger(gateway, MODEL))
    assert entry(gateway, 2).state == "abandoned"
    assert "not completed: " in entry(gateway, 2).content.note


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"number": 9}, "written as entry 9"),
        ({"model": "other"}, "of other, and copied"),
        ({"predecessor": None}, "was written after entry none"),
        ({"replaces": ""}, "but champion was version 1"),
    ],
)
def test_an_open_entry_in_a_wrong_place_is_not_completed(
    gateway, store, promoted, tmp_path, changes, words
):
    first = promoted()
    version, verdict, _ = judged_version(gateway, store, tmp_path / "x", champion=first, seed=3)
    forge_open_entry(gateway, version.version, "1", verdict, **changes)
    gateway.set_alias(MODEL, "champion", version.version)
    settle_stale_entries(Ledger(gateway, MODEL))
    assert words in entry(gateway, 2).content.note


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("completed_by", ["heal", "rollback", "reset", "evaluation"])
def test_a_promotion_that_was_killed_after_it_moved_the_alias_holds_and_is_completed(
    gateway, store, promoted, tmp_path, completed_by
):
    first = promoted()
    version, verdict, _ = judged_version(gateway, store, tmp_path / "x", champion=first, seed=3)
    assert promote_one([verdict], version, gateway).promoted
    done = entry(gateway, 2)
    gone = {"owner": "elsewhere 1 2.0 abc", "expires": "2026-01-01T00:05:00+00:00"}
    rewrite(gateway, done, state="open", **gone)
    gateway.delete_alias(MODEL, "previous_champion")
    (tmp_path / "trusted" / "ledgers_seen.json").unlink()  # it was killed before that
    assert wrong(gateway, store) == set()
    if completed_by == "heal":
        settle_stale_entries(Ledger(gateway, MODEL))
    elif completed_by == "reset":
        reset_ledger(MODEL, "2", "please", gateway)
    elif completed_by == "evaluation":
        place = partial({"gateway": gateway})
        assert pin_rivals.fn(None, None, MODEL, POLICY, [], place)["champion"].uri == version.uri
    else:
        assert roll_back(MODEL, "complaints", gateway).promoted
    assert entry(gateway, 2).state == "done"
    champions = [
        gateway.get_alias(MODEL, name).version for name in ("champion", "previous_champion")
    ]
    assert champions == (["1", "2"] if completed_by == "rollback" else ["2", "1"])
    assert wrong(gateway, store) == set()


@pytest.mark.usefixtures("key")
def test_a_promotion_that_was_killed_before_it_moved_the_alias_is_abandoned(
    gateway, store, promoted, tmp_path
):
    first = promoted()
    version, verdict, _ = judged_version(gateway, store, tmp_path / "x", champion=first, seed=3)
    assert promote_one([verdict], version, gateway).promoted
    gone = {"owner": "elsewhere 1 2.0 abc", "expires": "2026-01-01T00:05:00+00:00"}
    rewrite(gateway, entry(gateway, 2), state="open", **gone)
    gateway.set_alias(MODEL, "champion", "1")
    settle_stale_entries(Ledger(gateway, MODEL))
    left = entry(gateway, 2)
    assert (left.state, left.content.note) == (
        "abandoned",
        "its owner ended before champion moved",
    )
    assert find_champion(Ledger(gateway, MODEL)).version == "1"


# ------------------------------------------------------------------ a ledger that others wrote to


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {TAG: "not JSON"},
        {TAG: "[]"},
    ],
)
def test_a_version_that_is_no_entry_is_a_finding_and_stops_nothing(gateway, store, promoted, tags):
    promoted()
    gateway.record_version(LEDGER, None, tags)
    assert wrong(gateway, store) == {"ledger"}
    assert len(read_history(MODEL, gateway)) == 1
    promoted()
    assert gateway.get_alias(MODEL, "champion").version == "2"


@pytest.mark.parametrize("command", [read_history, require_champion])
def test_a_ledger_is_not_a_model(gateway, promoted, command):
    promoted()
    with pytest.raises(InputError, match=f"model '{LEDGER}' must be in the registry"):
        command(LEDGER, gateway)


def test_an_entry_that_claims_a_long_lease_is_not_waited_for(
    gateway, store, promoted, tmp_path, monkeypatch
):
    first = promoted()
    version, verdict, _ = judged_version(gateway, store, tmp_path / "x", champion=first, seed=3)
    forge_open_entry(gateway, "9", "1", verdict, expires="2099-01-01T00:00:00+00:00")
    assert not entry(gateway, 2).is_stale
    with monkeypatch.context() as later:
        later.setattr(entries, "LEASE", timedelta(0))
        assert entry(gateway, 2).is_stale
        settle_stale_entries(Ledger(gateway, MODEL))
    assert promote_one([verdict], version, gateway).promoted


def test_an_entry_that_was_made_twice_by_a_lost_answer_is_not_waited_for(
    gateway, store, promoted, tmp_path, monkeypatch
):
    first = promoted()
    version, verdict, _ = judged_version(gateway, store, tmp_path / "x", champion=first, seed=3)
    make = type(gateway).record_version

    def twice(*arguments):
        make(*arguments)
        return make(*arguments)

    monkeypatch.setattr(type(gateway), "record_version", twice)
    assert promote_one([verdict], version, gateway).promoted
    assert [item.state for item in Ledger(gateway, MODEL).read_entries()] == [
        "done",
        "abandoned",
        "done",
    ]
    assert wrong(gateway, store) == set()


def test_an_entry_whose_answer_never_came_is_abandoned_at_once(
    gateway, store, promoted, tmp_path, monkeypatch
):
    first = promoted()
    version, verdict, _ = judged_version(gateway, store, tmp_path / "x", champion=first, seed=3)
    make = type(gateway).record_version

    def lost(*arguments):
        make(*arguments)
        raise TimeoutError

    with monkeypatch.context() as patch:
        patch.setattr(type(gateway), "record_version", lost)
        with pytest.raises(TimeoutError):
            promote_one([verdict], version, gateway)
    assert entry(gateway, 2).state == "abandoned"
    assert promote_one([verdict], version, gateway).promoted


# ------------------------------------------------------------------ tags decide nothing


@pytest.fixture
def of_two_sets(gateway, store, tmp_path):
    """A version that passed on `comments` and failed on `other`; both are required."""
    version = registered_version(gateway, tmp_path, "two")
    verdicts = []
    for name, noise in (("comments", 1.6), ("other", 50.0)):
        run_id = gateway.ensure_run(gateway.ensure_experiment("judged"), name, name)
        verdicts.append(
            judge_version(
                gateway,
                store,
                tmp_path / name,
                version,
                scores_of(store, seed=0, noise=noise),
                on=name,
                required_sets=("comments", "other"),
                run_id=run_id,
            )
        )
    assert verdicts[0].outcome == "pass" != verdicts[1].outcome
    gateway.tag_version(version, build_tags(verdicts))
    return gateway.resolve(version.uri)


@pytest.mark.mlflow
def test_a_required_set_that_is_taken_from_the_tag_is_still_required(gateway, of_two_sets):
    gateway.tag_version(of_two_sets, {"biasgate.required_sets": "comments"})
    edited = gateway.resolve(of_two_sets.uri)
    failures = [finding for finding in verify_version(edited, gateway) if not finding.holds]
    assert {"tags", "verdict"} <= {failure.what for failure in failures}
    assert any(" on other by policy p is not a pass" in failure.sentence for failure in failures)
    with pytest.raises(NotVerifiedError, match="require the same sets as its verdicts"):
        promote_version(MODEL, edited.version, "please", gateway)


def test_a_required_set_whose_tags_are_removed_is_still_required(gateway, of_two_sets):
    gateway.tag_version(
        of_two_sets, {"biasgate.required_sets": "comments", "biasgate.other.run_id": ""}
    )
    edited = gateway.resolve(of_two_sets.uri)
    sentences = [
        finding.sentence for finding in verify_version(edited, gateway) if not finding.holds
    ]
    assert any(
        "the files of the verdict on other must be in run ?" in sentence for sentence in sentences
    )


@pytest.mark.usefixtures("key")
def test_a_failed_verdict_is_not_replaced_by_the_one_on_another_set(gateway, of_two_sets):
    tags = {
        key.replace(".comments.", ".other."): value
        for key, value in of_two_sets.tags.items()
        if key.startswith("biasgate.comments.")
    }
    gateway.tag_version(of_two_sets, tags)
    again = gateway.resolve(of_two_sets.uri)
    sentences = [
        finding.sentence for finding in verify_version(again, gateway) if not finding.holds
    ]
    assert "the verdict in the tags for other is about that set. It is about comments." in sentences
    with pytest.raises(NotVerifiedError, match="It is about comments"):
        promote_version(MODEL, again.version, "please", gateway)


@pytest.mark.usefixtures("key")
@pytest.mark.mlflow
def test_a_champion_that_was_weakened_while_it_was_compared_with_stops_the_promotion(
    gateway, store, promoted, tmp_path
):
    champion = promoted()
    weights = Path(gateway.find_files_uri(champion[0]).removeprefix("file://")) / "weights"
    kept = weights.read_text("utf-8")
    weights.write_text("weak", "utf-8")
    version, verdict, _ = judged_version(
        gateway, store, tmp_path / "next", champion=champion, seed=1
    )
    weights.write_text(kept, "utf-8")
    assert verdict.outcome == "pass"
    expected = "champion in the comparison on comments, .*weights: changed"
    with pytest.raises(InputError, match=expected):
        promote_one([verdict], version, gateway)
    with pytest.raises(NotVerifiedError, match=expected):
        promote_version(MODEL, version.version, "please", gateway)


def test_a_champion_whose_own_verdict_is_missing_is_nothing_to_compare_with(
    gateway, store, promoted, tmp_path
):
    champion = promoted()
    judged = judged_version(gateway, store, tmp_path / "next", champion=champion, seed=1)
    artifact(gateway, champion[0], "verdict.json").unlink()
    with pytest.raises(InputError, match="A verdict behind its promotion is missing or changed"):
        promote_one([judged[1]], judged[0], gateway)


@pytest.mark.usefixtures("key")
def test_an_entry_that_was_seen_is_remembered_also_where_the_champion_does_not_hold(
    gateway, store, promoted
):
    version, verdict, _ = promoted()
    failed = replace(verdict, outcome="fail")
    record_blocked([JudgedCandidate("c", [failed], version)], MODEL, gateway)
    assert "verdict" in wrong(gateway, store)  # it was blocked since
    gateway.client.delete_model_version(LEDGER, "2")
    assert "ledger" in wrong(gateway, store)


def test_a_machine_that_only_signs_remembers_what_it_added_to_the_ledger(
    gateway, promoted, monkeypatch, tmp_path
):
    monkeypatch.setenv("BIASGATE_TRUSTED_KEYS", str(tmp_path / "new" / "folder"))
    signing_key(monkeypatch, tmp_path / "secret")
    promoted()
    promoted()
    gateway.client.delete_model_version(LEDGER, "2")
    gateway.set_alias(MODEL, "champion", "1")
    with pytest.raises(InputError, match="missing or changed: entry 2, which this machine saw"):
        require_sound(Ledger(gateway, MODEL))


def test_a_machine_that_neither_signs_nor_trusts_writes_nothing_to_remember(
    promoted, monkeypatch, tmp_path
):
    monkeypatch.delenv("BIASGATE_TRUSTED_KEYS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    promoted()
    assert not (tmp_path / "config").exists()


@pytest.mark.mlflow
def test_an_earlier_verdict_that_is_put_back_after_the_version_was_blocked_does_not_count(
    gateway, store, tmp_path
):
    version, lenient, scores = judged_version(gateway, store, tmp_path / "lenient")
    assert all(finding.holds for finding in verify_version(version, gateway))
    rules = [rule.model_copy(update={"floor": 0.999}) for rule in POLICY.rules]
    strict = POLICY.model_copy(update={"rules": rules})
    run_id = gateway.ensure_run(gateway.ensure_experiment("judged"), "strict", "strict")
    failed = judge_version(
        gateway, store, tmp_path / "strict", version, scores, policy=strict, run_id=run_id
    )
    assert failed.outcome == "fail"
    record_blocked([JudgedCandidate("c", [failed], version)], MODEL, gateway)
    gateway.tag_version(version, build_tags([lenient]))
    again = gateway.resolve(version.uri)
    [finding] = [finding for finding in verify_version(again, gateway) if not finding.holds]
    assert finding.sentence == (
        "models:/toxicity/1 passed after entry 1 of the ledger recorded that it did not."
    )
    with pytest.raises(NotVerifiedError, match="passed after entry 1"):
        promote_version(MODEL, "1", "please", gateway)


def test_a_version_that_passes_after_it_was_blocked_counts(gateway, store, tmp_path):
    version, verdict, scores = judged_version(gateway, store, tmp_path / "first")
    record_blocked(
        [JudgedCandidate("c", [replace(verdict, outcome="fail")], version)], MODEL, gateway
    )
    judge_version(gateway, store, tmp_path / "again", version, scores)
    findings = verify_version(gateway.resolve(version.uri), gateway)
    assert all(finding.holds for finding in findings)


# ------------------------------------------------------------------ what the policy forbids


def test_no_first_champion_is_made_by_hand_where_the_policy_forbids_one(gateway, store, tmp_path):
    alone = {"metric": "auc", "scope": "overall", "floor": 0.6}
    policy = Policy.model_validate({"version": 1, "name": "alone", "rules": [alone]})
    _, verdict, _ = judged_version(gateway, store, tmp_path / "first", policy=policy)
    assert (verdict.outcome, policy.allow_first) == ("pass", False)
    decision = promote_version(MODEL, "1", "please", gateway)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert "lacks a champion to compare with" in decision.sentence
    assert gateway.get_alias(MODEL, "champion") is None


def test_where_a_rule_compares_and_there_is_no_champion_none_is_made_by_hand(
    gateway, store, tmp_path
):
    policy = POLICY.model_copy(update={"allow_first": False})
    judged_version(gateway, store, tmp_path / "first", policy=policy)
    with pytest.raises(NotVerifiedError):
        promote_version(MODEL, "1", "please", gateway)
    assert gateway.get_alias(MODEL, "champion") is None


# ------------------------------------------------------------------ a deleted or moved alias


@pytest.mark.parametrize("change", ["deleted", "moved"])
def test_the_champion_of_the_ledger_stays_the_one_to_compare_with(
    gateway, store, promoted, tmp_path, change
):
    first = promoted()
    if change == "deleted":
        gateway.delete_alias(MODEL, "champion")
    else:
        other, _, _ = judged_version(gateway, store, tmp_path / "o", champion=first, seed=8)
        gateway.set_alias(MODEL, "champion", other.version)
    version, alone, _ = judged_version(gateway, store, tmp_path / "alone", seed=2)
    assert promote_one([alone], version, gateway).champion_moved
    with pytest.raises(
        InputError, match="compared with no champion, but champion is now models:/tox"
    ):
        promote_version(MODEL, version.version, "please", gateway)
    version, against, _ = judged_version(
        gateway, store, tmp_path / "against", champion=first, seed=4
    )
    assert promote_one([against], version, gateway).promoted
    assert wrong(gateway, store) == set()


def test_after_a_reset_there_is_no_champion_and_the_history_says_why(
    gateway, store, promoted, tmp_path
):
    promoted()
    promoted()
    decision = reset_ledger(MODEL, None, "the labels were wrong", gateway)
    assert decision.outcome == "pass"
    assert decision.sentence == (
        f"toxicity has no champion by entry 3 of {LEDGER} (the labels were wrong)."
    )
    assert gateway.get_alias(MODEL, "champion") is None
    last = read_history(MODEL, gateway)[0]
    assert (last.reason, last.replaces, last.version) == ("the labels were wrong", "2", "")
    assert entry(gateway, 3).content.note == "champion is no version"
    gateway.set_alias(MODEL, "champion", "2")  # past the ledger
    sentences = [
        finding.sentence
        for finding in verify_model(MODEL, None, gateway, store)
        if not finding.holds
    ]
    assert sentences == ["champion is version 2; last promoted: none."]
    gateway.delete_alias(MODEL, "champion")
    version, alone, _ = judged_version(gateway, store, tmp_path / "alone", seed=2)
    assert promote_one([alone], version, gateway).promoted
    assert wrong(gateway, store) == set()


@pytest.mark.usefixtures("key")
def test_a_reset_accepts_a_ledger_from_before_signing_and_keeps_the_champion(
    gateway, store, promoted, attacker
):
    attacker(promoted)
    assert "signature" in wrong(gateway, store)
    with pytest.raises(InputError, match="biasgate promote toxicity VERSION --reset --reason TEXT"):
        roll_back(MODEL, "x", gateway)
    decision = reset_ledger(MODEL, "1", "signed from now on", gateway)
    assert decision.sentence == (
        f"models:/toxicity/1 is champion by entry 2 of {LEDGER} (signed from now on)."
    )
    require_sound(Ledger(gateway, MODEL))
    assert find_champion(Ledger(gateway, MODEL)).version == "1"
    assert wrong(gateway, store) == set()


def test_what_came_before_a_reset_is_bound_by_it(gateway, store, promoted):
    promoted()
    promoted()
    gateway.client.delete_model_version(LEDGER, "1")
    assert wrong(gateway, store) == {"ledger"}
    reset_ledger(MODEL, "2", "cleaned up", gateway)
    assert Ledger(gateway, MODEL).read_entries()[-1].content.note == "champion is 2"
    require_sound(Ledger(gateway, MODEL))
    rewrite(gateway, Ledger(gateway, MODEL).read_entries()[0], reason="edited")
    with pytest.raises(InputError, match="an entry before the reset in entry 3 was changed"):
        require_sound(Ledger(gateway, MODEL))


def test_a_champion_that_was_deleted_is_told_with_what_to_do(gateway, promoted):
    first = promoted()
    gateway.client.delete_model_version(MODEL, first[0].version)
    with pytest.raises(InputError, match=r"version 1 .* must exist.*promote toxicity --reset"):
        find_champion(Ledger(gateway, MODEL))


# ------------------------------------------------------------------ keys


def test_after_a_rotation_everything_verifies(gateway, store, promoted, monkeypatch, tmp_path, key):
    promoted()
    promoted()
    new = signing_key(monkeypatch, tmp_path / "secret", "new")
    trust(monkeypatch, tmp_path / "trusted", new=new)
    promoted()
    assert wrong(gateway, store) == set()
    later = datetime.now(UTC) + timedelta(seconds=5)
    revoke(key, later.isoformat(timespec="seconds"))
    assert wrong(gateway, store) == set()
    former = gateway.resolve(f"models:/{MODEL}/1")
    assert all(finding.holds for finding in verify_version(former, gateway))


@pytest.mark.parametrize(("later", "holds"), [(0, False), (1, True)])
def test_what_is_dated_when_its_key_was_revoked_does_not_hold_and_a_second_before_it_does(
    gateway, promoted, key, later, holds
):
    _, logged, _ = promoted()
    with gateway.open_run_files(logged.run_id) as folder:
        documents = Documents.from_folder(folder, "comments")
        digests = {**documents.digests, FILE: EvidenceFile(folder / FILE).digest}
    envelope = Envelope.from_dict(gateway.read_json(logged.run_id, ATTESTATION), "it")
    signed_at = datetime.fromisoformat(read_annotations(read_statement(envelope, "it")).signed_at)
    revoke(key, (signed_at + timedelta(seconds=later)).isoformat())
    verdict = documents.verdict
    vouched = VouchedVerdicts(by_entry=frozenset({compute_verdict_digest(verdict)}))
    findings, _ = check_run_attestation(
        verdict, digests, gateway, logged.run_id, "comments", vouched
    )
    assert {finding.what: finding.holds for finding in findings} == {
        "attestation": True,
        "signature": holds,
    }


@pytest.mark.mlflow
def test_what_a_revoked_key_signed_last_does_not_hold(gateway, store, promoted, key):
    promoted()
    later = datetime.now(UTC) + timedelta(seconds=5)
    revoke(key, later.isoformat(timespec="seconds"))
    assert wrong(gateway, store) == {"signature"}


def test_a_stolen_revoked_key_cannot_forge_an_open_entry(
    gateway, store, promoted, monkeypatch, tmp_path, key
):
    first = promoted()
    new = signing_key(monkeypatch, tmp_path / "secret", "new")
    trust(monkeypatch, tmp_path / "trusted", new=new)
    second = promoted()
    revoke(key, datetime.now(UTC).isoformat(timespec="seconds"))
    version, verdict, _ = judged_version(gateway, store, tmp_path / "x", champion=second, seed=9)
    with monkeypatch.context() as stolen:
        stolen.setenv("BIASGATE_PRIVATE_KEY", str(tmp_path / "secret" / "key"))
        forge_open_entry(gateway, version.version, "2", verdict)
    gateway.set_alias(MODEL, "champion", version.version)
    settle_stale_entries(Ledger(gateway, MODEL))
    assert entry(gateway, 3).state == "abandoned"
    assert "revoked since" in entry(gateway, 3).content.note
    assert first


def test_a_machine_that_trusts_keys_but_has_none_adds_nothing(gateway, promoted, attacker):
    attacker(promoted)
    ledger = Ledger(gateway, MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BIASGATE_PRIVATE_KEY")
        with pytest.raises(InputError, match="BIASGATE_PRIVATE_KEY must be set to promote"):
            require_sound(ledger)


@pytest.mark.mlflow
def test_a_revoked_key_adds_nothing(gateway, promoted, key):
    promoted()
    revoke(key, "2026-01-01T00:00:00+00:00")
    with pytest.raises(InputError, match="must be trusted; it is revoked"):
        reset_ledger(MODEL, None, "please", gateway)


def test_a_revoked_or_missing_key_is_refused_before_anything_is_trained(key, monkeypatch, tmp_path):
    (tmp_path / "e.yaml").touch()
    monkeypatch.setattr(reading_evaluation, "read_evaluation", lambda *_: None)
    revoke(key, "2026-01-01T00:00:00+00:00")
    with pytest.raises(InputError, match="must be trusted; it is revoked"):
        reading_evaluation.read_evaluation_file.fn(str(tmp_path / "e.yaml"))
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", str(tmp_path / "none"))
    with pytest.raises(InputError, match="as a path it cannot be read"):
        reading_evaluation.read_evaluation_file.fn(str(tmp_path / "e.yaml"))


def test_nothing_is_removed_where_the_whole_ledger_is_gone(gateway, store, tmp_path):
    version, verdict, _ = judged_version(gateway, store, tmp_path / "first")
    assert promote_one([verdict], version, gateway).promoted
    judged_version(gateway, store, tmp_path / "second", seed=1)
    assert VerdictReferences.from_ledgers(gateway) != VerdictReferences()
    gateway.client.delete_registered_model(f"{MODEL}-promotions")
    with pytest.raises(InputError, match="must be whole and unchanged before anything is removed"):
        VerdictReferences.from_ledgers(gateway)
