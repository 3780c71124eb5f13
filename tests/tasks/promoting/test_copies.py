"""Promotion with `--from` of versions that MLflow copied to another registered name."""

import json

import pytest
from support.promoted import (
    LEDGER,
    MODEL,
    POLICY,
    judge_version,
    promote_one,
    revoke,
    signing_key,
    trust,
)
from support.registry import run_together
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.output import print_history
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.promoting import by_hand, champion
from biasgate.tasks.promoting.copies import promote_copy
from biasgate.tasks.promoting.pinned import register_policy
from biasgate.tasks.promoting.rivals import find_rivals
from biasgate.tasks.promoting.verify import open_champion, require_champion

PROD, LIVE = "prod.toxicity", "live.toxicity"
FIRST = f"{MODEL}/1"


def copy_version(registry, number="1", model=PROD, source=MODEL):
    """Copy a version to another name with MLflow."""
    made = registry.gateway.client.copy_model_version(f"models:/{source}/{number}", model)
    return registry.gateway.resolve(f"models:/{model}/{made.version}")


def upload_copy(registry):
    """Register the files of the first version under the second name; return version and run."""
    gateway, run = registry.gateway, registry.start_run("prod")
    with gateway.open_download(registry.get_version(1)) as folder:
        gateway.log_folder(run, folder, "model")
    return gateway.register(PROD, run, "model", {}), run


def promote_from(registry, source=FIRST, model=PROD, version=None, **options):
    return promote_copy(model, version, source, registry.gateway, **options)


def check_champion(registry, number="1", model=PROD):
    assert registry.find_alias(model=model) == number
    assert registry.describe_failures(model=model) == ""


def refuse_copy(registry, match, *arguments):
    """Check that a copy is refused, and that the second name keeps its champion."""
    before = registry.find_alias(model=PROD)
    with pytest.raises(InputError, match=match):
        promote_from(registry, *arguments)
    assert registry.find_alias(model=PROD) == before


@pytest.fixture
def copy(registry):
    """The unpromoted copy of a champion under the second name."""
    registry.promote_next()
    return copy_version(registry)


@pytest.fixture
def promoted_copy(registry, copy):
    """The copy, promoted."""
    assert promote_from(registry).promoted
    return copy


def test_a_copy_becomes_champion_by_the_verdict_of_its_source(registry, copy, tmp_path, capsys):
    gateway, source = registry.gateway, registry.get_version(1)
    decision = promote_from(registry, by="Ann", reason="ready", store=registry.store)
    assert (decision.outcome, decision.promoted) == ("pass", True)
    check_champion(registry)
    assert require_champion(PROD, gateway, registry.store).uri == copy.uri
    (tmp_path / "opened").mkdir()
    folder = open_champion(PROD, tmp_path / "opened", gateway, registry.store)
    assert (folder / "weights").read_text("utf-8") == "v0"
    [listed] = by_hand.read_history(PROD, gateway)
    assert (listed.action, listed.by, listed.rule) == ("promotion", "Ann", "by hand")
    assert (listed.source.model, listed.source.judged) == (source.uri, source.uri)
    assert listed.source.digest == gateway.read_manifest(copy).digest
    runs = [verdict.run_id for verdict in listed.verdicts]
    assert runs == [source.tags["biasgate.comments.run_id"]]
    print_history(PROD, [listed], everything=False)
    assert f"copy of: {source.uri} (files " in capsys.readouterr().out
    again = promote_from(registry, f"models:/{MODEL}@champion")
    assert (again.outcome, again.promoted) == ("pass", False)


@pytest.mark.mlflow
def test_a_copy_in_a_registry_of_mlflow_becomes_champion(registry, promoted_copy):
    assert promoted_copy.source == registry.get_version(1).uri
    check_champion(registry)


def test_without_from_the_error_names_the_command(registry, copy):
    expected = f"promote {PROD} 1 --from {FIRST}"
    with pytest.raises(InputError, match=expected) as error:
        by_hand.promote_version(PROD, "1", None, registry.gateway)
    assert "ledger" not in str(error.value)
    assert expected in registry.describe_failures("1", PROD)
    registry.gateway.set_alias(PROD, "champion", copy.version)
    with pytest.raises(InputError, match="--from"):
        require_champion(PROD, registry.gateway)
    assert promote_from(registry).promoted  # the alias that was set by hand gets its entry
    check_champion(registry)
    assert by_hand.read_history(PROD, registry.gateway)[0].source is not None


def test_copies_do_not_hide_a_removed_entry(registry, copy):
    """Tags of copies name entries of another ledger; other tags are still checked."""
    del copy
    registry.promote_next()
    assert registry.failed == set()
    registry.remove_entry(2)
    registry.remove_entry(1)
    assert "Missing or changed: entry 1" in registry.describe_failures()


