"""A signature vouches only for checked entries; a reset accepts the others."""

import os
import pty
import subprocess
import sys
from dataclasses import replace

import pytest
from support.promoted import (
    LEDGER,
    MODEL,
    artifact,
    entry,
    judged_version,
    promote_one,
    revoke,
    signing_key,
    trust,
    wrong,
)
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger import ledger as ledgers
from biasgate.tasks.ledger.entry import EntryContent, Move, PolicyReference
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.ledger.sound import read_last_heads, require_sound
from biasgate.tasks.promoting import champion
from biasgate.tasks.promoting.by_hand import promote_version, read_history, reset_ledger, roll_back
from biasgate.tasks.promoting.champion import record_move
from biasgate.tasks.promoting.pinned import register_policy
from biasgate.tasks.promoting.verify import (
    NotVerifiedError,
    open_champion,
    require_champion,
    verify_model,
)
from biasgate.tasks.verifying.version import verify_version


@pytest.fixture
def forge(gateway, store, promoted, attacker, tmp_path):
    """Promote a version like an attacker with write access, but without a private key."""

    def forged():
        last = promoted.made[-1] if promoted.made else None
        judged = judged_version(gateway, store, tmp_path / "forged", champion=last, seed=9)
        assert promote_one([judged[1]], judged[0], gateway).promoted
        return judged

    return lambda: attacker(forged)


@pytest.fixture
def meanwhile(monkeypatch):
    """Call a function after the ledger was checked, while an entry waits for its turn."""

    def during(call):
        real, called = champion.take_turn, []

        def turn(ledger, own):
            if not called:
                called.append(True)
                call()
            real(ledger, own)

        monkeypatch.setattr(champion, "take_turn", turn)

    return during


def make_policy_move():
    return Move(
        action="policy", reason="registered", policy=PolicyReference(name="p", digest="0" * 64)
    )


def make_blocked_move(version):
    return Move(action="blocked", reason="did not pass", blocked=[version])


def abandon_entry(gateway):
    """Leave an abandoned entry, whose number an attacker can use later."""
    ledger = Ledger(gateway, MODEL)
    with ledger.open(make_policy_move(), None) as made:
        ledger.close(made, "abandoned", "")
    return made


def complete_forged(gateway, made, attacker, move, chain):
    """Complete an abandoned entry without a key."""

    def done():
        ledger = Ledger(gateway, MODEL)
        forged = vars(made.content) | vars(move) | {"expires": "2099-01-01T00:00:00+00:00"}
        claimed = ledger.claim(replace(made, content=EntryContent(**forged)), chain)
        ledger.close(claimed, "done", "forged")

    attacker(done)


# ------------------------------------------------------------------ while a signer waits


ACTS = {
    "record": lambda gateway, _: record_move(
        Ledger(gateway, MODEL), make_blocked_move("7"), "versions are blocked"
    ),
    "policy": lambda gateway, _: register_policy("default", MODEL, gateway),
    "promotion": lambda gateway, next_one: promote_one([next_one[1]], next_one[0], gateway),
    "by hand": lambda gateway, next_one: promote_version(
        MODEL, next_one[0].version, "please", gateway
    ),
    "rollback": lambda gateway, _: roll_back(MODEL, "please", gateway),
}


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    "act",
    [pytest.param("promotion", marks=pytest.mark.mlflow), *sorted(ACTS.keys() - {"promotion"})],
)
def test_nothing_is_signed_on_top_of_what_was_forged_while_it_waited(
    gateway, store, promoted, attacker, meanwhile, tmp_path, act
):
    promoted()
    second = promoted()
    free, chain = abandon_entry(gateway), Ledger(gateway, MODEL).chain
    judged = judged_version(gateway, store, tmp_path / "next", champion=second, seed=2)
    meanwhile(lambda: complete_forged(gateway, free, attacker, make_blocked_move("9"), chain))
    with pytest.raises(InputError, match=r"must be unchanged .* entry 3 is not signed"):
        ACTS[act](gateway, judged)
    assert gateway.get_alias(MODEL, "champion").version == "2"
    assert entry(gateway, 4).state == "abandoned"


@pytest.mark.usefixtures("key")
def test_a_reset_refuses_to_accept_what_was_forged_after_it_was_shown(
    gateway, promoted, attacker, meanwhile
):
    promoted()
    free, chain = abandon_entry(gateway), Ledger(gateway, MODEL).chain
    meanwhile(lambda: complete_forged(gateway, free, attacker, make_blocked_move("9"), chain))
    with pytest.raises(InputError, match="must stay as it was shown; it has changed since"):
        reset_ledger(MODEL, "1", "please", gateway)
    assert entry(gateway, 3).state == "abandoned"


