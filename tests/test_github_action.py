"""The steps of the GitHub action, run by bash as a runner does, with a stand-in command."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / ".github/actions/biasgate/action.yml").read_text("utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/gate.yml").read_text("utf-8"))
STEPS = {one["name"]: one for one in ACTION["runs"]["steps"]}
CONFIG = "a file; with $(touch gotcha) in it.yaml"


@pytest.fixture
def run_action(tmp_path):
    """Run evaluation and verdict with a command that exits as asked; return both steps."""

    def run_action(code):
        command = tmp_path / "bin" / "biasgate"
        command.parent.mkdir()
        command.write_text(
            '#!/bin/sh\nprintf "%s\\n" "$@" > arguments\nmkdir -p out/set/c\n'
            f'echo "# Model card" > out/set/c/model_card.md\nexit {code}\n'
        )
        command.chmod(0o755)
        written = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        environment = os.environ | {name: str(path) for name, path in written.items()}
        environment |= {"PATH": f"{command.parent}:{os.environ['PATH']}", "STORE": "store"}
        environment |= {"CONFIG": CONFIG, "OUTPUT": "out"}
        first = bash(STEPS["Evaluate"]["run"], environment, tmp_path)
        outcome = written["GITHUB_OUTPUT"].read_text().strip().removeprefix("outcome=")
        second = bash(STEPS["Verdict"]["run"], environment | {"OUTCOME": outcome}, tmp_path)
        return first, second

    return run_action


def bash(script, environment, folder):
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("code", "exits", "words"),
    [
        (0, 0, "passed"),
        (1, 1, "crashed"),
        (2, 2, "evaluation file or its data are wrong"),
        (3, 3, "Blocked"),
        (4, 4, "Not enough evidence"),
        (137, 1, "crashed"),
    ],
)
def test_the_job_fails_as_the_command_exits_but_only_after_the_upload(
    run_action, tmp_path, code, exits, words
):
    evaluated, judged = run_action(code)
    assert evaluated.returncode == 0
    assert judged.returncode == exits
    assert words in judged.stdout
    assert ("::error" in judged.stdout) == (exits != 0)
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == "# Model card\n"


def test_inputs_reach_the_command_as_they_are(run_action, tmp_path):
    run_action(0)
    given = (tmp_path / "arguments").read_text().splitlines()
    assert given == ["evaluate", CONFIG, "--output", "out", "--store", "store"]
    assert not (tmp_path / "gotcha").exists()


def test_a_step_that_never_ran_is_a_crash(tmp_path):
    judged = bash(STEPS["Verdict"]["run"], os.environ | {"OUTCOME": ""}, tmp_path)
    assert judged.returncode == 1


def test_no_script_has_an_expression_in_it_that_a_value_could_break_out_of():
    scripts = [one["run"] for one in STEPS.values() if "run" in one]
    assert len(scripts) == 3
    assert not [one for one in scripts if "${{" in one]


def test_results_are_uploaded_whatever_the_verdict_and_the_store_is_not():
    upload = STEPS["Upload JUnit and reports"]
    assert upload["if"] == "always()"
    assert "junit.xml" in upload["with"]["path"]
    assert "inputs.store" not in upload["with"]["path"]


def test_every_input_and_variable_that_is_used_is_declared():
    used = set(re.findall(r"inputs\.([a-z]+)", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    for step in (STEPS["Install biasgate"], STEPS["Evaluate"], STEPS["Verdict"]):
        needed = set(re.findall(r"\$([A-Z]+)\b", step["run"]))
        assert needed <= set(step["env"])


def test_the_workflow_gives_the_action_inputs_that_it_has():
    [step] = [one for one in WORKFLOW["jobs"]["gate"]["steps"] if one["uses"].startswith("./")]
    assert (ROOT / step["uses"] / "action.yml").is_file()
    assert set(step["with"]) <= set(ACTION["inputs"])
    [default] = WORKFLOW[True]["workflow_dispatch"]["inputs"].values()  # YAML reads `on` as true
    assert (ROOT / default["default"]).is_file()
