"""Remembered ledgers: different spellings of a registry's address are equal."""

import hashlib
import json
import shutil
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from support.promoted import MODEL, trust

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger import entry, ledger
from biasgate.tasks.ledger.entry import Move
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.ledger.sound import SEEN_FILE, normalize_address, read_last_heads, require_sound
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.by_hand import reset_ledger
from biasgate.tasks.promoting.champion import record_move, take_turn
from biasgate.tasks.promoting.pinned import register_policy
from biasgate.tasks.records import Head
from biasgate.tasks.signing.keys import get_trust_folder


@pytest.mark.parametrize(
    ("uri", "same"),
    [
        ("http://localhost:5000", "http://127.0.0.1:5000/"),
        ("http://LOCALHOST:5000/mlflow", "http://[::1]:5000//mlflow/./"),
        ("https://mlflow.example.org", "HTTPS://MLflow.example.org.:443/"),
        ("https://me:secret@mlflow.example.org/a", "https://mlflow.example.org/b/../a/"),
        ("sqlite:////tmp/store/mlflow.db", "sqlite:////tmp/./store/../store//mlflow.db"),
        ("file:///srv/ml%20runs", "/srv/ml runs/"),
        ("http://mlflow.example.org:80/a", "http://mlflow.example.org/a"),
        ("postgresql://one@db/mlflow", "postgresql+psycopg2://other:x@db:5432/mlflow"),
        ("mysql+pymysql://one@db:3306/mlflow", "mysql://db/mlflow"),
    ],
)
def test_two_spellings_of_an_address_are_one_place(uri, same):
    assert normalize_address(uri) == normalize_address(same)


@pytest.mark.parametrize(
    ("uri", "other"),
    [
        ("http://localhost:5000", "http://localhost:5001"),
        ("http://localhost/a", "http://localhost/b"),
        ("http://one.example.org", "http://two.example.org"),
        ("sqlite:////tmp/a.db", "sqlite:////tmp/b.db"),
        ("databricks://one", "databricks://two"),
    ],
)
def test_different_addresses_are_different_places(uri, other):
    assert normalize_address(uri) != normalize_address(other)


def test_a_link_to_a_registry_is_the_same_place(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert normalize_address(f"sqlite:///{tmp_path}/link/a.db") == normalize_address(
        f"sqlite:///{tmp_path}/real/a.db"
    )


@pytest.fixture
def shortened(registry, key):
    """A ledger without its last entry and all references to it."""
    assert key
    registry.promote_next()
    registry.promote_next()
    registry.remove_entry(2)
    registry.gateway.set_alias(MODEL, "champion", "1")
    return registry.gateway


@pytest.mark.mlflow
@pytest.mark.parametrize("place", ["another spelling", "a copy, known by its first entry"])
def test_a_shortened_ledger_is_found_at_another_address_by_its_first_entry(
    shortened, store, tmp_path, place
):
    if place == "another spelling":
        uri = shortened.uri.replace("mlflow.db", "./mlflow.db")
        other = Gateway(uri, shortened.artifacts)
    else:
        other = Gateway.from_store(shutil.copytree(store, tmp_path / "copied"))
    with pytest.raises(InputError, match="entry 2, which this machine saw before"):
        require_sound(Ledger(other, MODEL))


@pytest.mark.parametrize(
    ("see", "number"),
    [
        (lambda registry: registry.failed, 2),
        (lambda registry: require_sound(registry.ledger), 2),
        (lambda registry: register_policy("default", MODEL, registry.gateway), 3),
        (lambda registry: reset_ledger(MODEL, "1", "please", registry.gateway), 3),
    ],
    ids=["verification", "evaluation", "a policy", "a reset"],
)
def test_what_a_machine_has_seen_it_remembers(registry, key, see, number):
    registry.promote_next()
    registry.promote_next()
    trust(registry.patch, registry.folder / "another machine", evaluations=key)
    see(registry)
    registry.remove_entry(number)
    registry.gateway.set_alias(MODEL, "champion", "1")
    with pytest.raises(InputError, match=f"entry {number}, which this machine saw before"):
        require_sound(registry.ledger)


@pytest.mark.usefixtures("key")
def test_a_ledger_is_known_by_its_place_and_by_its_first_entry(registry):
    """Other releases on this machine read and write the same file."""
    registry.promote_next()
    registry.promote_next()
    model, file = registry.ledger, get_trust_folder() / SEEN_FILE
    place = hashlib.sha256(normalize_address(registry.gateway.registry_uri).encode()).hexdigest()
    first, last = (link.digest for link in model.chain.links)
    names = [f"{model.name} at {place[:16]}", f"{model.name} from {first[:16]}"]
    head = {"number": 2, "digest": last}
    assert json.loads(file.read_text("utf-8")) == dict.fromkeys(names, head)
    for name in names:
        file.write_text(json.dumps({name: {"number": 7, "digest": "d"}}), "utf-8")
        assert read_last_heads(model, model.chain) == [Head(number=7, digest="d")]


@pytest.mark.parametrize(
    "odd", ["7", "[7]", '{"number": 7}', '{"number": 7, "digest": "d", "a": 1}']
)
def test_what_names_no_last_entry_is_left_aside(registry, key, odd):
    assert key
    registry.promote_next()
    model, file = registry.ledger, get_trust_folder() / SEEN_FILE
    content = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(dict.fromkeys(content, json.loads(odd))), "utf-8")
    assert read_last_heads(model, model.chain) == []