@pytest.mark.parametrize("act", ["record", "promotion", "reset"])
def test_what_another_promoter_closed_while_it_waited_does_not_act(
    gateway, store, promoted, meanwhile, tmp_path, act
):
    first, ledger = promoted(), Ledger(gateway, MODEL)
    judged = judged_version(gateway, store, tmp_path / "next", champion=first, seed=2)
    meanwhile(lambda: ledger.close(ledger.read_entries()[-1], "abandoned", "its lease had ended"))
    acts = ACTS | {"reset": lambda gateway, _: reset_ledger(MODEL, None, "please", gateway)}
    with pytest.raises(RuntimeError, match="must still be queued; it is abandoned"):
        acts[act](gateway, judged)
    assert gateway.get_alias(MODEL, "champion").version == "1"
    assert [item.state for item in ledger.read_entries()] == ["done", "abandoned"]


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("state", ["queued", "open"])
def test_nobody_waits_for_an_unsigned_entry_where_keys_are_trusted(
    gateway, promoted, attacker, monkeypatch, state
):
    promoted()
    ledger = Ledger(gateway, MODEL)
    monkeypatch.setattr(ledgers.time, "sleep", lambda _: pytest.fail("it waited"))

    def leave_one():
        made = ledger.open(make_policy_move(), None).__enter__()
        made = ledger.claim(made, ledger.chain) if state == "open" else made
        content = replace(made.content, owner="elsewhere 1 2.0 abc")
        ledger.close(replace(made, content=content), state, "")

    attacker(leave_one)
    told = f"entry 2 of .* it is {state} and not signed.* again 5 minutes after it was made"
    with pytest.raises(InputError, match=told):
        record_move(ledger, make_blocked_move("7"), "versions are blocked")
    assert entry(gateway, 3).state == "abandoned"


@pytest.mark.usefixtures("key")
def test_what_is_remembered_is_what_was_signed_and_not_what_came_after(
    gateway, promoted, attacker, monkeypatch
):
    promoted()
    ledger, real = Ledger(gateway, MODEL), Ledger.close

    def close(self, one, state, note):
        done = real(self, one, state, note)
        if note == "versions are blocked":
            monkeypatch.setattr(Ledger, "close", real)
            attacker(record_move, ledger, make_blocked_move("9"), "forged")
        return done

    monkeypatch.setattr(Ledger, "close", close)
    record_move(ledger, make_blocked_move("7"), "versions are blocked")
    assert len(ledger.chain.links) == 3
    assert {head.number for head in read_last_heads(ledger, ledger.chain)} == {2}


# ------------------------------------------------------------------ what a signature vouches for


def test_an_unsigned_move_below_a_signed_entry_does_not_hold(
    gateway, store, promoted, forge, monkeypatch, tmp_path
):
    promoted()
    forge()
    monkeypatch.setattr(champion, "require_sound", lambda *_: None)
    record_move(Ledger(gateway, MODEL), make_blocked_move("7"), "signed without a look")
    assert "signature" in wrong(gateway, store)
    with pytest.raises(NotVerifiedError, match=r"entry 2 of .* is not signed"):
        require_champion(MODEL, gateway)
    (tmp_path / "files").mkdir()
    with pytest.raises(NotVerifiedError, match="the verdict on comments is not signed"):
        open_champion(MODEL, tmp_path / "files", gateway)
    with pytest.raises(InputError, match="entry 2 is not signed"):
        require_sound(Ledger(gateway, MODEL))


@pytest.mark.usefixtures("key")
def test_a_signed_entry_does_not_vouch_for_a_verdict_that_is_not_signed(gateway, store, promoted):
    version, _, _ = promoted()
    artifact(gateway, version, "attestation.json").unlink()
    refused = [
        finding.sentence
        for finding in verify_model(MODEL, None, gateway, store)
        if not finding.holds
    ]
    assert any(
        sentence.startswith("the verdict on comments is not signed: ") for sentence in refused
    )


def test_a_verdict_of_an_unknown_key_counts_only_if_a_reset_accepted_it(
    gateway, store, promoted, monkeypatch, tmp_path, key
):
    promoted()
    new = signing_key(monkeypatch, tmp_path / "secret", "new")
    trust(monkeypatch, tmp_path / "others", new=new)
    assert key
    assert "signature" in wrong(gateway, store)
    reset_ledger(MODEL, "1", "the old key is lost", gateway)
    assert wrong(gateway, store) == set()
    promoted()
    assert wrong(gateway, store) == set()
    former = gateway.resolve(f"models:/{MODEL}/1")
    assert all(finding.holds for finding in verify_version(former, gateway))


