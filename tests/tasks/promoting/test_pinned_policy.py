"""Registered policies: only they move `champion`."""

import pytest
import yaml
from support.partial import partial
from support.promoted import MODEL, POLICY
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.promoting.by_hand import promote_version, read_history, roll_back
from biasgate.tasks.promoting.pinned import read_context, refuse_other_policy, register_policy
from biasgate.tasks.promoting.rivals import pin_rivals
from biasgate.tasks.reading_evaluation import read_evaluation

LENIENT = POLICY.model_copy(
    update={"name": "lenient", "rules": POLICY.rules[:1], "not_measured": []}
)


def write_policy(folder, **changes):
    path = folder / "p.yaml"
    path.write_text(yaml.safe_dump(POLICY.model_dump(mode="json") | changes), "utf-8")
    return str(path)


@pytest.fixture
def file(tmp_path):
    """The policy as a file."""
    return write_policy(tmp_path)


@pytest.fixture
def registered(gateway, file):
    """The policy, registered."""
    return register_policy(file, MODEL, gateway)[0]


def test_a_registered_policy_is_in_the_ledger_with_digest_time_and_person(gateway, registered):
    [entry] = read_history(MODEL, gateway)
    assert (entry.policy.name, entry.policy.digest) == ("p", registered.digest)
    assert entry.reason.startswith("registered by ")
    assert gateway.get_model_tags(MODEL)["biasgate.policy"] == f"p {registered.digest}"


@pytest.mark.usefixtures("registered")
def test_the_registered_policy_promotes_and_its_verdict_names_the_entry(registry):
    _, verdict, _ = registry.promote_next()
    assert verdict.registered_policy.entry == 1
    assert registry.failed == set()


def test_only_a_verdict_by_the_registered_policy_names_it(gateway, file):
    assert read_context(MODEL, POLICY, [], gateway).registered_policy is None
    register_policy(file, MODEL, gateway)
    assert read_context(MODEL, POLICY, [], gateway).registered_policy.entry == 1
    assert read_context(MODEL, LENIENT, [], gateway).registered_policy is None


@pytest.mark.usefixtures("registered")
def test_another_policy_is_refused_before_any_work(gateway):
    with pytest.raises(InputError, match=r"policy p \(digest .*is registered for toxicity, and"):
        refuse_other_policy(MODEL, LENIENT, gateway)
    refuse_other_policy(MODEL, LENIENT.model_copy(update={"report_only": True}), gateway)
    refuse_other_policy(MODEL, POLICY, gateway)
    place = partial({"gateway": gateway})  # nor are its rivals looked up
    with pytest.raises(InputError, match="`policy` must be the registered policy"):
        pin_rivals.fn(None, None, MODEL, LENIENT, [], place)
    assert "champion" not in pin_rivals.fn(None, None, None, LENIENT, [], place)


def test_a_policy_registered_while_candidates_are_judged_by_another_stops_the_promotion(
    registry, file
):
    judged = registry.judge_next(policy=LENIENT)
    register_policy(file, MODEL, registry.gateway)
    decision = registry.promote(judged)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert "and this is lenient" in decision.sentence
    with pytest.raises(InputError, match="and this is lenient"):
        promote_version(MODEL, "1", "please", registry.gateway)
    assert registry.find_alias() is None


def test_an_earlier_champion_stays_valid_and_may_come_back_when_a_policy_is_registered(
    registry, file
):
    registry.promote_next(policy=LENIENT)
    register_policy(file, MODEL, registry.gateway)
    assert registry.failed == set()
    registry.promote_next()
    assert roll_back(MODEL, "complaints", registry.gateway).promoted
    assert registry.failed == set()


@pytest.mark.parametrize("is_registered", [True, False])
def test_an_edited_tag_of_the_policy_is_found_and_decides_nothing(registry, file, is_registered):
    if is_registered:
        register_policy(file, MODEL, registry.gateway)
    registry.promote_next()
    registry.gateway.tag_model(MODEL, {"biasgate.policy": f"lenient {LENIENT.digest}"})
    assert registry.failed == {"policy"}
    if is_registered:
        with pytest.raises(InputError, match="and this is lenient"):
            refuse_other_policy(MODEL, LENIENT, registry.gateway)


@pytest.mark.usefixtures("registered")
def test_no_policy_is_registered_in_a_ledger_that_was_changed(registry, file):
    register_policy(file, MODEL, registry.gateway)
    registry.edit_entry(1, policy={"name": "lenient", "digest": LENIENT.digest})
    with pytest.raises(InputError, match="entry 1"):
        register_policy(file, MODEL, registry.gateway)
    assert len(registry.ledger.read_entries()) == 2


def test_a_policy_that_only_reports_cannot_be_registered(gateway, tmp_path):
    with pytest.raises(InputError, match="must decide: it has `report_only: true`"):
        register_policy(write_policy(tmp_path, report_only=True), MODEL, gateway)


def test_a_policy_is_registered_for_a_model_and_not_for_a_ledger(registry, file):
    with pytest.raises(InputError, match="must not be the name of a ledger"):
        register_policy(file, registry.ledger.name, registry.gateway)


def test_the_command_registers_an_included_policy_for_a_model_to_come(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    place = str(tmp_path / "new")
    arguments = ["policy", "register", "default", "--model", "fresh", "--store", place]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "is required for fresh from now on: entry 1 of its ledger" in " ".join(
        done.output.split()
    )
    shown = CliRunner().invoke(app, ["history", "fresh", "--store", place])
    assert "policy: default" in shown.output


def test_an_evaluation_file_that_could_not_promote_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("id,label,gay\n0,0,0\n1,1,1\n", "utf-8")
    (tmp_path / "scores.csv").write_text("id,prediction\n0,0.1\n1,0.9\n", "utf-8")
    rows = {"name": "rows", "source": "table", "path": "rows.csv", "identities": ["gay"]}
    content = {
        "name": "small",
        "registered_model": "toxicity-promotions",
        "evaluation_sets": [rows],
        "candidates": [{"name": "file", "kind": "scores", "path": "scores.csv"}],
    }
    (tmp_path / "evaluation.yaml").write_text(yaml.safe_dump(content), "utf-8")
    with pytest.raises(InputError, match="must not end with -promotions, the name of"):
        read_evaluation(tmp_path / "evaluation.yaml")
