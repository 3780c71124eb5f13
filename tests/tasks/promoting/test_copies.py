"""Promotion with `--from` of versions that MLflow copied to another registered name."""

import json
import threading

import pytest
from support.promoted import (
    MODEL,
    POLICY,
    judge_version,
    judged_version,
    promote_one,
    revoke,
    rewrite,
    signing_key,
    trust,
)
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.output import print_history
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.promoting import by_hand, champion
from biasgate.tasks.promoting.copies import promote_copy
from biasgate.tasks.promoting.pinned import register_policy
from biasgate.tasks.promoting.rivals import find_rivals
from biasgate.tasks.promoting.verify import open_champion, require_champion, verify_model

PROD = "prod.toxicity"


def copy_version(gateway, number="1", model=PROD, source=MODEL):
    """Copy a version to another name with MLflow."""
    made = gateway.client.copy_model_version(f"models:/{source}/{number}", model)
    return gateway.resolve(f"models:/{model}/{made.version}")


def list_failures(gateway, store, model=PROD, version=None):
    return [
        finding.sentence
        for finding in verify_model(model, version, gateway, store)
        if not finding.holds
    ]


def find_prod_champion(gateway, model=PROD):
    version = gateway.get_alias(model, "champion")
    return None if version is None else version.version


@pytest.fixture
def source(gateway, promoted):
    """A champion of the first name."""
    del gateway
    return promoted()[0]


@pytest.fixture
def copy(gateway, source):
    """Its unpromoted copy under the second name."""
    del source
    return copy_version(gateway)


def test_a_copy_becomes_champion_by_the_verdict_of_its_source(
    gateway, store, source, copy, tmp_path, capsys
):
    decision = promote_copy(
        PROD, None, f"{MODEL}/1", gateway, by="Ann", reason="ready", store=store
    )
    assert (decision.outcome, decision.promoted) == ("pass", True)
    assert find_prod_champion(gateway) == copy.version
    assert list_failures(gateway, store) == []
    assert require_champion(PROD, gateway, store).uri == copy.uri
    (tmp_path / "opened").mkdir()
    folder = open_champion(PROD, tmp_path / "opened", gateway, store)
    assert (folder / "weights").read_text("utf-8") == "v0"
    [listed] = by_hand.read_history(PROD, gateway)
    assert (listed.action, listed.by, listed.rule) == ("promotion", "Ann", "by hand")
    assert (listed.source.model, listed.source.judged) == (source.uri, source.uri)
    assert listed.source.digest == gateway.read_manifest(copy).digest
    assert [verdict.run_id for verdict in listed.verdicts] == [
        source.tags["biasgate.comments.run_id"]
    ]
    print_history(PROD, [listed], everything=False)
    assert f"copy of: {source.uri} (files " in capsys.readouterr().out
    again = promote_copy(PROD, None, f"models:/{MODEL}@champion", gateway)
    assert (again.outcome, again.promoted) == ("pass", False)


@pytest.mark.mlflow
def test_a_copy_in_a_registry_of_mlflow_becomes_champion(gateway, store, source, copy):
    assert copy.source == source.uri
    assert promote_copy(PROD, None, f"{MODEL}/1", gateway, store=store).promoted
    assert list_failures(gateway, store) == []


def test_without_from_the_error_names_the_command(gateway, store, copy):
    expected = f"promote {PROD} 1 --from {MODEL}/1"
    with pytest.raises(InputError) as error:
        by_hand.promote_version(PROD, "1", None, gateway)
    assert expected in str(error.value)
    assert "ledger" not in str(error.value)
    [sentence] = list_failures(gateway, store, version="1")
    assert expected in sentence
    gateway.set_alias(PROD, "champion", copy.version)
    with pytest.raises(InputError, match="--from"):
        require_champion(PROD, gateway)


def test_a_copy_whose_alias_was_set_by_hand_gets_its_entry(gateway, store, copy):
    gateway.set_alias(PROD, "champion", copy.version)
    assert promote_copy(PROD, None, f"{MODEL}/1", gateway).promoted
    assert list_failures(gateway, store) == []
    [listed] = by_hand.read_history(PROD, gateway)
    assert listed.source is not None


def test_copies_do_not_hide_a_removed_entry(gateway, store, source, copy, promoted):
    """Tags of copies name entries of another ledger; other tags are still checked."""
    del source, copy
    promoted()
    assert list_failures(gateway, store, MODEL) == []
    gateway.client.delete_model_version(f"{MODEL}-promotions", "2")
    gateway.client.delete_model_version(f"{MODEL}-promotions", "1")
    assert any(
        "Missing or changed: entry 1" in sentence
        for sentence in list_failures(gateway, store, MODEL)
    )