def test_a_reset_vouches_only_for_what_it_accepted(gateway, promoted, forge, key):
    promoted()
    forge()
    reset_ledger(MODEL, "1", "seen", gateway)
    ledger = Ledger(gateway, MODEL)
    require_sound(ledger)
    assert key
    forged = entry(gateway, 2)
    gateway.tag_version(
        forged.record,
        {"biasgate.entry": forged.record.tags["biasgate.entry"].replace('"rule"', '"rule" ')},
    )
    require_sound(ledger)  # the same content
    gateway.client.delete_model_version(LEDGER, "2")
    with pytest.raises(InputError, match="entry before the reset in entry 3 was changed"):
        require_sound(ledger)


def test_what_a_reset_accepted_stays_accepted_after_its_key_was_rotated_and_revoked(
    gateway, store, promoted, attacker, monkeypatch, tmp_path, key
):
    attacker(promoted)
    reset_ledger(MODEL, "1", "signed from now on", gateway)
    new = signing_key(monkeypatch, tmp_path / "secret", "new")
    trust(monkeypatch, tmp_path / "trusted", new=new)
    promoted()
    revoke(key, "2099-01-01T00:00:00+00:00")
    assert wrong(gateway, store) == set()


def test_an_unsigned_reset_accepts_nothing(gateway, store, promoted, attacker, key):
    promoted()
    attacker(promoted)
    attacker(reset_ledger, MODEL, "2", "nothing to see", gateway)
    assert key
    sentences = [
        finding.sentence
        for finding in verify_model(MODEL, None, gateway, store)
        if not finding.holds
    ]
    assert any("entry 3 of toxicity-promotions is not signed" in sentence for sentence in sentences)


def test_the_history_says_who_signed_each_entry(gateway, promoted, attacker, key):
    attacker(promoted)
    reset_ledger(MODEL, "1", "signed from now on", gateway)
    assert key
    [accepted, before] = [entry.signed for entry in read_history(MODEL, gateway)]
    assert accepted.startswith("signed with the trusted key 'evaluations'")
    assert before == "not signed, accepted by a reset"


# ------------------------------------------------------------------ what a person is shown


def run_reset(store, *more):
    place = ["--reason", "seen", "--store", str(store)]
    return CliRunner().invoke(app, ["promote", MODEL, "1", "--reset", *place, *more])


def test_a_reset_shows_what_it_accepts_and_does_nothing_before_a_person_agrees(
    gateway, store, promoted, attacker, key
):
    attacker(promoted)
    assert key
    shown = run_reset(store)
    assert shown.exit_code != 0
    assert "accepts: entry 1 is not signed" in shown.output
    assert "accepts: the verdict on comments is not signed" in shown.output
    assert len(Ledger(gateway, MODEL).read_entries()) == 1
    digest = shown.output.rpartition("--accept ")[2].split()[0]
    done = run_reset(store, "--accept", digest)
    assert done.exit_code == 0, done.output
    assert wrong(gateway, store) == set()


def test_a_reset_refuses_another_digest_than_the_one_shown(gateway, store, promoted, attacker, key):
    attacker(promoted)
    assert key
    refused = run_reset(store, "--accept", "0123456789ab")
    assert "must be the digest of what is accepted" in refused.output
    assert len(Ledger(gateway, MODEL).read_entries()) == 1


def test_a_reset_of_a_sound_ledger_asks_nothing(store, promoted, key):
    promoted()
    assert key
    assert run_reset(store).exit_code == 0


@pytest.mark.slow
@pytest.mark.mlflow  # another process opens the store
@pytest.mark.parametrize(("answer", "n_entries"), [("n", 1), ("y", 2)])
def test_a_person_at_a_terminal_is_asked(
    gateway, store, promoted, attacker, key, answer, n_entries
):
    attacker(promoted)
    assert key
    terminal, its_input = pty.openpty()
    os.write(terminal, f"{answer}\n".encode())
    place = ["--reason", "seen", "--store", str(store)]
    asked = subprocess.run(
        [sys.executable, "-m", "biasgate", "promote", MODEL, "1", "--reset", *place],
        check=False,
        stdin=its_input,
        capture_output=True,
        text=True,
        timeout=300,
    )
    os.close(terminal)
    os.close(its_input)
    assert "accepts: entry 1 is not signed" in asked.stdout
    assert "Accept all of this? [y/N]" in asked.stdout
    assert (asked.returncode == 0) == (answer == "y"), asked.stderr
    assert len(Ledger(gateway, MODEL).read_entries()) == n_entries