@pytest.mark.usefixtures("promoted_copy")
def test_a_copy_replaces_and_is_rolled_back(registry):
    registry.promote_next()
    copy_version(registry, "2")
    decision = promote_from(registry, f"{MODEL}/2")
    assert "models:/toxicity/2, which was compared with models:/toxicity/1" in decision.sentence
    check_champion(registry, "2")
    assert by_hand.roll_back(PROD, "complaints", registry.gateway).promoted
    check_champion(registry, "1")
    with pytest.raises(InputError, match="promoted with `--from`"):
        by_hand.promote_version(PROD, "2", "again", registry.gateway)
    assert promote_from(registry, f"{MODEL}/2").promoted
    check_champion(registry, "2")


def test_a_night_opens_a_copied_champion_with_the_options_of_its_source(registry):
    registry.promote_next(opened_as={"kind": "transformer", "max_tokens": 64})
    copy = copy_version(registry)
    promote_from(registry)
    rival = find_rivals({}, PROD, POLICY, [], registry.gateway)["champion"]
    assert (rival.uri, rival.kind, rival.max_tokens) == (copy.uri, "transformer", 64)


def test_a_named_version_needs_the_same_files_and_no_copying(registry):
    registry.promote_next()
    uploaded, _ = upload_copy(registry)
    refuse_copy(registry, "copy_model_version")
    assert promote_from(registry, version=uploaded.version).promoted
    check_champion(registry)


@pytest.mark.mlflow
@pytest.mark.parametrize("change", ["longer than before", "V0"])
def test_a_copy_with_other_bytes_is_refused(registry, change):
    registry.promote_next()
    uploaded, run = upload_copy(registry)
    with registry.gateway.open_run_files(run, ["model/weights"]) as files:
        (files / "model" / "weights").write_text(change, "utf-8")
    expected = r"different: weights: (changed|has 18 bytes; it had 2)"
    refuse_copy(registry, expected, FIRST, PROD, uploaded.version)
    assert Ledger(registry.gateway, PROD).read_entries() == []


@pytest.mark.usefixtures("promoted_copy")
def test_files_changed_later_do_not_verify(registry):
    (registry.find_files(1) / "weights").write_text("v9", "utf-8")
    assert "weights: changed" in registry.describe_failures(model=PROD)
    refuse_copy(registry, "weights: changed")


def test_a_source_without_a_pass_is_refused(registry):
    registry.promote_next()
    version, verdict, _ = registry.judge_next(noise=40.0, seed=2, champion=None)
    assert verdict.outcome != "pass"
    copy_version(registry, version.version)
    refuse_copy(registry, "not a pass", f"{MODEL}/{version.version}")
    copy_version(registry, "1", "bare")
    copy_version(registry, "1", "other", "bare")
    refuse_copy(registry, "promote bare 1 --from toxicity/1", "bare/1", "other", "1")


def test_a_source_that_was_rolled_back_is_refused(registry, copy):
    registry.promote_next()
    copy_version(registry, "2")
    by_hand.roll_back(MODEL, "worse at night", registry.gateway)
    expected = r"rolled back from models:/toxicity/2 \(worse at night\)"
    refuse_copy(registry, expected, f"{MODEL}/2", PROD, "2")
    # What was promoted before stays: `verify` reports the rollback of its source.
    promote_from(registry, version=copy.version)
    check_champion(registry)


@pytest.mark.usefixtures("promoted_copy")
def test_a_rejected_source_is_refused_and_its_promoted_copy_does_not_verify(registry):
    registry.promote_next()
    by_hand.reject_version(MODEL, "1", "flags names", "Bo", registry.gateway)
    expected = "models:/toxicity/1 did not pass by entry 3 of toxicity-promotions"
    assert expected in registry.describe_failures(model=PROD)
    second = copy_version(registry).version
    refuse_copy(registry, "entry 3 of the ledger recorded that it did not", FIRST, PROD, second)


@pytest.mark.mlflow
@pytest.mark.usefixtures("key", "promoted_copy")
def test_a_removed_rejection_is_found_under_the_sources_name(registry):
    registry.promote_next()
    by_hand.reject_version(MODEL, "1", "flags names", "Bo", registry.gateway)
    assert registry.describe_failures(model=PROD) != ""
    registry.remove_entry(3)
    assert "this machine saw before" in registry.describe_failures()
    second = copy_version(registry).version
    refuse_copy(registry, "this machine saw before", FIRST, PROD, second)
    assert registry.describe_failures(model=PROD) == ""  # as the table of attacks says


