"""What every command has: JSON where a program may want the answer, help and completion."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.evaluations import run
from support.printed_commands import commands_of_app
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.options import EVALUATE, EXAMPLE, PROMOTE, READ, SET_UP

# `ui` starts a server, and the others print files that programs read as they are.
WITHOUT_JSON = {"ui", "policy show"}


def test_every_command_with_an_answer_has_json():
    lacking = {
        name
        for name, one in commands_of_app().items()
        if not any("--json" in parameter.opts for parameter in one.params)
    }
    assert lacking == WITHOUT_JSON


@pytest.mark.parametrize("name", commands_of_app())
def test_every_page_of_help_ends_with_an_example_that_the_command_takes(name):
    command = commands_of_app()[name]
    words = shlex.split(command.epilog.removeprefix(EXAMPLE).partition(" > ")[0])
    given = words[1 + len(name.split()) :]
    assert words == ["biasgate", *name.split(), *given]
    with command.make_context(name, list(given), resilient_parsing=True) as context:
        lacking = [one.name for one in command.params if one.required]
        assert "[[" not in command.get_usage(context)
        assert all(context.params[name] for name in lacking)
        assert not context.args


def answer(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_policies_answer_in_json():
    checked = answer("policy", "check", "default")
    assert checked["policy"] == "default"
    assert all(isinstance(one, str) for one in checked["warnings"])
    assert any("with 95% confidence" in line for line in checked["lines"])


def test_keys_answer_in_json(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASGATE_TRUSTED_KEYS", str(tmp_path / "trusted"))
    made = answer("keys", "new", tmp_path / "own.key")
    trusted = answer("keys", "trust", made["public"])
    assert trusted["key_id"] == made["key_id"]
    revoked = answer("keys", "revoke", "own.key", "--reason", "lost")
    assert answer("keys", "list") == [revoked]
    assert revoked["reason"] == "lost"


def test_a_schedule_has_no_json(tmp_path):
    code, text = run("nightly", "x.yaml", "--output", tmp_path, "--cron", "0 2 * * *", "--json")
    assert (code, "`--json` must be given without `--cron`" in text) == (2, True)


def biasgate(*arguments, **environment):
    command = [Path(sys.executable).with_name("biasgate"), *arguments]
    known = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(
        command, env=known | environment, capture_output=True, text=True, check=False
    ).stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [("biasgate comp", "compare"), ("biasgate evaluate --ou", "--output")],
)
def test_the_shell_completes_commands_and_options(words, completed):
    number = str(len(words.split()) - 1)
    known = {"_BIASGATE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": number}
    assert biasgate(**known).split() == [completed]


@pytest.mark.parametrize("width", ["40", "60", "80"])
def test_help_never_cuts_the_name_of_an_option(width):
    text = biasgate("verify", "--help", COLUMNS=width)
    for option in ("--attestation", "--model", "--policy-digest", "--evaluation-set", "--store"):
        assert f"{option} " in text


def test_help_lists_every_command_in_a_group():
    text = biasgate("--help", COLUMNS="120")
    assert "Commands" not in text
    panels = [line.split("─")[1].strip() for line in text.splitlines() if line.startswith("╭─")]
    assert panels == ["Options", EVALUATE, READ, PROMOTE, SET_UP]
