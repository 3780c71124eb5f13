"""Crafted entries, tags and files: `verify` ends with a finding."""

import json
import os

import pytest
from support.promoted import (
    LEDGER,
    MODEL,
    artifact,
    edit_json,
    frozen_set,
    judged_version,
    promote_one,
    set_folder,
)
from support.registry import Template
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.ledger.entry import TAG
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.promoting.verify import require_champion, verify_model

ESCAPES = "\x1b[2K\rholds\u202e\n\ud800"


def make_champion(gateway, store, folder):
    frozen_set(store)
    version, verdict, _ = judged_version(gateway, store, folder / "first")
    assert promote_one([verdict], version, gateway).promoted


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A store with one champion."""
    return Template(make_champion, tmp_path_factory)


def list_failures(gateway, store):
    return [finding for finding in verify_model(MODEL, None, gateway, store) if not finding.holds]


def run_verify(store, *, code=3):
    """Return the output of `verify`, which must not have control characters."""
    result = CliRunner().invoke(app, ["verify", MODEL, "--store", str(store)])
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None)
    assert "Traceback" not in result.output
    assert result.output.replace("\n", "").isprintable()
    return result.output


def edit_entry(gateway, change):
    content = json.loads(gateway.client.get_model_version(LEDGER, "1").tags[TAG])
    change(content["payload"])
    put_tag(gateway, json.dumps(content))


def put_tag(gateway, tag):
    gateway.client.set_model_version_tag(LEDGER, "1", TAG, tag)


# ------------------------------------------------------------------ entries


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"predecessor": "1"}, marks=pytest.mark.mlflow),
        {"predecessor": {"number": "1", "digest": ""}},
        {"blocked": 5},
        {"blocked": [5]},
        {"action": "blocked"},
        {"action": "policy"},
        {"action": "reset"},
        {"verdicts": [{}]},
        {"verdicts": 5},
        {"number": float("nan")},
        {"extra": float("nan")},
        {"extra": 10**400},
        {"extra": "\ud800"},
        {"version": "9" * 5000},
        {"version": "1\u0660"},
        {"version": ""},
        {"passed_over": ["-1"]},
        {"replaces": None},
        {"expires": "2026-01-01"},
        {"expires": "0001-01-01T00:00:00"},
        {"opened": "x"},
        {"owner": "a b c d"},
        {"owner": f"host {'9' * 5000} 1.0 x"},
        {"state": "closed"},
        {"note": None},
    ],
)
def test_an_entry_that_says_something_impossible_is_a_finding_that_names_it(gateway, store, change):
    edit_entry(gateway, lambda payload: payload.update(change))
    assert f"ignored: version 1 of {LEDGER}" in run_verify(store)


@pytest.mark.parametrize(
    "key", ["rule", "passed_over", "model", "number", "predecessor", "time", "owner", "verdicts"]
)
def test_an_entry_that_lacks_a_key_is_a_finding_that_names_both(gateway, store, key):
    edit_entry(gateway, lambda payload: payload.pop(key))
    output = " ".join(run_verify(store).split())
    assert f"ignored: version 1 of {LEDGER} must" in output
    assert key in output


@pytest.mark.parametrize(
    "tag",
    [
        "[" * 10_000,
        '{"payload": ' + "[" * 900 + "]" * 900 + ', "signatures": []}',
        '{"payload": {}, "signatures": [{"keyid": 5, "sig": "x"}]}',
        '{"payload": {}, "signatures": {}}',
        "NaN",
        "null",
        "\x00",
    ],
)
def test_a_tag_that_is_no_entry_is_a_finding(gateway, store, tag):
    put_tag(gateway, tag)
    assert "DOES NOT HOLD  ledger" in run_verify(store)


@pytest.mark.parametrize("signatures", [[{"sig": "?"}], [{"sig": ""}] * 21])
def test_signatures_that_are_none_or_too_many_are_a_finding(gateway, store, signatures):
    content = json.loads(gateway.client.get_model_version(LEDGER, "1").tags[TAG])
    put_tag(gateway, json.dumps({**content, "signatures": signatures}))
    assert "DOES NOT HOLD  ledger" in run_verify(store)


@pytest.mark.mlflow
def test_control_characters_of_an_entry_do_not_reach_the_terminal(gateway, store):
    plain = {"reason": ESCAPES.replace("\ud800", ""), "note": "\x9b2J", "model": "a\x1b[1mb"}
    edit_entry(gateway, lambda payload: payload.update(plain))
    assert "written as entry 1 of a\\x1b[1mb, and copied" in run_verify(store)
    shown = CliRunner().invoke(app, ["history", MODEL, "--store", str(store)])
    assert shown.exit_code == 0
    assert "\\x1b[2K\\rholds\\u202e\\n" in shown.output.replace("\n   ", "")
    assert shown.output.replace("\n", "").isprintable()


# ------------------------------------------------------------------ tags


@pytest.mark.parametrize("value", ["9" * 5000 + " x", "1", "x y", "\x1b[2K 0", "\u0661 0"])
def test_a_tag_that_names_no_entry_is_a_finding(gateway, store, value):
    gateway.client.set_model_version_tag(MODEL, "1", "biasgate.other.ledger", value)
    assert "DOES NOT HOLD  ledger" in run_verify(store)


def test_a_tag_that_has_the_digest_of_an_entry_and_not_its_number_names_none(gateway, store):
    digest = Ledger(gateway, MODEL).chain.head.digest
    gateway.client.set_model_version_tag(MODEL, "1", "biasgate.other.ledger", f"first {digest}")
    output = " ".join(run_verify(store).split())
    assert f"entry 'first {digest[:34]}', which a verdict on version 1 names" in output


@pytest.mark.parametrize("name", ["run_id", "verdict", "set_digest", "policy"])
def test_control_characters_of_tags_do_not_reach_the_terminal(gateway, store, name):
    gateway.client.set_model_version_tag(MODEL, "1", f"biasgate.comments.{name}", "\x1b[2K\rx")
    run_verify(store)


def test_control_characters_of_a_sets_name_do_not_reach_the_terminal(gateway, store):
    gateway.client.set_model_version_tag(MODEL, "1", "biasgate.required_sets", "\x1b[2K,a\rb")
    assert "\\x1b[2K" in run_verify(store)


# ------------------------------------------------------------------ files


FILES = ["verdict.json", "report.json", "policy.json", "evidence.parquet", "attestation.json"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("make", ["pipe", "endless", "folder", "linked", "nested"])
def test_a_file_of_the_run_that_is_something_else_is_a_finding(gateway, store, file, make):
    path = artifact(gateway, gateway.get_alias(MODEL, "champion"), file)
    path.rename(store / "kept")
    if make == "pipe":
        os.mkfifo(path)
    elif make == "endless":
        path.symlink_to("/dev/zero")
    elif make == "folder":
        path.mkdir()
    elif make == "linked":
        path.symlink_to(store / "kept")
    else:
        path.write_text("" if make == "empty" else "[" * 5000 + "]" * 5000, "utf-8")
    run_verify(store)


@pytest.mark.parametrize("file", FILES[:3])
@pytest.mark.parametrize("content", [None, {}, {"evaluation_set": 5}])
def test_a_document_of_another_form_is_a_finding(gateway, store, file, content):
    path = artifact(gateway, gateway.get_alias(MODEL, "champion"), file)
    path.write_text(json.dumps(content), "utf-8")
    run_verify(store)


@pytest.mark.parametrize(
    "change",
    [
        {"n_candidates": 0},
        {"n_candidates": -1},
        {"decided_on": "yesterday"},
        {"required_sets": ["comments", 5]},
        {"required_sets": ["a\x1b[2K"] * 3},
        {"schema_version": 1, "policy": {}},
        {"ledger": {"number": 1}},
        {"schema_version": 1, "required_sets": None},
        {"champion": {"name": "x", "kind": "mlflow", "model": "models:/x", "digest": "1"}},
    ],
)
def test_a_verdict_that_says_something_impossible_is_a_finding(gateway, store, change):
    path = artifact(gateway, gateway.get_alias(MODEL, "champion"), "verdict.json")
    edit_json(path, lambda verdict: verdict.update(change))
    run_verify(store)


def test_very_many_required_sets_are_not_all_looked_up(gateway, store):
    path = artifact(gateway, gateway.get_alias(MODEL, "champion"), "verdict.json")
    many = [f"set {number}" for number in range(20_000)]
    edit_json(path, lambda verdict: verdict.update(required_sets=many))
    assert any(
        "at most 1,000 sets" in finding.sentence for finding in list_failures(gateway, store)
    )


# ------------------------------------------------------------------ frozen rows


@pytest.mark.parametrize("content", ["", "[]", '{"digest": []}', "[" * 5000])
def test_a_garbled_record_of_the_set_is_a_finding(store, content):
    (set_folder(store) / "record.json").write_text(content, "utf-8")
    assert "DOES NOT HOLD  dataset" in run_verify(store)


@pytest.mark.parametrize("file", ["record.json", "rows.parquet"])
def test_a_pipe_in_the_place_of_the_frozen_set_is_a_finding(gateway, store, file):
    path = set_folder(store) / file
    path.unlink()
    os.mkfifo(path)
    assert [finding.what for finding in list_failures(gateway, store)] == ["dataset"]
    with pytest.raises(ValueError, match="dataset: the rows of comments"):
        require_champion(MODEL, gateway, store)