def test_of_much_that_is_wrong_with_a_ledger_three_are_named(gateway, attacker):
    model = Ledger(gateway, MODEL)
    blocked = Move(action="blocked", reason="it did not pass", blocked=["7"])
    for _ in range(4):
        attacker(record_move, model, blocked, "version 7 is blocked")
    with pytest.raises(InputError) as refused:
        require_sound(model)
    expected = "; ".join(f"entry {number} is not signed" for number in (4, 3, 2))
    assert f"before anything is promoted; {expected}. Look at" in str(refused.value)


def test_an_entry_that_is_left_as_it_was_counts_as_ended(gateway):
    move = Move(action="blocked", reason="it did not pass", blocked=["7"])
    with Ledger(gateway, MODEL).open(move, None) as made:
        assert not made.is_stale
    assert made.is_stale


def test_whose_turn_it_is_settles_an_earlier_entry_that_was_left(gateway, monkeypatch):
    model, move = Ledger(gateway, MODEL), Move(action="blocked", reason="r", blocked=["7"])
    with model.open(move, None):
        pass  # it ended before its turn came
    rounds = iter([None])
    monkeypatch.setattr(Ledger, "await_entries", lambda *_: next(rounds))
    with model.open(move, None) as made:
        take_turn(model, made)
        left = [(item.state, item.content.note) for item in model.read_entries()]
    assert left == [("abandoned", "its owner ended before champion moved"), ("queued", "")]


def test_who_counts_as_ended_to_others_cannot_act_any_more(gateway, monkeypatch):
    model, clock = Ledger(gateway, MODEL), [datetime(2026, 11, 21, tzinfo=UTC)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return clock[0].astimezone(tz)

    for module in (ledger, entry):
        monkeypatch.setattr(module, "datetime", Clock)
    with model.open(Move(action="blocked", reason="r", blocked=["7"]), None) as made:
        for seconds, is_stale in ((299, False), (1, True), (1, True)):
            clock[0] += timedelta(seconds=seconds)
            assert made.is_stale is is_stale
            if is_stale:
                with pytest.raises(RuntimeError, match="its lease has expired: run again"):
                    model.claim(made, model.chain)
            else:
                assert model.claim(made, model.chain).state == "open"


def test_whoever_waits_for_an_entry_says_once_for_which_after_five_seconds(gateway, monkeypatch):
    model, clock, said = Ledger(gateway, MODEL), [100.0], []
    move = Move(action="blocked", reason="it did not pass", blocked=["7"])
    with model.open(move, None) as first:

        def slept(_):
            clock[0] += 2
            if clock[0] == 112:
                model.close(first, "abandoned", "enough")

        of_test = SimpleNamespace(monotonic=lambda: clock[0], sleep=slept)
        monkeypatch.setattr(ledger, "time", of_test)
        monkeypatch.setattr(ledger, "log_message", lambda text: said.append((clock[0], text)))
        model.await_entries([first])
    [(told_at, told)] = said
    owner, _ = first.content.owner.rsplit(" ", 1)  # without what is drawn at random
    assert told.startswith(f"waiting for entry 1 of {model.name}, which {owner} is working on, ")
    assert told.endswith("for 5 minutes at most")
    assert (told_at, clock) == (106, [112])