@pytest.mark.usefixtures("copy")
def test_a_source_rejected_while_its_copy_waits_is_refused(registry):
    """The source's ledger is not locked, so it is read again when the turn comes."""

    def reject():
        registry.gateway.delete_alias(MODEL, "champion")
        move = champion.Move(action="blocked", reason="late", by="Bo", blocked=["1"])
        champion.record_move(registry.ledger, move, "rejected")

    registry.interrupt("take_turn", reject, champion)
    decision = promote_from(registry)
    assert not decision.promoted
    assert "did not pass by entry 2" in decision.sentence
    assert registry.find_alias(model=PROD) is None


def test_a_copy_rejected_under_its_own_name_is_refused(registry, copy):
    by_hand.reject_version(PROD, "1", "not for production", "Bo", registry.gateway)
    decision = promote_from(registry)
    assert not decision.promoted
    assert f"{copy.uri} did not pass by entry 1" in decision.sentence


def test_a_revoked_source_is_refused(registry, key, tmp_path):
    registry.promote_next()
    copy_version(registry)
    revoke(key, "2020-01-01T00:00:00+00:00")
    signing_key(registry.patch, tmp_path / "new")
    refuse_copy(registry, "revoked")


@pytest.mark.usefixtures("copy")
def test_a_verdict_that_only_a_reset_accepts_is_refused(registry, tmp_path):
    new = signing_key(registry.patch, tmp_path / "secret")
    trust(registry.patch, tmp_path / "trusted", evaluations=new)
    by_hand.reset_ledger(MODEL, "1", "signed from now on", registry.gateway)
    assert registry.failed == set()
    refuse_copy(registry, "must have a verdict that a trusted key signed")


def edit_source(registry, **changes):
    """Edit the source of a promoted copy in its entry."""
    [made] = Ledger(registry.gateway, PROD).read_entries()
    registry.edit_entry(made, source=made.content.source.to_dict() | changes)


@pytest.mark.usefixtures("key", "promoted_copy")
def test_signed_promotions_of_copies_verify_and_edited_ones_do_not(registry, attacker):
    check_champion(registry)
    attacker(edit_source, registry, model="models:/toy/1")
    expected = "entry 1 of prod.toxicity-promotions is"
    assert expected in registry.describe_failures(model=PROD)
    refuse_copy(registry, "must be unchanged")


@pytest.mark.mlflow
@pytest.mark.usefixtures("promoted_copy")
@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("judged", "models:/toxicity/7", "promote prod.toxicity 1 --from toxicity/1"),
        ("digest", "0" * 64, "has the files that were promoted as a copy"),
        ("model", "toxicity", "must be an entry of the ledger"),
    ],
)
def test_an_edited_source_does_not_verify_without_keys(registry, field, value, expected):
    edit_source(registry, **{field: value})
    assert expected in registry.describe_failures(model=PROD)


@pytest.mark.usefixtures("promoted_copy")
def test_a_source_deleted_afterwards_leaves_its_copy_champion(registry):
    registry.promote_next()
    registry.gateway.client.delete_model_version(MODEL, "1")
    check_champion(registry)
    for name in (LEDGER, MODEL):
        registry.gateway.client.delete_registered_model(name)
    check_champion(registry)
    refuse_copy(registry, "`--from` must be NAME/VERSION of this registry")


def test_a_copy_of_a_copy_is_promoted_name_by_name(registry, copy):
    last = copy_version(registry, "1", LIVE, PROD)
    refuse_copy(registry, f"promote {PROD} 1 --from {FIRST}", f"{PROD}/1", LIVE)
    promote_from(registry)
    assert promote_from(registry, f"{PROD}/1", LIVE).promoted
    check_champion(registry, last.version, LIVE)
    [listed] = by_hand.read_history(LIVE, registry.gateway)
    judged = registry.get_version(1).uri
    assert (listed.source.model, listed.source.judged) == (copy.uri, judged)


def test_a_rejection_at_each_name_reaches_the_last_copy(registry, promoted_copy):
    copy_version(registry, "1", LIVE, PROD)
    promote_from(registry, f"{PROD}/1", LIVE)
    registry.promote_next()
    copy_version(registry, "2")
    promote_from(registry, f"{MODEL}/2")
    by_hand.reject_version(PROD, "1", "late", "Bo", registry.gateway)
    expected = f"{promoted_copy.uri} did not pass by entry 3"
    assert expected in registry.describe_failures(model=LIVE)


@pytest.mark.usefixtures("copy")
def test_only_the_registered_policy_is_accepted(registry, tmp_path):
    for policy in (POLICY.model_copy(update={"name": "strict", "allow_first": False}), POLICY):
        path = tmp_path / f"{policy.name}.yaml"
        path.write_text(policy.model_dump_json(exclude_none=True), "utf-8")
        register_policy(str(path), PROD, registry.gateway)
        if policy is not POLICY:
            refuse_copy(registry, "may move champion: policy strict")
    assert promote_from(registry).promoted
    check_champion(registry)