def test_a_copy_replaces_and_is_rolled_back(gateway, store, copy, promoted):
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    promoted()
    second = copy_version(gateway, "2")
    decision = promote_copy(PROD, None, f"{MODEL}/2", gateway)
    assert decision.promoted
    assert "models:/toxicity/2, which was compared with models:/toxicity/1" in decision.sentence
    assert find_prod_champion(gateway) == second.version
    assert by_hand.roll_back(PROD, "complaints", gateway).promoted
    assert find_prod_champion(gateway) == copy.version
    assert list_failures(gateway, store) == []
    with pytest.raises(InputError, match="promoted with `--from`"):
        by_hand.promote_version(PROD, "2", "again", gateway)
    assert promote_copy(PROD, None, f"{MODEL}/2", gateway).promoted
    assert list_failures(gateway, store) == []


def test_a_night_compares_candidates_with_a_copied_champion(gateway, copy):
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    rivals = find_rivals({}, PROD, POLICY, [], gateway)
    assert (rivals["champion"].uri, rivals["champion"].kind) == (copy.uri, "mlflow")


def test_options_of_the_source_open_the_copy(gateway, store, tmp_path):
    options = {"kind": "transformer", "max_tokens": 64}
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v0", opened_as=options)
    assert promote_one([verdict], version, gateway).promoted
    copy_version(gateway)
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    rivals = find_rivals({}, PROD, POLICY, [], gateway)
    assert (rivals["champion"].kind, rivals["champion"].max_tokens) == ("transformer", 64)


def test_a_named_version_needs_the_same_files_and_no_copying(gateway, store, source):
    with gateway.open_download(source) as folder:
        gateway.log_folder(
            run := gateway.ensure_run(gateway.ensure_experiment("prod"), "k", "n"), folder, "model"
        )
    uploaded = gateway.register(PROD, run, "model", {})
    with pytest.raises(InputError, match="copy_model_version"):
        promote_copy(PROD, None, f"{MODEL}/1", gateway)
    assert promote_copy(PROD, uploaded.version, f"{MODEL}/1", gateway).promoted
    assert list_failures(gateway, store) == []


@pytest.mark.mlflow
@pytest.mark.parametrize("change", ["longer than before", "V0"])
def test_a_copy_with_other_bytes_is_refused(gateway, source, change):
    with gateway.open_download(source) as folder:
        run = gateway.ensure_run(gateway.ensure_experiment("prod"), "k", "n")
        gateway.log_folder(run, folder, "model")
    uploaded = gateway.register(PROD, run, "model", {})
    with gateway.open_run_files(run, ["model/weights"]) as files:
        (files / "model" / "weights").write_text(change, "utf-8")
    with pytest.raises(InputError, match=r"different: weights: (changed|has 18 bytes; it had 2)"):
        promote_copy(PROD, uploaded.version, f"{MODEL}/1", gateway)
    assert find_prod_champion(gateway) is None
    assert Ledger(gateway, PROD).read_entries() == []


def test_files_changed_later_do_not_verify(gateway, store, source, copy):
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    with gateway.open_run_files(source.run_id, ["model/weights"]) as files:
        (files / "model" / "weights").write_text("v9", "utf-8")
    assert any("weights: changed" in sentence for sentence in list_failures(gateway, store))
    with pytest.raises(InputError, match="weights: changed"):
        promote_copy(PROD, None, f"{MODEL}/1", gateway)
    del copy


def test_a_source_without_a_pass_is_refused(gateway, store, tmp_path, source):
    version, verdict, _ = judged_version(gateway, store, tmp_path / "bad", noise=40.0, seed=2)
    assert verdict.outcome != "pass"
    copy_version(gateway, version.version)
    with pytest.raises(InputError, match="not a pass"):
        promote_copy(PROD, None, f"{MODEL}/{version.version}", gateway)
    copy_version(gateway, "1", "bare")
    with pytest.raises(InputError, match="promote bare 1 --from toxicity/1"):
        promote_copy(
            "other", copy_version(gateway, "1", "other", "bare").version, "bare/1", gateway
        )
    assert find_prod_champion(gateway) is None
    del source


def test_a_source_that_was_rolled_back_is_refused(gateway, store, copy, promoted):
    promoted()
    copy_version(gateway, "2")
    by_hand.roll_back(MODEL, "worse at night", gateway)
    with pytest.raises(InputError, match=r"rolled back from models:/toxicity/2 \(worse at night\)"):
        promote_copy(PROD, "2", f"{MODEL}/2", gateway)
    assert find_prod_champion(gateway) is None
    # What was promoted before stays: `verify` reports the rollback of its source.
    promote_copy(PROD, "1", f"{MODEL}/1", gateway)
    assert list_failures(gateway, store) == []
    del copy


