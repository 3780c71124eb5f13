"""Crafted entries, tags and files: `verify` ends with a finding."""

import json
import os

import pytest
from support.promoted import LEDGER, MODEL, edit_json
from support.registry import Registry, Template
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.promoting.verify import require_champion

IGNORED, LEDGER_FAILS = f"ignored: version 1 of {LEDGER}", "DOES NOT HOLD ledger"
FILES = ["verdict.json", "report.json", "policy.json", "evidence.parquet", "attestation.json"]


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A store with one champion."""
    return Template(Registry.promote_next, tmp_path_factory)


def run_command(registry, name, code):
    """Return the output of a command, which must not have control characters."""
    result = CliRunner().invoke(app, [name, MODEL, "--store", str(registry.store)])
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None)
    assert "Traceback" not in result.output
    assert result.output.replace("\n", "").isprintable()
    return " ".join(result.output.split())


def edit_tag(registry, change):
    content = json.loads(registry.read_tag(1))
    change(content)
    registry.put_tag(1, json.dumps(content))


def put_version_tag(registry, name, value):
    registry.gateway.client.set_model_version_tag(MODEL, "1", f"biasgate.{name}", value)


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
def test_an_entry_that_says_something_impossible_is_a_finding_that_names_it(registry, change):
    edit_tag(registry, lambda tag: tag["payload"].update(change))
    assert IGNORED in run_command(registry, "verify", 3)


@pytest.mark.parametrize(
    "key", ["rule", "passed_over", "model", "number", "predecessor", "time", "owner", "verdicts"]
)
def test_an_entry_that_lacks_a_key_is_a_finding_that_names_both(registry, key):
    edit_tag(registry, lambda tag: tag["payload"].pop(key))
    output = run_command(registry, "verify", 3)
    assert f"{IGNORED} must" in output
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
        [{"sig": "?"}],
        [{"sig": ""}] * 21,
    ],
)
def test_a_tag_that_is_no_entry_or_has_no_signatures_is_a_finding(registry, tag):
    if isinstance(tag, str):
        registry.put_tag(1, tag)
    else:
        edit_tag(registry, lambda content: content.update(signatures=tag))
    assert LEDGER_FAILS in run_command(registry, "verify", 3)


@pytest.mark.mlflow
def test_control_characters_of_an_entry_do_not_reach_the_terminal(registry):
    plain = {"reason": "\x1b[2K\rholds\u202e\n", "note": "\x9b2J", "model": "a\x1b[1mb"}
    edit_tag(registry, lambda tag: tag["payload"].update(plain))
    verified = run_command(registry, "verify", 3)
    assert "written as entry 1 of a\\x1b[1mb, and copied" in verified
    assert "\\x1b[2K\\rholds\\u202e\\n" in run_command(registry, "history", 0).replace(" ", "")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("other.ledger", "9" * 5000 + " x", LEDGER_FAILS),
        ("other.ledger", "1", LEDGER_FAILS),
        ("other.ledger", "x y", LEDGER_FAILS),
        ("other.ledger", "\x1b[2K 0", LEDGER_FAILS),
        ("other.ledger", "\u0661 0", LEDGER_FAILS),
        ("other.ledger", "first DIGEST", "entry 'first "),
        ("comments.run_id", "\x1b[2K\rx", ""),
        ("comments.verdict", "\x1b[2K\rx", ""),
        ("comments.set_digest", "\x1b[2K\rx", ""),
        ("comments.policy", "\x1b[2K\rx", ""),
        ("required_sets", "\x1b[2K,a\rb", "\\x1b[2K"),
    ],
)
def test_a_crafted_tag_of_the_version_is_a_finding_without_control_characters(
    registry, name, value, told
):
    value = value.replace("DIGEST", registry.ledger.chain.head.digest)
    put_version_tag(registry, name, value)
    assert told in run_command(registry, "verify", 3)


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("make", ["pipe", "endless", "folder", "linked", "nested"])
def test_a_file_of_the_run_that_is_something_else_is_a_finding(registry, file, make):
    path, kept = registry.find_file(file), registry.store / "kept"
    path.rename(kept)
    if make == "pipe":
        os.mkfifo(path)
    elif make == "folder":
        path.mkdir()
    elif make == "nested":
        path.write_text("[" * 5000 + "]" * 5000, "utf-8")
    else:
        path.symlink_to("/dev/zero" if make == "endless" else kept)
    run_command(registry, "verify", 3)


@pytest.mark.parametrize("file", FILES[:3])
@pytest.mark.parametrize("content", [None, {}, {"evaluation_set": 5}])
def test_a_document_of_another_form_is_a_finding(registry, file, content):
    registry.find_file(file).write_text(json.dumps(content), "utf-8")
    run_command(registry, "verify", 3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n_candidates": 0}, ""),
        ({"n_candidates": -1}, ""),
        ({"decided_on": "yesterday"}, ""),
        ({"required_sets": ["comments", 5]}, ""),
        ({"required_sets": ["a\x1b[2K"] * 3}, ""),
        ({"required_sets": [f"set {number}" for number in range(20_000)]}, "at most 1,000 sets"),
        ({"schema_version": 1, "policy": {}}, ""),
        ({"ledger": {"number": 1}}, ""),
        ({"schema_version": 1, "required_sets": None}, ""),
        ({"champion": {"name": "x", "kind": "mlflow", "model": "models:/x", "digest": "1"}}, ""),
    ],
)
def test_a_verdict_that_says_something_impossible_is_a_finding(registry, change, told):
    edit_json(registry.find_file("verdict.json"), lambda verdict: verdict.update(change))
    assert told in run_command(registry, "verify", 3)


@pytest.mark.parametrize("content", ["", "[]", '{"digest": []}', "[" * 5000])
def test_a_garbled_record_of_the_set_is_a_finding(registry, content):
    registry.rows.with_name("record.json").write_text(content, "utf-8")
    assert "DOES NOT HOLD dataset" in run_command(registry, "verify", 3)


@pytest.mark.parametrize("file", ["record.json", "rows.parquet"])
def test_a_pipe_in_the_place_of_the_frozen_set_is_a_finding(registry, file):
    path = registry.rows.with_name(file)
    path.unlink()
    os.mkfifo(path)
    assert registry.failed == {"dataset"}
    with pytest.raises(ValueError, match="dataset: the rows of comments"):
        require_champion(MODEL, registry.gateway, registry.store)
