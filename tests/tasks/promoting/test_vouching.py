"""A signature vouches only for checked entries; a reset accepts the others."""

import os
import pty
import subprocess
import sys
from dataclasses import replace

import pytest
from support.promoted import MODEL, revoke, signing_key, trust
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
from biasgate.tasks.promoting.verify import NotVerifiedError, open_champion, require_champion
from biasgate.tasks.verifying.version import verify_version

POLICY_MOVE = Move(
    action="policy", reason="registered", policy=PolicyReference(name="p", digest="0" * 64)
)
NINE_BLOCKED = Move(action="blocked", reason="did not pass", blocked=["9"])


def record_blocked(ledger, note="versions are blocked"):
    return record_move(ledger, replace(NINE_BLOCKED, blocked=["7"]), note)


def forge_meanwhile(registry, attacker):
    """Complete an abandoned entry without a key, while the next entry waits for its turn."""
    ledger = registry.ledger
    with ledger.open(POLICY_MOVE, None) as made:
        ledger.close(made, "abandoned", "")
    chain = ledger.chain

    def complete():
        forged = vars(made.content) | vars(NINE_BLOCKED) | {"expires": "2099-01-01T00:00:00+00:00"}
        claimed = ledger.claim(replace(made, content=EntryContent(**forged)), chain)
        ledger.close(claimed, "done", "forged")

    registry.interrupt("take_turn", lambda: attacker(complete), champion)


def change_key(registry, folder="trusted"):
    """Sign with a new key, and trust it in a folder of keys."""
    new = signing_key(registry.patch, registry.folder / "secret", "new")
    trust(registry.patch, registry.folder / folder, new=new)


# ------------------------------------------------------------------ while a signer waits


ACTS = {
    "record": lambda registry, _: record_blocked(registry.ledger),
    "policy": lambda registry, _: register_policy("default", MODEL, registry.gateway),
    "promotion": lambda registry, judged: registry.promote(judged),
    "by hand": lambda registry, judged: promote_version(
        MODEL, judged[0].version, "please", registry.gateway
    ),
    "rollback": lambda registry, _: roll_back(MODEL, "please", registry.gateway),
    "reset": lambda registry, _: reset_ledger(MODEL, None, "please", registry.gateway),
}


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    "act",
    [pytest.param("promotion", marks=pytest.mark.mlflow), *sorted(ACTS.keys() - {"promotion"})],
)
def test_nothing_is_signed_on_top_of_what_was_forged_while_it_waited(registry, attacker, act):
    registry.promote_next()
    registry.promote_next()
    judged = registry.judge_next(seed=2)
    forge_meanwhile(registry, attacker)
    told = r"must be unchanged .* entry 3 is not signed"
    if act == "reset":
        told = "must stay as it was shown; it has changed since"
    with pytest.raises(InputError, match=told):
        ACTS[act](registry, judged)
    assert registry.find_alias() == "2"
    assert registry.read_entry(4).state == "abandoned"


@pytest.mark.parametrize("act", ["record", "promotion", "reset"])
def test_what_another_promoter_closed_while_it_waited_does_not_act(registry, act):
    registry.promote_next()
    ledger, judged = registry.ledger, registry.judge_next(seed=2)

    def close_last():
        ledger.close(ledger.read_entries()[-1], "abandoned", "its lease had ended")

    registry.interrupt("take_turn", close_last, champion)
    with pytest.raises(RuntimeError, match="must still be queued; it is abandoned"):
        ACTS[act](registry, judged)
    assert registry.find_alias() == "1"
    assert [item.state for item in ledger.read_entries()] == ["done", "abandoned"]


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("state", ["queued", "open"])
def test_nobody_waits_for_an_unsigned_entry_where_keys_are_trusted(registry, attacker, state):
    registry.promote_next()
    ledger = registry.ledger
    registry.patch.setattr(ledgers.time, "sleep", lambda _: pytest.fail("it waited"))

    def leave_entry():
        made = ledger.open(POLICY_MOVE, None).__enter__()
        made = ledger.claim(made, ledger.chain) if state == "open" else made
        content = replace(made.content, owner="elsewhere 1 2.0 abc")
        ledger.close(replace(made, content=content), state, "")

    attacker(leave_entry)
    told = f"entry 2 of .* it is {state} and not signed.* again 5 minutes after it was made"
    with pytest.raises(InputError, match=told):
        record_blocked(ledger)
    assert registry.read_entry(3).state == "abandoned"