def test_a_rejected_source_is_refused_and_its_promoted_copy_does_not_verify(
    gateway, store, copy, promoted
):
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    promoted()
    by_hand.reject_version(MODEL, "1", "flags names", "Bo", gateway)
    [sentence] = list_failures(gateway, store)
    assert "models:/toxicity/1 did not pass by entry 3 of toxicity-promotions" in sentence
    with pytest.raises(InputError, match="entry 3 of the ledger recorded that it did not"):
        promote_copy(PROD, copy_version(gateway, "1").version, f"{MODEL}/1", gateway)
    del copy


@pytest.mark.mlflow
def test_a_removed_rejection_is_found_under_the_sources_name(gateway, store, key, promoted):
    del key
    promoted()
    copy_version(gateway)
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    promoted()
    by_hand.reject_version(MODEL, "1", "flags names", "Bo", gateway)
    assert list_failures(gateway, store) != []
    gateway.client.delete_model_version(f"{MODEL}-promotions", "3")
    assert any(
        "this machine saw before" in sentence for sentence in list_failures(gateway, store, MODEL)
    )
    with pytest.raises(InputError, match="this machine saw before"):
        promote_copy(PROD, copy_version(gateway).version, f"{MODEL}/1", gateway)
    assert list_failures(gateway, store) == []  # as the table of attacks says


def test_a_source_rejected_while_its_copy_waits_is_refused(gateway, source, copy, monkeypatch):
    """The source's ledger is not locked, so it is read again when the turn comes."""
    turn = champion.take_turn

    def reject_then(ledger, queued):
        if ledger.model == PROD:
            gateway.delete_alias(MODEL, "champion")
            move = champion.Move(action="blocked", reason="late", by="Bo", blocked=[source.version])
            champion.record_move(Ledger(gateway, MODEL), move, "rejected")
        turn(ledger, queued)

    monkeypatch.setattr(champion, "take_turn", reject_then)
    decision = promote_copy(PROD, None, f"{MODEL}/1", gateway)
    assert not decision.promoted
    assert "did not pass by entry 2" in decision.sentence
    assert find_prod_champion(gateway) is None
    del copy


def test_a_copy_rejected_under_its_own_name_is_refused(gateway, copy):
    by_hand.reject_version(PROD, "1", "not for production", "Bo", gateway)
    decision = promote_copy(PROD, None, f"{MODEL}/1", gateway)
    assert not decision.promoted
    assert f"{copy.uri} did not pass by entry 1" in decision.sentence


def test_a_revoked_source_is_refused(gateway, key, promoted, monkeypatch, tmp_path):
    promoted()
    copy_version(gateway)
    revoke(key, "2020-01-01T00:00:00+00:00")
    signing_key(monkeypatch, tmp_path / "new")
    with pytest.raises(InputError, match="revoked"):
        promote_copy(PROD, None, f"{MODEL}/1", gateway)
    assert find_prod_champion(gateway) is None


def test_a_verdict_that_only_a_reset_accepts_is_refused(
    gateway, store, source, copy, monkeypatch, tmp_path
):
    new = signing_key(monkeypatch, tmp_path / "secret")
    trust(monkeypatch, tmp_path / "trusted", evaluations=new)
    by_hand.reset_ledger(MODEL, "1", "signed from now on", gateway)
    assert list_failures(gateway, store, MODEL) == []
    with pytest.raises(InputError, match="must have a verdict that a trusted key signed"):
        promote_copy(PROD, None, f"{MODEL}/1", gateway)
    del source, copy


def test_signed_promotions_of_copies_verify_and_edited_ones_do_not(
    gateway, store, key, promoted, attacker
):
    del key
    version = promoted()[0]
    copy_version(gateway)
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    assert list_failures(gateway, store) == []
    [made] = Ledger(gateway, PROD).read_entries()
    other = made.content.source.to_dict() | {"model": "models:/toy/1"}
    attacker(rewrite, gateway, made, source=other)
    assert any(
        "entry 1 of prod.toxicity-promotions is" in sentence
        for sentence in list_failures(gateway, store)
    )
    with pytest.raises(InputError, match="must be unchanged"):
        promote_copy(PROD, None, f"{MODEL}/1", gateway)
    del version


