"""Attacks with write access everywhere, but without a private key."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.partial import partial
from support.promoted import (
    LEDGER,
    MODEL,
    POLICY,
    entry_content,
    judge_version,
    revoke,
    signing_key,
    tag_of_entry,
    trust,
)

from biasgate.tasks import reading_evaluation
from biasgate.tasks.cleaning import VerdictReferences
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger import entry as entries
from biasgate.tasks.ledger.chain import VouchedVerdicts
from biasgate.tasks.ledger.entry import TAG, VerdictReference
from biasgate.tasks.ledger.ledger import find_champion
from biasgate.tasks.ledger.sound import require_sound
from biasgate.tasks.promoting.by_hand import promote_version, read_history, reset_ledger, roll_back
from biasgate.tasks.promoting.champion import settle_stale_entries
from biasgate.tasks.promoting.decisions import record_blocked
from biasgate.tasks.promoting.rivals import pin_rivals
from biasgate.tasks.promoting.succession import JudgedCandidate
from biasgate.tasks.promoting.verify import NotVerifiedError, require_champion
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

GONE = {"owner": "elsewhere 1 2.0 abc", "expires": "2026-01-01T00:05:00+00:00"}
"""A promoter that ended."""


def rotate_key(registry):
    """Sign with a new trusted key from now on."""
    new = signing_key(registry.patch, registry.folder / "secret", "new")
    trust(registry.patch, registry.folder / "trusted", new=new)


def record_failure(registry, version, verdict):
    """Record in the ledger that a version did not pass."""
    failed = JudgedCandidate("c", [replace(verdict, outcome="fail")], version)
    record_blocked([failed], MODEL, registry.gateway)


# ------------------------------------------------------------------ the chain


@pytest.mark.usefixtures("key")
def test_untouched_entries_are_chained_and_signed(registry):
    for _ in range(3):
        registry.promote_next()
    assert registry.failed == set()
    predecessors = [link.content.predecessor for link in registry.ledger.chain.links]
    assert [head and head.number for head in predecessors] == [None, 1, 2]


@pytest.mark.mlflow
def test_an_edited_unsigned_entry_is_refused_before_anything_is_added(registry, attacker):
    registry.promote_next()
    attacker(registry.edit_entry, 1, reason="nothing to see")
    with pytest.raises(InputError, match=r"entry 1 is not signed; missing .*`biasgate history"):
        require_sound(registry.ledger)


# ------------------------------------------------------------------ healing


def forge_open_entry(registry, judged, **changes):
    """Write an open entry, as left by a promoter that died after it moved the alias."""
    version, verdict, _ = judged
    content = entry_content(
        replaces="1",
        version=version.version,
        rule="newer",
        passed_over=[],
        verdicts=[VerdictReference(set="comments", run_id=verdict.run_id, digest="0")],
        model=MODEL,
        number=len(registry.gateway.list_versions(LEDGER)) + 1,
        predecessor=registry.ledger.chain.head,
        time="2026-01-01T00:00:00+00:00",
        state="open",
        **GONE,
    )
    registry.gateway.record_version(LEDGER, None, tag_of_entry(content.to_dict() | changes))
    registry.gateway.set_alias(MODEL, "champion", version.version)


@pytest.mark.mlflow
def test_a_forged_open_entry_is_not_healed_into_a_promotion(registry, attacker):
    registry.promote_next()
    attacker(forge_open_entry, registry, registry.judge_next(seed=3))
    assert "alias" in registry.failed
    [healed] = settle_stale_entries(registry.ledger)
    settled = registry.read_entry(healed.number)
    assert (settled.state, settled.content.note) == ("abandoned", "not completed: it is not signed")
    assert "alias" in registry.failed
    assert find_champion(registry.ledger).version == "1"


@pytest.mark.parametrize(
    ("changes", "noise", "words"),
    [
        ({}, 50.0, "not completed: "),  # the version was blocked
        ({"number": 9}, 1.6, "written as entry 9"),
        ({"model": "other"}, 1.6, "of other, and copied"),
        ({"predecessor": None}, 1.6, "was written after entry none"),
        ({"replaces": ""}, 1.6, "but champion was version 1"),
    ],
)
def test_an_open_entry_in_a_wrong_place_is_not_completed(registry, changes, noise, words):
    registry.promote_next()
    forge_open_entry(registry, registry.judge_next(seed=3, noise=noise), **changes)
    settle_stale_entries(registry.ledger)
    assert registry.read_entry(2).state == "abandoned"
    assert words in registry.read_entry(2).content.note


def test_a_stolen_revoked_key_cannot_forge_an_open_entry(registry, key):
    registry.promote_next()
    rotate_key(registry)
    registry.promote_next()
    revoke(key, datetime.now(UTC).isoformat(timespec="seconds"))
    judged = registry.judge_next(seed=9)
    with registry.patch.context() as stolen:
        stolen.setenv("BIASGATE_PRIVATE_KEY", str(registry.folder / "secret" / "key"))
        forge_open_entry(registry, judged, replaces="2")
    settle_stale_entries(registry.ledger)
    assert registry.read_entry(3).state == "abandoned"
    assert "revoked since" in registry.read_entry(3).content.note


COMPLETIONS = {
    "heal": lambda registry: settle_stale_entries(registry.ledger),
    "rollback": lambda registry: roll_back(MODEL, "complaints", registry.gateway),
    "reset": lambda registry: reset_ledger(MODEL, "2", "please", registry.gateway),
    "evaluation": lambda registry: pin_rivals.fn(
        None, None, MODEL, POLICY, [], partial({"gateway": registry.gateway})
    ),
}


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("completed_by", COMPLETIONS)
def test_a_promotion_that_was_killed_after_it_moved_the_alias_holds_and_is_completed(
    registry, tmp_path, completed_by
):
    registry.promote_next()
    version, _, _ = registry.promote_next(seed=3)
    registry.edit_entry(2, state="open", **GONE)
    registry.gateway.delete_alias(MODEL, "previous_champion")
    (tmp_path / "trusted" / "ledgers_seen.json").unlink()  # it was killed before that
    assert registry.failed == set()
    done = COMPLETIONS[completed_by](registry)
    if completed_by == "evaluation":
        assert done["champion"].uri == version.uri
    assert registry.read_entry(2).state == "done"
    champions = [registry.find_alias(name) for name in ("champion", "previous_champion")]
    assert champions == (["1", "2"] if completed_by == "rollback" else ["2", "1"])
    assert registry.failed == set()


@pytest.mark.usefixtures("key")
def test_a_promotion_that_was_killed_before_it_moved_the_alias_is_abandoned(registry):
    registry.promote_next()
    registry.promote_next(seed=3)
    registry.edit_entry(2, state="open", **GONE)
    registry.gateway.set_alias(MODEL, "champion", "1")
    settle_stale_entries(registry.ledger)
    left, note = registry.read_entry(2), "its owner ended before champion moved"
    assert (left.state, left.content.note) == ("abandoned", note)
    assert find_champion(registry.ledger).version == "1"


# ------------------------------------------------------------------ a ledger that others wrote to


def test_versions_that_are_no_entries_stop_nothing(registry):
    registry.promote_next()
    for tags in ({}, {TAG: "not JSON"}, {TAG: "[]"}):
        registry.gateway.record_version(LEDGER, None, tags)
    assert len(read_history(MODEL, registry.gateway)) == 1
    registry.promote_next()
    assert registry.find_alias() == "2"


@pytest.mark.parametrize("command", [read_history, require_champion])
def test_a_ledger_is_not_a_model(registry, command):
    registry.promote_next()
    with pytest.raises(InputError, match=f"model '{LEDGER}' must be in the registry"):
        command(LEDGER, registry.gateway)


def test_an_entry_that_claims_a_long_lease_is_not_waited_for(registry):
    registry.promote_next()
    judged = registry.judge_next(seed=3)
    forge_open_entry(registry, judged, version="9", expires="2099-01-01T00:00:00+00:00")
    registry.gateway.set_alias(MODEL, "champion", "1")
    assert not registry.read_entry(2).is_stale
    with registry.patch.context() as later:
        later.setattr(entries, "LEASE", timedelta(0))
        assert registry.read_entry(2).is_stale
        settle_stale_entries(registry.ledger)
    assert registry.promote(judged).promoted


@pytest.mark.parametrize("answer", ["made twice", "lost"])
def test_an_entry_whose_answer_was_lost_is_not_waited_for(registry, answer):
    registry.promote_next()
    judged, make = registry.judge_next(seed=3), type(registry.gateway).record_version

    def make_twice(*arguments):
        make(*arguments)
        if answer == "lost":
            raise TimeoutError
        return make(*arguments)

    with registry.patch.context() as patch:
        patch.setattr(type(registry.gateway), "record_version", make_twice)
        if answer == "lost":
            with pytest.raises(TimeoutError):
                registry.promote(judged)
        else:
            assert registry.promote(judged).promoted
    assert registry.read_entry(2).state == "abandoned"
    assert registry.promote(judged).promoted == (answer == "lost")
    states = [item.state for item in registry.ledger.read_entries()]
    assert states == ["done", "abandoned", "done"]
    assert registry.failed == set()


# ------------------------------------------------------------------ tags decide nothing


@pytest.fixture
def failed_on_other(registry):
    """A version that passed on `comments` and failed on `other`; both are required."""
    version, verdicts = registry.judge_sets(comments={}, other={"noise": 50.0})
    assert verdicts[0].outcome == "pass" != verdicts[1].outcome
    return version


def refuse_edited(registry, version, tags, sentence, match):
    """Edit tags; the version verifies no more, and is not promoted by hand."""
    registry.gateway.tag_version(version, tags)
    edited = registry.gateway.resolve(version.uri)
    failures = [
        finding for finding in verify_version(edited, registry.gateway) if not finding.holds
    ]
    assert any(sentence in failure.sentence for failure in failures)
    with pytest.raises(NotVerifiedError, match=match):
        promote_version(MODEL, edited.version, "please", registry.gateway)
    return {failure.what for failure in failures}


@pytest.mark.mlflow
def test_a_required_set_that_is_taken_from_the_tag_is_still_required(registry, failed_on_other):
    tags = {"biasgate.required_sets": "comments"}
    sentence = " on other by policy p is not a pass"
    match = "require the same sets as its verdicts"
    failed = refuse_edited(registry, failed_on_other, tags, sentence, match)
    assert {"tags", "verdict"} <= failed


def test_a_required_set_whose_tags_are_removed_is_still_required(registry, failed_on_other):
    tags = {"biasgate.required_sets": "comments", "biasgate.other.run_id": ""}
    sentence = "the files of the verdict on other must be in run ?"
    refuse_edited(registry, failed_on_other, tags, sentence, "must be in run")


@pytest.mark.usefixtures("key")
def test_a_failed_verdict_is_not_replaced_by_the_one_on_another_set(registry, failed_on_other):
    tags = {
        key.replace(".comments.", ".other."): value
        for key, value in failed_on_other.tags.items()
        if key.startswith("biasgate.comments.")
    }
    sentence = "the verdict in the tags for other is about that set. It is about comments."
    refuse_edited(registry, failed_on_other, tags, sentence, "It is about comments")


@pytest.mark.usefixtures("key")
@pytest.mark.mlflow
def test_a_champion_that_was_weakened_while_it_was_compared_with_stops_the_promotion(registry):
    registry.promote_next()
    weights = registry.find_files(1) / "weights"
    kept = weights.read_text("utf-8")
    weights.write_text("weak", "utf-8")
    judged = registry.judge_next(seed=1)
    weights.write_text(kept, "utf-8")
    assert judged[1].outcome == "pass"
    expected = "champion in the comparison on comments, .*weights: changed"
    with pytest.raises(InputError, match=expected):
        registry.promote(judged)
    with pytest.raises(NotVerifiedError, match=expected):
        promote_version(MODEL, judged[0].version, "please", registry.gateway)


def test_a_champion_whose_own_verdict_is_missing_is_nothing_to_compare_with(registry):
    registry.promote_next()
    judged = registry.judge_next(seed=1)
    registry.find_file("verdict.json").unlink()
    with pytest.raises(InputError, match="A verdict behind its promotion is missing or changed"):
        registry.promote(judged)


@pytest.mark.usefixtures("key")
def test_an_entry_that_was_seen_is_remembered_also_where_the_champion_does_not_hold(registry):
    version, verdict, _ = registry.promote_next()
    record_failure(registry, version, verdict)
    assert "verdict" in registry.failed  # it was blocked since
    registry.remove_entry(2)
    assert "ledger" in registry.failed


def test_a_machine_that_only_signs_remembers_what_it_added_to_the_ledger(registry, tmp_path):
    registry.patch.setenv("BIASGATE_TRUSTED_KEYS", str(tmp_path / "new" / "folder"))
    signing_key(registry.patch, tmp_path / "secret")
    registry.promote_next()
    registry.promote_next()
    registry.remove_entry(2)
    registry.gateway.set_alias(MODEL, "champion", "1")
    with pytest.raises(InputError, match="missing or changed: entry 2, which this machine saw"):
        require_sound(registry.ledger)


def test_a_machine_that_neither_signs_nor_trusts_writes_nothing_to_remember(registry, tmp_path):
    registry.patch.delenv("BIASGATE_TRUSTED_KEYS")
    registry.patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    registry.promote_next()
    assert not (tmp_path / "config").exists()


@pytest.mark.mlflow
def test_an_earlier_verdict_that_is_put_back_after_the_version_was_blocked_does_not_count(registry):
    gateway = registry.gateway
    version, lenient, scores = registry.judge_next()
    assert all(finding.holds for finding in verify_version(version, gateway))
    rules = [rule.model_copy(update={"floor": 0.999}) for rule in POLICY.rules]
    options = {"policy": POLICY.model_copy(update={"rules": rules})}
    options["run_id"] = registry.start_run("strict")
    place = registry.folder / "strict"
    failed = judge_version(gateway, registry.store, place, version, scores, **options)
    assert failed.outcome == "fail"
    record_failure(registry, version, failed)
    gateway.tag_version(version, build_tags([lenient]))
    again = gateway.resolve(version.uri)
    [finding] = [finding for finding in verify_version(again, gateway) if not finding.holds]
    assert finding.sentence == (
        "models:/toxicity/1 passed after entry 1 of the ledger recorded that it did not."
    )
    with pytest.raises(NotVerifiedError, match="passed after entry 1"):
        promote_version(MODEL, "1", "please", gateway)


def test_a_version_that_passes_after_it_was_blocked_counts(registry):
    version, verdict, scores = registry.judge_next()
    record_failure(registry, version, verdict)
    judge_version(registry.gateway, registry.store, registry.folder / "again", version, scores)
    assert all(
        finding.holds for finding in verify_version(registry.get_version(1), registry.gateway)
    )


def test_no_first_champion_is_made_by_hand_where_the_policy_forbids_one(registry):
    alone = {"metric": "auc", "scope": "overall", "floor": 0.6}
    registry.judge_next(policy=Policy(version=1, name="alone", rules=[alone]))
    decision = promote_version(MODEL, "1", "please", registry.gateway)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert "lacks a champion to compare with" in decision.sentence
    registry.judge_next(policy=POLICY.model_copy(update={"allow_first": False}))
    with pytest.raises(NotVerifiedError):  # a rule compares
        promote_version(MODEL, "2", "please", registry.gateway)
    assert registry.find_alias() is None


# ------------------------------------------------------------------ a deleted or moved alias


@pytest.mark.parametrize("change", ["deleted", "moved"])
def test_the_champion_of_the_ledger_stays_the_one_to_compare_with(registry, change):
    registry.promote_next()
    if change == "deleted":
        registry.gateway.delete_alias(MODEL, "champion")
    else:
        other, _, _ = registry.judge_next(seed=8)
        registry.gateway.set_alias(MODEL, "champion", other.version)
    alone = registry.judge_next(seed=2, champion=None)
    assert registry.promote(alone).champion_moved
    expected = "compared with no champion, but champion is now models:/tox"
    with pytest.raises(InputError, match=expected):
        promote_version(MODEL, alone[0].version, "please", registry.gateway)
    registry.promote_next(seed=4)
    assert registry.failed == set()


def test_after_a_reset_there_is_no_champion_and_the_history_says_why(registry):
    registry.promote_next()
    registry.promote_next()
    decision = reset_ledger(MODEL, None, "the labels were wrong", registry.gateway)
    sentence = f"toxicity has no champion by entry 3 of {LEDGER} (the labels were wrong)."
    assert (decision.outcome, decision.sentence) == ("pass", sentence)
    assert registry.find_alias() is None
    last = read_history(MODEL, registry.gateway)[0]
    assert (last.reason, last.replaces, last.version) == ("the labels were wrong", "2", "")
    assert registry.read_entry(3).content.note == "champion is no version"
    registry.gateway.set_alias(MODEL, "champion", "2")  # past the ledger
    assert registry.describe_failures() == "champion is version 2; last promoted: none."
    registry.gateway.delete_alias(MODEL, "champion")
    registry.promote_next(seed=2, champion=None)
    assert registry.failed == set()


@pytest.mark.usefixtures("key")
def test_a_reset_accepts_a_ledger_from_before_signing_and_keeps_the_champion(registry, attacker):
    attacker(registry.promote_next)
    assert "signature" in registry.failed
    with pytest.raises(InputError, match="biasgate promote toxicity VERSION --reset --reason TEXT"):
        roll_back(MODEL, "x", registry.gateway)
    decision = reset_ledger(MODEL, "1", "signed from now on", registry.gateway)
    assert decision.sentence == (
        f"models:/toxicity/1 is champion by entry 2 of {LEDGER} (signed from now on)."
    )
    require_sound(registry.ledger)
    assert find_champion(registry.ledger).version == "1"
    assert registry.failed == set()


def test_a_champion_that_was_deleted_is_told_with_what_to_do(registry):
    registry.promote_next()
    registry.gateway.client.delete_model_version(MODEL, "1")
    with pytest.raises(InputError, match=r"version 1 .* must exist.*promote toxicity --reset"):
        find_champion(registry.ledger)


# ------------------------------------------------------------------ keys


def test_after_a_rotation_everything_verifies(registry, key):
    registry.promote_next()
    registry.promote_next()
    rotate_key(registry)
    registry.promote_next()
    assert registry.failed == set()
    revoke(key, (datetime.now(UTC) + timedelta(seconds=5)).isoformat(timespec="seconds"))
    assert registry.failed == set()
    assert all(
        finding.holds for finding in verify_version(registry.get_version(1), registry.gateway)
    )


@pytest.mark.parametrize(("later", "holds"), [(0, False), (1, True)])
def test_what_is_dated_when_its_key_was_revoked_does_not_hold_and_a_second_before_it_does(
    registry, key, later, holds
):
    (_, logged, _), gateway = registry.promote_next(), registry.gateway
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
def test_what_a_revoked_key_signed_last_does_not_hold(registry, key):
    registry.promote_next()
    revoke(key, (datetime.now(UTC) + timedelta(seconds=5)).isoformat(timespec="seconds"))
    assert registry.failed == {"signature"}


def test_a_machine_that_trusts_keys_but_has_none_adds_nothing(registry, attacker):
    attacker(registry.promote_next)
    registry.patch.delenv("BIASGATE_PRIVATE_KEY")
    with pytest.raises(InputError, match="BIASGATE_PRIVATE_KEY must be set to promote"):
        require_sound(registry.ledger)


@pytest.mark.mlflow
def test_a_revoked_key_adds_nothing(registry, key):
    registry.promote_next()
    revoke(key, "2026-01-01T00:00:00+00:00")
    with pytest.raises(InputError, match="must be trusted; it is revoked"):
        reset_ledger(MODEL, None, "please", registry.gateway)


def test_a_revoked_or_missing_key_is_refused_before_anything_is_trained(key, monkeypatch, tmp_path):
    (tmp_path / "e.yaml").touch()
    monkeypatch.setattr(reading_evaluation, "read_evaluation", lambda *_: None)
    revoke(key, "2026-01-01T00:00:00+00:00")
    with pytest.raises(InputError, match="must be trusted; it is revoked"):
        reading_evaluation.read_evaluation_file.fn(str(tmp_path / "e.yaml"))
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", str(tmp_path / "none"))
    with pytest.raises(InputError, match="as a path it cannot be read"):
        reading_evaluation.read_evaluation_file.fn(str(tmp_path / "e.yaml"))


def test_nothing_is_removed_where_the_whole_ledger_is_gone(registry):
    registry.promote_next()
    registry.judge_next(seed=1, champion=None)
    assert VerdictReferences.from_ledgers(registry.gateway) != VerdictReferences()
    registry.gateway.client.delete_registered_model(LEDGER)
    with pytest.raises(InputError, match="must be whole and unchanged before anything is removed"):
        VerdictReferences.from_ledgers(registry.gateway)