@pytest.mark.usefixtures("key")
def test_what_is_remembered_is_what_was_signed_and_not_what_came_after(registry, attacker):
    registry.promote_next()
    ledger, real = registry.ledger, Ledger.close

    def close(self, one, state, note):
        done = real(self, one, state, note)
        if note == "versions are blocked":
            registry.patch.setattr(Ledger, "close", real)
            attacker(record_move, ledger, NINE_BLOCKED, "forged")
        return done

    registry.patch.setattr(Ledger, "close", close)
    record_blocked(ledger)
    assert len(ledger.chain.links) == 3
    assert {head.number for head in read_last_heads(ledger, ledger.chain)} == {2}


# ------------------------------------------------------------------ what a signature vouches for


def test_an_unsigned_move_below_a_signed_entry_does_not_hold(registry, attacker, tmp_path):
    registry.promote_next()
    attacker(registry.promote_next, seed=9)
    registry.patch.setattr(champion, "require_sound", lambda *_: None)
    record_blocked(registry.ledger, "signed without a look")
    assert "signature" in registry.failed
    with pytest.raises(NotVerifiedError, match=r"entry 2 of .* is not signed"):
        require_champion(MODEL, registry.gateway)
    (tmp_path / "files").mkdir()
    with pytest.raises(NotVerifiedError, match="the verdict on comments is not signed"):
        open_champion(MODEL, tmp_path / "files", registry.gateway)
    with pytest.raises(InputError, match="entry 2 is not signed"):
        require_sound(registry.ledger)


@pytest.mark.usefixtures("key")
def test_a_verdict_of_an_unknown_key_counts_only_if_a_reset_accepted_it(registry):
    registry.promote_next()
    change_key(registry, "others")
    assert "signature" in registry.failed
    reset_ledger(MODEL, "1", "the old key is lost", registry.gateway)
    assert registry.failed == set()
    registry.promote_next()
    assert registry.failed == set()
    findings = verify_version(registry.get_version(1), registry.gateway)
    assert all(finding.holds for finding in findings)


@pytest.mark.parametrize("how", ["removed", "edited"])
def test_a_reset_vouches_only_for_what_it_accepted(registry, attacker, how):
    registry.promote_next()
    attacker(registry.promote_next, seed=9)
    reset_ledger(MODEL, "1", "seen", registry.gateway)
    require_sound(registry.ledger)
    registry.put_tag(2, registry.read_tag(2).replace('"rule"', '"rule" '))
    require_sound(registry.ledger)  # the same content
    if how == "removed":
        registry.remove_entry(2)
    else:
        attacker(registry.edit_entry, 2, reason="edited")
    with pytest.raises(InputError, match="entry before the reset in entry 3 was changed"):
        require_sound(registry.ledger)


def test_what_a_reset_accepted_stays_accepted_after_its_key_was_rotated_and_revoked(
    registry, attacker, key
):
    attacker(registry.promote_next)
    reset_ledger(MODEL, "1", "signed from now on", registry.gateway)
    accepted, before = (entry.signed for entry in read_history(MODEL, registry.gateway))
    assert accepted.startswith("signed with the trusted key 'evaluations'")
    assert before == "not signed, accepted by a reset"
    change_key(registry)
    registry.promote_next()
    revoke(key, "2099-01-01T00:00:00+00:00")
    assert registry.failed == set()


# ------------------------------------------------------------------ what a person is shown


RESET = ["promote", MODEL, "1", "--reset", "--reason", "seen", "--store"]


def run_reset(registry, *more):
    return CliRunner().invoke(app, [*RESET, str(registry.store), *more])


def test_a_reset_shows_what_it_accepts_and_does_nothing_before_a_person_agrees(registry, attacker):
    attacker(registry.promote_next)
    shown = run_reset(registry)
    assert shown.exit_code != 0
    assert "accepts: entry 1 is not signed" in shown.output
    assert "accepts: the verdict on comments is not signed" in shown.output
    other = run_reset(registry, "--accept", "0123456789ab")
    assert "must be the digest of what is accepted" in other.output
    assert len(registry.ledger.read_entries()) == 1
    digest = shown.output.rpartition("--accept ")[2].split()[0]
    done = run_reset(registry, "--accept", digest)
    assert done.exit_code == 0, done.output
    assert registry.failed == set()
    assert run_reset(registry).exit_code == 0  # a sound ledger: nothing to accept


@pytest.mark.slow
@pytest.mark.mlflow  # another process opens the store
@pytest.mark.parametrize(("answer", "n_entries"), [("n", 1), ("y", 2)])
def test_a_person_at_a_terminal_is_asked(registry, attacker, answer, n_entries):
    attacker(registry.promote_next)
    terminal, its_input = pty.openpty()
    os.write(terminal, f"{answer}\n".encode())
    asked = subprocess.run(
        [sys.executable, "-m", "biasgate", *RESET, str(registry.store)],
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
    assert len(registry.ledger.read_entries()) == n_entries