@pytest.mark.mlflow
@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("judged", "models:/toxicity/7", "promote prod.toxicity 1 --from toxicity/1"),
        ("digest", "0" * 64, "has the files that were promoted as a copy"),
    ],
)
def test_an_edited_source_does_not_verify_without_keys(
    gateway, store, copy, field, value, expected
):
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    [made] = Ledger(gateway, PROD).read_entries()
    rewrite(gateway, made, source=made.content.source.to_dict() | {field: value})
    assert any(expected in sentence for sentence in list_failures(gateway, store))
    del copy


def test_an_entry_with_an_odd_source_is_not_an_entry(gateway, store, copy):
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    [made] = Ledger(gateway, PROD).read_entries()
    rewrite(gateway, made, source=made.content.source.to_dict() | {"model": "toxicity"})
    assert any(
        "must be an entry of the ledger" in sentence for sentence in list_failures(gateway, store)
    )
    del copy


def test_a_source_deleted_afterwards_leaves_its_copy_champion(gateway, store, copy, promoted):
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    promoted()
    gateway.client.delete_model_version(MODEL, "1")
    assert list_failures(gateway, store) == []
    gateway.client.delete_registered_model(f"{MODEL}-promotions")
    gateway.client.delete_registered_model(MODEL)
    assert list_failures(gateway, store) == []
    with pytest.raises(InputError, match="`--from` must be NAME/VERSION of this registry"):
        promote_copy(PROD, None, f"{MODEL}/1", gateway)
    del copy


def test_a_copy_of_a_copy_is_promoted_name_by_name(gateway, store, source, copy):
    last = copy_version(gateway, "1", "live.toxicity", PROD)
    with pytest.raises(InputError, match=f"promote {PROD} 1 --from {MODEL}/1"):
        promote_copy("live.toxicity", None, f"{PROD}/1", gateway)
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    assert promote_copy("live.toxicity", None, f"{PROD}/1", gateway).promoted
    assert list_failures(gateway, store, "live.toxicity") == []
    [listed] = by_hand.read_history("live.toxicity", gateway)
    assert (listed.source.model, listed.source.judged) == (copy.uri, source.uri)
    assert last.version == find_prod_champion(gateway, "live.toxicity")


def test_a_rejection_at_each_name_reaches_the_last_copy(gateway, store, copy, promoted):
    copy_version(gateway, "1", "live.toxicity", PROD)
    promote_copy(PROD, None, f"{MODEL}/1", gateway)
    promote_copy("live.toxicity", None, f"{PROD}/1", gateway)
    promoted()
    copy_version(gateway, "2")
    promote_copy(PROD, None, f"{MODEL}/2", gateway)
    by_hand.reject_version(PROD, "1", "late", "Bo", gateway)
    [sentence] = list_failures(gateway, store, "live.toxicity")
    assert f"{copy.uri} did not pass by entry 3" in sentence


def test_another_policy_than_the_registered_one_is_refused(gateway, copy, tmp_path):
    other = POLICY.model_copy(update={"name": "strict", "allow_first": False})
    (tmp_path / "strict.yaml").write_text(other.model_dump_json(exclude_none=True), "utf-8")
    register_policy(str(tmp_path / "strict.yaml"), PROD, gateway)
    with pytest.raises(InputError, match="may move champion: policy strict"):
        promote_copy(PROD, None, f"{MODEL}/1", gateway)
    assert find_prod_champion(gateway) is None
    del copy


def test_the_registered_policy_is_accepted(gateway, store, copy, tmp_path):
    (tmp_path / "p.yaml").write_text(POLICY.model_dump_json(exclude_none=True), "utf-8")
    policy, _ = register_policy(str(tmp_path / "p.yaml"), PROD, gateway)
    assert policy.digest == Policy.model_validate(POLICY.model_dump(mode="json")).digest
    assert promote_copy(PROD, None, f"{MODEL}/1", gateway).promoted
    assert list_failures(gateway, store) == []
    del copy


def test_a_manual_policy_needs_a_name_and_a_reason(gateway, store, tmp_path):
    manual = POLICY.model_copy(update={"promote": "manual"})
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v0", policy=manual)
    promote_one([verdict], version, gateway, rule="manual")
    copy_version(gateway)
    for by, reason in ((None, "good"), ("Ann", None)):
        with pytest.raises(InputError, match="`--by` and `--reason` must be given"):
            promote_copy(PROD, None, f"{MODEL}/1", gateway, by=by, reason=reason)
    assert promote_copy(PROD, None, f"{MODEL}/1", gateway, by="Ann", reason="good").promoted
    assert list_failures(gateway, store) == []