def test_a_manual_policy_needs_a_name_and_a_reason(registry):
    registry.judge_next(policy=POLICY.model_copy(update={"promote": "manual"}))
    copy_version(registry)
    for by, reason in ((None, "good"), ("Ann", None)):
        with pytest.raises(InputError, match="`--by` and `--reason` must be given"):
            promote_from(registry, by=by, reason=reason)
    assert promote_from(registry, by="Ann", reason="good").promoted
    check_champion(registry)


def test_of_two_promotions_at_once_one_makes_the_champion(registry, copy):
    registry.promote_next()
    second = copy_version(registry, "2")
    results = run_together(lambda number: promote_from(registry, f"{MODEL}/{number}"), 1, 2)
    history = by_hand.read_history(PROD, registry.gateway)
    done = [item.version for item in history if item.state == "done"]
    assert len(done) == sum(getattr(one, "promoted", False) for one in results)
    assert done[0] in {copy.version, second.version}
    check_champion(registry, done[0])


@pytest.mark.usefixtures("copy")
def test_a_killed_promotion_of_a_copy_is_completed(registry, monkeypatch):
    class KilledError(BaseException):
        pass

    def die(*_):
        raise KilledError

    ledger = Ledger(registry.gateway, PROD)
    with monkeypatch.context() as patch:
        patch.setattr(champion, "_complete_entry", die)
        patch.setattr(champion, "_settle_entry", die)
        with pytest.raises(KilledError):
            promote_from(registry)
    [left] = ledger.read_entries()
    assert left.state == "open"
    check_champion(registry)
    [healed] = champion.settle_stale_entries(ledger)
    assert healed.number == left.number
    assert [item.state for item in ledger.read_entries()] == ["done"]
    check_champion(registry)


def test_a_copy_judged_under_its_own_name_needs_no_source(registry, copy, tmp_path):
    [(_, _, scores)] = registry.champions
    place = registry.gateway, registry.store, tmp_path / "own"
    verdict = judge_version(*place, copy, scores)
    copy = registry.gateway.resolve(copy.uri)
    assert promote_one([verdict], copy, registry.gateway, model=PROD).promoted
    check_champion(registry)
    assert by_hand.read_history(PROD, registry.gateway)[0].source is None


NO_VERSION = "must be NAME/VERSION"


@pytest.mark.usefixtures("copy")
@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("toxicity", NO_VERSION),
        ("toxicity/0", NO_VERSION),
        ("toxicity/1/1", NO_VERSION),
        ("toxicity@nobody", NO_VERSION),
        ("toxicity-promotions/1", NO_VERSION),
        ("/1", NO_VERSION),
        ("", NO_VERSION),
        ("../../etc/passwd", NO_VERSION),
        ("runs:/1/model", NO_VERSION),
        ("prod.toxicity/1", "must name a version of another registered model"),
    ],
)
def test_a_source_that_is_no_version_of_another_model_is_refused(registry, named, expected):
    refuse_copy(registry, expected, named)


def test_the_command_promotes_a_copy_and_refuses_other_combinations(registry, copy):
    def run(*arguments):
        done = CliRunner().invoke(app, [*arguments, "--store", str(registry.store)])
        return done.exit_code, " ".join((done.output + done.stderr).split())

    promoting = ("promote", PROD, "--from", FIRST)
    for options, told in (
        (("--reset", "--reason", "r"), "must be given without `--reset`"),
        (("--reject", "--by", "Bo", "--reason", "r"), "without `--from`"),
        (("--accept", "0"), "`--accept` only with `--reset`"),
    ):
        code, said = run(*promoting, *options)
        assert (code, told in said) == (2, True), said
    code, said = run("promote", PROD, copy.version)
    assert (code != 0, f"promote {PROD} 1 --from {FIRST}" in said) == (True, True), said
    code, said = run(*promoting, "--by", "Ann", "--reason", "reviewed")
    assert code == 0, said
    assert f"{copy.uri} is champion now. There was none before (reviewed; copy of" in said
    assert run("verify", PROD)[0] == 0
    [listed] = json.loads(run("history", PROD, "--json")[1])
    assert (listed["by"], listed["source"]["model"]) == ("Ann", f"models:/{FIRST}")


@pytest.mark.parametrize("name", ["a b", "x; rm -rf ~", "$(id)", 'quo"te', "-rf", "\x1b[2J"])
def test_hostile_names_are_quoted_and_escaped(registry, name):
    registry.promote_next()
    copy_version(registry, "1", name)
    assert "\x1b" not in registry.describe_failures("1", name)
    assert promote_from(registry, model=name).promoted
    check_champion(registry, model=name)
    copy_version(registry, "1", PROD, name)
    assert promote_from(registry, f"{name}/1").promoted
    check_champion(registry)
