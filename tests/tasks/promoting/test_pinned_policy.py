"""Registered policies: only they move `champion`."""

import pytest
import yaml
from support.partial import partial
from support.promoted import (
    MODEL,
    POLICY,
    judged_version,
    promote_one,
    rewrite,
    wrong,
)
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.promoting.by_hand import promote_version, read_history, roll_back
from biasgate.tasks.promoting.pinned import read_context, refuse_other_policy, register_policy
from biasgate.tasks.promoting.rivals import pin_rivals
from biasgate.tasks.reading_evaluation import read_evaluation

LENIENT = POLICY.model_copy(
    update={"name": "lenient", "rules": POLICY.rules[:1], "not_measured": []}
)


@pytest.fixture
def file(tmp_path):
    """The policy as a file."""
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(POLICY.model_dump(mode="json")), "utf-8")
    return str(path)


@pytest.fixture
def registered(gateway, file):
    return register_policy(file, MODEL, gateway)


def test_a_registered_policy_is_in_the_ledger_with_digest_time_and_person(gateway, registered):
    policy, _ = registered
    [entry] = read_history(MODEL, gateway)
    assert (entry.policy.name, entry.policy.digest) == ("p", policy.digest)
    assert entry.reason.startswith("registered by ")
    assert gateway.get_model_tags(MODEL)["biasgate.policy"] == f"p {policy.digest}"


@pytest.mark.usefixtures("registered")
def test_the_registered_policy_promotes_and_its_verdict_names_the_entry(gateway, store, tmp_path):
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v1")
    assert verdict.registered_policy.entry == 1
    assert promote_one([verdict], version, gateway).promoted
    assert wrong(gateway, store) == set()


def test_without_a_registered_policy_a_verdict_says_so(gateway):
    assert read_context(MODEL, POLICY, [], gateway).registered_policy is None


@pytest.mark.usefixtures("registered")
def test_a_verdict_by_another_policy_does_not_name_the_registered_one(gateway):
    assert read_context(MODEL, POLICY, [], gateway).registered_policy.entry == 1
    assert read_context(MODEL, LENIENT, [], gateway).registered_policy is None


@pytest.mark.usefixtures("registered")
def test_another_policy_is_refused_before_any_work(gateway):
    with pytest.raises(InputError, match=r"policy p \(digest .*is registered for toxicity, and"):
        refuse_other_policy(MODEL, LENIENT, gateway)
    refuse_other_policy(MODEL, LENIENT.model_copy(update={"report_only": True}), gateway)
    refuse_other_policy(MODEL, POLICY, gateway)


@pytest.mark.usefixtures("registered")
def test_an_evaluation_by_another_policy_is_refused_before_its_rivals_are_looked_up(gateway):
    place = partial({"gateway": gateway})
    with pytest.raises(InputError, match="`policy` must be the registered policy"):
        pin_rivals.fn(None, None, MODEL, LENIENT, [], place)
    assert "champion" not in pin_rivals.fn(None, None, None, LENIENT, [], place)


def test_a_policy_registered_while_candidates_are_judged_by_another_stops_the_promotion(
    gateway, store, tmp_path, file
):
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v1", policy=LENIENT)
    register_policy(file, MODEL, gateway)
    decision = promote_one([verdict], version, gateway)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert "and this is lenient" in decision.sentence
    with pytest.raises(InputError, match="and this is lenient"):
        promote_version(MODEL, version.version, "please", gateway)
    assert gateway.get_alias(MODEL, "champion") is None


def test_a_champion_stays_valid_when_a_policy_is_registered_later(gateway, store, tmp_path, file):
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v1", policy=LENIENT)
    assert promote_one([verdict], version, gateway).promoted
    register_policy(file, MODEL, gateway)
    assert wrong(gateway, store) == set()


@pytest.mark.usefixtures("registered")
def test_an_edited_tag_of_the_policy_is_found_and_decides_nothing(gateway, store, tmp_path):
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v1")
    assert promote_one([verdict], version, gateway).promoted
    gateway.tag_model(MODEL, {"biasgate.policy": f"lenient {LENIENT.digest}"})
    assert wrong(gateway, store) == {"policy"}
    with pytest.raises(InputError, match="and this is lenient"):
        refuse_other_policy(MODEL, LENIENT, gateway)


def test_a_tag_of_a_policy_that_the_ledger_never_registered_is_found(gateway, store, tmp_path):
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v1")
    assert promote_one([verdict], version, gateway).promoted
    gateway.tag_model(MODEL, {"biasgate.policy": f"lenient {LENIENT.digest}"})
    assert wrong(gateway, store) == {"policy"}


def test_a_rollback_to_a_version_from_before_the_policy_was_registered_holds(
    gateway, store, tmp_path, file
):
    first = judged_version(gateway, store, tmp_path / "v1", policy=LENIENT)
    assert promote_one([first[1]], first[0], gateway).promoted
    register_policy(file, MODEL, gateway)
    second = judged_version(gateway, store, tmp_path / "v2", champion=first, seed=1)
    assert promote_one([second[1]], second[0], gateway).promoted
    assert roll_back(MODEL, "complaints", gateway).promoted
    assert wrong(gateway, store) == set()


@pytest.mark.usefixtures("registered")
def test_no_policy_is_registered_in_a_ledger_that_was_changed(gateway, file):
    register_policy(file, MODEL, gateway)
    entries = Ledger(gateway, MODEL).read_entries()
    rewrite(gateway, entries[0], policy={"name": "lenient", "digest": LENIENT.digest})
    with pytest.raises(InputError, match="entry 1"):
        register_policy(file, MODEL, gateway)
    assert len(Ledger(gateway, MODEL).read_entries()) == len(entries) == 2


def test_a_policy_that_only_reports_cannot_be_registered(gateway, tmp_path):
    path = tmp_path / "r.yaml"
    content = POLICY.model_dump(mode="json") | {"report_only": True}
    path.write_text(yaml.safe_dump(content), "utf-8")
    with pytest.raises(InputError, match="must decide: it has `report_only: true`"):
        register_policy(str(path), MODEL, gateway)


def test_a_policy_is_registered_for_a_model_and_not_for_a_ledger(gateway, file):
    ledger = Ledger(gateway, MODEL).name
    with pytest.raises(InputError, match="must not be the name of a ledger"):
        register_policy(file, ledger, gateway)
    assert Ledger(gateway, ledger).read_entries() == []


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"registered_model": "toxicity-promotions"}, "must not end with -promotions, the name of"),
    ],
)
def test_an_evaluation_file_that_could_not_promote_is_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        read_evaluation(write_evaluation_file(tmp_path, **changes))


def write_evaluation_file(folder, **changes):
    """Write a file with one set and one file of scores."""
    rows = [f"{number},{number % 2},{number % 3 % 2}" for number in range(40)]
    (folder / "rows.csv").write_text("\n".join(["id,label,gay", *rows]), "utf-8")
    scores = [f"{number},{number / 40}" for number in range(40)]
    (folder / "scores.csv").write_text("\n".join(["id,prediction", *scores]), "utf-8")
    content = {
        "name": "small",
        "evaluation_sets": [
            {"name": "rows", "source": "table", "path": "rows.csv", "identities": ["gay"]}
        ],
        "candidates": [{"name": "file", "kind": "scores", "path": "scores.csv"}],
    }
    path = folder / "evaluation.yaml"
    path.write_text(yaml.safe_dump(content | changes), "utf-8")
    return path