def test_of_two_promotions_at_once_one_makes_the_champion(gateway, store, copy, promoted):
    promoted()
    second = copy_version(gateway, "2")
    results = []

    def move(number):
        try:
            results.append(promote_copy(PROD, None, f"{MODEL}/{number}", gateway))
        except InputError as error:
            results.append(error)

    threads = [threading.Thread(target=move, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [item for item in by_hand.read_history(PROD, gateway) if item.state == "done"]
    assert len(results) == 2
    assert len(done) == sum(getattr(one, "promoted", False) for one in results)
    assert find_prod_champion(gateway) == done[0].version
    assert done[0].version in {copy.version, second.version}
    assert list_failures(gateway, store) == []


def test_a_killed_promotion_of_a_copy_is_completed(gateway, store, copy, monkeypatch):
    class KilledError(BaseException):
        pass

    def die(*_):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(champion, "_complete_entry", die)
        patch.setattr(champion, "_settle_entry", die)
        with pytest.raises(KilledError):
            promote_copy(PROD, None, f"{MODEL}/1", gateway)
    [left] = Ledger(gateway, PROD).read_entries()
    assert (left.state, find_prod_champion(gateway)) == ("open", copy.version)
    assert list_failures(gateway, store) == []
    [healed] = champion.settle_stale_entries(Ledger(gateway, PROD))
    assert healed.number == left.number
    assert [item.state for item in Ledger(gateway, PROD).read_entries()] == ["done"]
    assert list_failures(gateway, store) == []


def test_a_copy_judged_under_its_own_name_needs_no_source(gateway, store, copy, tmp_path):
    scores = EvidenceFile(tmp_path / "v0/judged" / FILE).column("score/candidate")
    verdict = judge_version(gateway, store, tmp_path / "own", copy, scores)
    assert promote_one([verdict], gateway.resolve(copy.uri), gateway, model=PROD).promoted
    assert list_failures(gateway, store) == []
    [listed] = by_hand.read_history(PROD, gateway)
    assert listed.source is None


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("toxicity", "must be NAME/VERSION"),
        ("toxicity/0", "must be NAME/VERSION"),
        ("toxicity/1/1", "must be NAME/VERSION"),
        ("toxicity@nobody", "must be NAME/VERSION"),
        ("toxicity-promotions/1", "must be NAME/VERSION"),
        ("/1", "must be NAME/VERSION"),
        ("", "must be NAME/VERSION"),
        ("../../etc/passwd", "must be NAME/VERSION"),
        ("runs:/1/model", "must be NAME/VERSION"),
        ("prod.toxicity/1", "must name a version of another registered model"),
    ],
)
def test_a_source_that_is_no_version_of_another_model_is_refused(gateway, copy, named, expected):
    with pytest.raises(InputError, match=expected):
        promote_copy(PROD, None, named, gateway)
    assert find_prod_champion(gateway) is None
    del copy


def test_the_command_promotes_a_copy_and_refuses_other_combinations(store, copy):
    def run(*arguments):
        done = CliRunner().invoke(app, [*arguments, "--store", str(store)])
        return done.exit_code, " ".join((done.output + done.stderr).split())

    promoting = ("promote", PROD, "--from", f"{MODEL}/1")
    for options, told in (
        (("--reset", "--reason", "r"), "must be given without `--reset`"),
        (("--reject", "--by", "Bo", "--reason", "r"), "without `--from`"),
        (("--accept", "0"), "`--accept` only with `--reset`"),
    ):
        code, said = run(*promoting, *options)
        assert (code, told in said) == (2, True), said
    code, said = run("promote", PROD, copy.version)
    assert code != 0
    assert f"promote {PROD} 1 --from {MODEL}/1" in said
    code, said = run(*promoting, "--by", "Ann", "--reason", "reviewed")
    assert code == 0, said
    assert f"{copy.uri} is champion now. There was none before (reviewed; copy of" in said
    assert run("verify", PROD)[0] == 0
    code, said = run("history", PROD, "--json")
    [listed] = json.loads(said)
    assert (listed["by"], listed["source"]["model"]) == ("Ann", f"models:/{MODEL}/1")


@pytest.mark.parametrize("name", ["a b", "x; rm -rf ~", "$(id)", 'quo"te', "-rf", "\x1b[2J"])
def test_hostile_names_are_quoted_and_escaped(gateway, store, source, name):
    copy_version(gateway, "1", name)
    [sentence] = list_failures(gateway, store, name, "1")
    assert "\x1b" not in sentence
    assert promote_copy(name, None, f"{MODEL}/1", gateway).promoted
    assert list_failures(gateway, store, name) == []
    copy_version(gateway, "1", PROD, name)
    assert promote_copy(PROD, None, f"{name}/1", gateway).promoted
    assert list_failures(gateway, store) == []
    del source
