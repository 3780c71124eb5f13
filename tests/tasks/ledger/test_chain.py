"""A year of entries, without a registry: keys are rotated and revoked, entries removed."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from support.promoted import entry_content, tag_of_entry

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.processes import describe_this_process
from biasgate.tasks.ledger import entry
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import TAG, Entry, VerdictReference, build_entry_tags, read_entry
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Head
from biasgate.tasks.signing.keys import PrivateKey, TrustedKey, TrustedKeys

START = datetime(2026, 1, 1, tzinfo=UTC)
ROTATED = 180


def format_day(number):
    return (START + timedelta(days=number)).isoformat(timespec="seconds")


@pytest.fixture(scope="module")
def keys():
    return [PrivateKey.generate(), PrivateKey.generate()]


@pytest.fixture(scope="module")
def year(keys):
    """A year of daily promotions; the key is rotated in the middle."""
    links = []
    with pytest.MonkeyPatch.context() as patch:
        for number in range(1, 366):
            patch.setenv("BIASGATE_PRIVATE_KEY", keys[number > ROTATED].pem)
            content = entry_content(
                replaces=str(number - 1) if number > 1 else "",
                version=str(number),
                rule="better",
                passed_over=[],
                verdicts=[VerdictReference(set="s", run_id="r", digest=f"d{number}")],
                model="m",
                number=number,
                predecessor=Chain(links[-1:]).head,
                time=format_day(number),
                state="done",
            )
            tags = tag_of_entry(content.to_dict())
            links.append(read_entry(ModelVersion("m-promotions", str(number), None, tags)))
    return links


def test_a_record_writes_and_signs_the_bytes_that_it_was_read_from(year, keys, monkeypatch):
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", keys[0].pem)
    for link in (year[0], year[1]):
        assert json.loads(build_entry_tags(link.content)[TAG]) == json.loads(link.record.tags[TAG])
        payload = json.loads(link.record.tags[TAG])["payload"]
        assert link.digest == json_digest(payload)


def make_trusted_keys(keys, *, revoked=None):
    known = {
        one.public.key_id: TrustedKey(one.public, f"key {number}", "")
        for number, one in enumerate(keys)
    }
    if revoked is not None:
        first = keys[0].public
        known[first.key_id] = TrustedKey(first, "key 0", "", revoked, "stolen")
    return TrustedKeys(known)


@pytest.mark.parametrize(
    ("n_entries", "n_unknown", "revoked", "refused"),
    [
        (365, 0, None, []),  # after a rotation
        (365, 0, format_day(ROTATED + 1), []),  # revoked after the rotation
        (365, 0, format_day(100), range(100, ROTATED + 1)),  # dated later
        (ROTATED, 0, format_day(365), range(1, ROTATED + 1)),  # no later trusted entry
        (365, 1, None, range(1, ROTATED + 1)),  # later entries do not vouch for an unknown key
        (ROTATED, 1, None, range(1, ROTATED + 1)),
    ],
)
def test_which_entries_of_a_rotated_key_verify(year, keys, n_entries, n_unknown, revoked, refused):
    chain, trusted = Chain(year[:n_entries]), make_trusted_keys(keys[n_unknown:], revoked=revoked)
    checks = chain.check_signatures(trusted)
    assert sorted(link.number for link, _, accepted in checks if not accepted) == [*refused]
    assert list(chain.find_breaks("m")) == []


@pytest.mark.parametrize("number", [2, ROTATED, 364])
def test_each_removed_entry_is_found_where_it_was(year, number):
    [problem] = Chain([link for link in year if link.number != number]).find_breaks("m")
    assert problem.startswith(f"entry {number + 1} was written after entry {number};")


def test_entries_of_another_model_are_found(year):
    assert len(list(Chain(year).find_breaks("another"))) == len(year)


@pytest.mark.parametrize(
    ("action", "champion", "replaces", "said"),
    [
        ("promotion", "1", "2", "entry 2 replaces version 2, but champion was version 1"),
        ("promotion", "1", "", "entry 2 replaces version none, but champion was version 1"),
        ("reset", "", "2", "entry 2 replaces version 2, but champion was version none"),
    ],
)
def test_an_entry_that_replaces_another_version_than_the_champion_is_found(
    action, champion, replaces, said
):
    first = {"action": action, "version": champion, "accepted": Chain(()).combined_digest}
    links = []
    for number, found in enumerate((first, {"version": "3", "replaces": replaces}), 1):
        place = {"model": "m", "number": number, "predecessor": Chain(links).head}
        content = entry_content(state="done", **place, **found)
        links.append(Entry(number, content, ModelVersion("m-promotions", str(number), None, {})))
    assert list(Chain(links).find_breaks("m")) == [said]


def make_chain(*actions):
    """Return a chain of completed entries, one per action."""
    contents = [entry_content(action=action, state="done") for action in actions]
    return Chain([Entry(number, content, None) for number, content in enumerate(contents, 1)])


def test_only_what_came_before_a_reset_need_not_be_there_any_more():
    chain = make_chain("blocked", "reset", "blocked")
    assert all(
        chain.has_head(Head(number=number, digest=digest))
        for number, digest in chain.digests.items()
    )
    found = [number for number in range(5) if chain.has_head(Head(number=number, digest="removed"))]
    assert found == [0, 1]
    unreset = make_chain("blocked", "blocked")
    assert not any(unreset.has_head(Head(number=number, digest="removed")) for number in range(4))


def test_verdicts_are_vouched_for_as_far_as_entries_are_accepted(year, keys):
    vouched = (
        Chain(year).find_vouched_verdicts(make_trusted_keys(keys, revoked=format_day(100))).by_entry
    )
    assert {f"d{one}" for one in (99, 181, 365)} <= vouched
    assert f"d{ROTATED}" not in vouched


@pytest.mark.parametrize(
    ("is_kept", "by_reset"), [(True, {"verdict 1", "verdict 2"}), (False, set())]
)
def test_a_reset_vouches_for_the_verdicts_up_to_it_if_nothing_before_it_was_changed(
    is_kept, by_reset
):
    links = []
    for number, action in enumerate(("promotion", "reset", "promotion"), 1):
        verdicts = [VerdictReference(set="s", run_id="r", digest=f"verdict {number}")]
        accepted = Chain(links).combined_digest if is_kept else "of other entries"
        content = entry_content(action=action, verdicts=verdicts, accepted=accepted, state="done")
        links.append(Entry(number, content, None))
    found = Chain(links).find_vouched_verdicts(TrustedKeys({}))
    assert found.by_entry == {"verdict 1", "verdict 2", "verdict 3"}
    assert found.by_reset == by_reset


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ({"action": "promotion"}, "version"),
        ({"action": "rollback"}, "version"),
        ({"action": "blocked", "passed_over": []}, "version"),
        ({"action": "blocked"}, "blocked"),
    ],
)
def test_an_entry_that_lacks_what_its_action_needs_is_refused(said, missing):
    tags = build_entry_tags(entry_content(state="abandoned", **said))
    with pytest.raises(InputError, match=f"must name `{missing}`, since its action is"):
        read_entry(ModelVersion("m-promotions", "1", None, tags))


def test_a_number_that_no_reader_accepts_is_not_written():
    content = entry_content(number=float("nan"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        build_entry_tags(content)


@pytest.mark.parametrize(
    ("age", "is_stale"), [(0, False), (299, False), (300, True), (-299, False), (-301, True)]
)
def test_who_promotes_on_another_machine_counts_as_ended_after_five_minutes(
    age, is_stale, monkeypatch
):
    """The registry's clock determines the age, regardless of the entry's own times."""
    made = 1_800_000_000
    monkeypatch.setattr(entry, "time", SimpleNamespace(time=lambda: made + age))
    content = entry_content(expires="2099-01-01T00:00:00+00:00", owner="elsewhere 1 2.0 abc")
    record = ModelVersion("m-promotions", "1", None, {}, created=1000 * made)
    assert Entry(1, content, record).is_stale is is_stale


def test_who_promotes_on_this_machine_counts_as_ended_with_its_process(monkeypatch):
    own = describe_this_process()
    machine, pid, started = own.rsplit(" ", 2)

    def is_stale(process):
        content = entry_content(expires="2099-01-01T00:00:00+00:00", owner=f"{process} abc")
        return Entry(1, content, ModelVersion("m-promotions", "1", None, {})).is_stale

    assert is_stale(own)  # it runs, but does not promote any more
    assert is_stale(f"{machine} {pid} {float(started) - 60}")  # it had this number before
    monkeypatch.setattr(entry, "active_owners", {f"{own} abc"})
    assert not is_stale(own)
