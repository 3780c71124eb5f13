"""The steps of the GitHub action, run by bash as a runner does, with a stand-in command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.published import publish

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/gate.yml").read_text("utf-8"))
STEPS = {one["name"]: one for one in ACTION["runs"]["steps"]}
KEY = "BIASGATE_PRIVATE_KEY"
CONFIG = "a file; with $(touch gotcha) in it.yaml"


@pytest.fixture
def run_action(tmp_path):
    """Run evaluation and verdict with a command that exits as asked; return both steps."""

    def run_action(code):
        command = tmp_path / "bin" / "biasgate"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > arguments\nexit {code}\n')
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
        (4, 4, "Undecided"),
        (137, 1, "crashed"),
    ],
)
def test_the_job_fails_as_the_command_exits_but_only_after_the_upload(
    run_action, code, exits, words
):
    evaluated, judged = run_action(code)
    assert evaluated.returncode == 0
    assert judged.returncode == exits
    assert words in judged.stdout
    assert ("::error" in judged.stdout) == (exits != 0)


@pytest.fixture
def told(tmp_path):
    """Run the steps that tell people; return the summary, and what `gh` was called with."""

    def told(outcome, *, comments="[]", fails=False):
        publish(tmp_path / "out", candidates={"one": {}})
        (tmp_path / "comments.json").write_text(comments)
        gh = tmp_path / "bin" / "gh"
        gh.parent.mkdir(exist_ok=True)
        gh.write_text(GH.format(python=sys.executable, fails=fails))
        gh.chmod(0o755)
        ours = Path(sys.executable).parent
        environment = os.environ | {
            "PATH": f"{gh.parent}:{ours}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "OUTPUT": str(tmp_path / "out"),
            "OUTCOME": outcome,
            "ARTIFACT": "biasgate",
            "LINK": "https://example.org/runs/1",
            "REPOSITORY": "team/models",
            "NUMBER": "7",
            "MARK": "<!-- biasgate: biasgate -->",
        }
        for name in ("Summarise", "Comment on the pull request"):
            done = bash(STEPS[name]["run"], environment, tmp_path)
            assert done.returncode == 0, done.stderr
        calls = tmp_path / "calls.txt"
        return (tmp_path / "summary.md").read_text(), calls.read_text(), done.stdout

    return told


# It lists the comments that are kept in a file, chosen as the real one would by the filter.
GH = """#!{python}
import json, os, sys
with open("calls.txt", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if {fails}:
    sys.exit(1)
if "--jq" in sys.argv:
    chosen = sys.argv[sys.argv.index("--jq") + 1]
    assert 'user.type == "Bot"' in chosen and "startswith(env.MARK)" in chosen
    for one in json.load(open("comments.json")):
        if one["user"] == "Bot" and one["body"].startswith(os.environ["MARK"]):
            print(one["id"])
"""


def test_the_summary_says_who_and_how_much_and_links_to_the_run(told):
    summary, calls, _ = told("block")
    assert summary.startswith("<!-- biasgate: biasgate -->\n")
    assert "### biasgate: Blocked" in summary
    assert "negative&#95;aeg of gay is" in summary
    assert "(https://example.org/runs/1)" in summary
    assert "--method POST repos/team/models/issues/7/comments -F body=@" in calls


def test_the_next_comment_replaces_the_one_of_the_bot_and_of_nobody_else(told):
    mark = "<!-- biasgate: biasgate -->"
    comments = [
        {"id": 1, "user": "User", "body": mark},
        {"id": 2, "user": "Bot", "body": "<!-- biasgate: other -->"},
        {"id": 3, "user": "Bot", "body": f"{mark}\\nBlocked"},
    ]
    _, calls, _ = told("block", comments=json.dumps(comments))
    assert "--method PATCH repos/team/models/issues/comments/3 -F body=@" in calls
    assert "POST" not in calls


@pytest.mark.parametrize(("outcome", "words"), [("input", "are wrong"), ("error", "was judged")])
def test_where_nothing_was_judged_the_summary_says_so(told, outcome, words):
    summary, _, _ = told(outcome)
    assert words in summary
    assert "**" not in summary


def test_a_token_that_may_not_comment_is_a_warning_alone(told):
    assert "::warning" in told("block", fails=True)[2]


def test_actions_of_others_are_pinned_to_commits():
    used = [one["uses"] for one in STEPS.values() if "uses" in one]
    used += [one["uses"] for one in WORKFLOW["jobs"]["gate"]["steps"] if "uses" in one]
    others = [one for one in used if not one.startswith("./")]
    assert others
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", one) for one in others)


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda it: it.name)
def test_no_workflow_has_rights_that_its_jobs_do_not_name_or_an_action_that_may_change(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    jobs = workflow["jobs"].values()
    assert workflow["permissions"] == {}
    assert all("permissions" in job for job in jobs)
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    others = [one for one in used if not one.startswith("./")]
    assert all(re.fullmatch(r"(actions|pypa)/[a-z-]+@[0-9a-f]{40}", one) for one in others)
    scripts = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert not [one for one in scripts if "${{" in one]


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
    assert len(scripts) == 5
    assert not [one for one in scripts if "${{" in one]


def test_results_are_uploaded_whatever_the_verdict_and_the_store_is_not():
    upload = STEPS["Upload JUnit and reports"]
    judged = "steps.evaluate.outputs.outcome"
    assert upload["if"] == f"always() && {judged} != '' && {judged} != 'input'"
    assert "junit.xml" in upload["with"]["path"]
    assert "inputs.store" not in upload["with"]["path"]


def test_every_input_and_variable_that_is_used_is_declared():
    used = set(re.findall(r"inputs\.([a-z]+)", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    for step in (one for one in STEPS.values() if "run" in one):
        needed = set(re.findall(r"\$([A-Z]+)\b", step["run"]))
        assert needed <= set(step["env"])


def test_the_workflow_gives_the_action_inputs_that_it_has():
    [step] = [one for one in WORKFLOW["jobs"]["gate"]["steps"] if one["uses"].startswith("./")]
    assert (ROOT / step["uses"] / "action.yml").is_file()
    assert set(step["with"]) <= set(ACTION["inputs"])
    [default] = WORKFLOW[True]["workflow_dispatch"]["inputs"].values()  # YAML reads `on` as true
    assert (ROOT / default["default"]).is_file()


@pytest.fixture
def pip_is_given(tmp_path):
    """Run the step that installs, with a stand-in for Python; return what it was called with."""

    def pip_is_given(install):
        python = tmp_path / "bin" / "python"
        python.parent.mkdir()
        python.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "key:$BIASGATE_PRIVATE_KEY" > called\n')
        python.chmod(0o755)
        step = STEPS["Install biasgate"]
        environment = os.environ | {KEY: "of the job"} | step["env"]
        environment |= {"INSTALL": install, "PATH": f"{python.parent}:{os.environ['PATH']}"}
        environment |= {"GITHUB_ACTION_PATH": str(ROOT)}
        done = bash(step["run"], environment, tmp_path)
        called = tmp_path / "called"
        return done, called.read_text().splitlines() if called.exists() else None

    return pip_is_given


def test_the_action_installs_its_own_commit_in_tested_versions(pip_is_given):
    assert STEPS["Install biasgate"]["if"] == "inputs.install != ''"
    done, given = pip_is_given(ACTION["inputs"]["install"]["default"])
    assert done.returncode == 0, done.stderr
    tested = ["--constraint", f"{ROOT}/constraints.txt"]
    assert given == ["-m", "pip", "install", "--quiet", *tested, f"{ROOT}[app]", "key:"]


@pytest.mark.parametrize("install", ["./biasgate[app]", "w/biasgate-0.1.0-py3-none-any.whl[app]"])
def test_another_wheel_or_checkout_is_installed_as_named(pip_is_given, install):
    assert pip_is_given(install)[1] == ["-m", "pip", "install", "--quiet", install, "key:"]


BARE = ["Biasgate[app]", "biasgate (>=0.1)", "bias-metrics", "biasgate; a == './b'", "acme", ""]


@pytest.mark.parametrize("install", [*BARE, "-rw/names.txt", "--index-url=https://e.org biasgate"])
def test_what_may_be_a_name_that_nobody_owns_is_not_installed(pip_is_given, install):
    done, given = pip_is_given(install)
    assert done.returncode == 2
    assert "nobody owns the name" in done.stdout
    assert given is None


def test_only_the_evaluation_sees_the_key_that_signs():
    assert [name for name, step in STEPS.items() if step["env"].get(KEY) != ""] == ["Evaluate"]
