"""The automations that the guide imports: a real server sends a message, to a real receiver."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from prefect import get_client
from prefect.events.schemas.automations import AutomationCore
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Scheduled
from support.blocks import blocks_of
from support.receiver import receiving

from biasgate.flows.own_runs import TIMED_OUT
from biasgate.tasks.outcomes import WORDS

REPOSITORY = Path(__file__).parents[2]
SHIPPED = REPOSITORY / "deployments" / "automations.yaml"
GUIDE = REPOSITORY / "docs" / "guides" / "operate.md"
NO_BLOCK = "00000000-0000-0000-0000-000000000000"
CONFIG = """\
name: watched
evaluation_sets:
  - {name: rows, source: table, path: rows.csv, identities: [group]}
candidates:
  - {name: scores, kind: scores, path: scores.csv}
"""
PATIENCE_S = 120


def test_the_automations_are_whole_and_cannot_be_imported_without_a_block():
    content = SHIPPED.read_text("utf-8")
    for automation in yaml.safe_load(content.replace("BLOCK_ID", NO_BLOCK))["automations"]:
        AutomationCore.model_validate(automation)
    for automation in yaml.safe_load(content)["automations"]:
        with pytest.raises(ValueError, match="BLOCK_ID"):
            AutomationCore.model_validate(automation)


def test_every_state_in_which_a_run_ends_is_known_to_what_waits_for_an_end():
    automations = yaml.safe_load(SHIPPED.read_text("utf-8"))["automations"]
    waiting = [
        automation["trigger"]
        for automation in automations
        if automation["trigger"]["posture"] == "Proactive"
    ]
    verdicts = {f"prefect.flow-run.{word.state}" for word in WORDS.values()}
    assert len(waiting) == 2
    for trigger in waiting:
        assert verdicts <= set(trigger["expect"])


def test_a_run_whose_step_hung_did_not_pass_and_was_not_killed():
    automations = yaml.safe_load(SHIPPED.read_text("utf-8"))["automations"]
    event = f"prefect.flow-run.{TIMED_OUT}"
    names = [
        automation["name"] for automation in automations if event in automation["trigger"]["expect"]
    ]
    assert names == ["biasgate: an evaluation did not pass", "biasgate: a process was killed"]


@pytest.mark.slow
def test_the_guide_brings_messages_about_a_blocked_and_a_late_run(prefect_services, tmp_path):
    with receiving() as (address, arrived):
        environment = prefect_services | {"SLACK_URL": address}
        follow_guide(environment)
        run_blocked_evaluation(tmp_path, environment)
        text = wait_for_message(arrived, "Blocked")
        assert "Not a registered version: nothing to promote." in text
        assert "/flow-run/" in text
        schedule_late_run(environment)
        text = wait_for_message(arrived, "is late")
        assert "forgotten was due at" in text
        # A message that arrives late is sent again, but no other one is.
        blocked = {message["text"] for message in arrived if "Blocked" in message["text"]}
        assert len(blocked) == 1, blocked


def follow_guide(environment):
    """Save the block with the guide's Python, and import the file with the guide's commands."""
    [python] = [block.content for block in blocks_of(GUIDE) if "biasgate-alerts" in block.content]
    [commands] = [block.content for block in blocks_of(GUIDE) if "sed " in block.content]
    block_id = run_command([sys.executable, "-c", python], environment)
    folder = Path(environment["PREFECT_HOME"])
    commands = commands.replace("deployments/", f"{SHIPPED.parent}/")
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    variables = environment | {"BLOCK_ID": block_id.split()[-1], "PATH": path}
    output = run_command(["bash", "-ec", commands], variables, cwd=folder)
    number = len(yaml.safe_load(SHIPPED.read_text("utf-8"))["automations"])
    assert f"Created {number} automation" in output


def run_blocked_evaluation(folder, environment):
    rows = [(i, i % 2, i % 4 // 2) for i in range(400)]
    table = "".join(f"{i},{y},{g}\n" for i, y, g in rows)
    (folder / "rows.csv").write_text("id,label,group\n" + table)
    scores = "".join(f"{i},{0.005 * (i % 97)}\n" for i, _, _ in rows)  # knows nothing
    (folder / "scores.csv").write_text("id,prediction\n" + scores)
    (folder / "watched.yaml").write_text(CONFIG)
    command = [sys.executable, "-m", "biasgate", "evaluate", "watched.yaml", "--output", "out"]
    run_command(command, environment, cwd=folder, expected=3)


def schedule_late_run(environment):
    """Schedule a run that does not start."""
    with (
        temporary_settings({PREFECT_API_URL: environment["PREFECT_API_URL"]}),
        get_client(sync_client=True) as client,
    ):
        from biasgate.flows.nightly import nightly  # noqa: PLC0415

        due = datetime.now(UTC) - timedelta(minutes=5)
        parameters = {"config": "c", "output": "o", "store": "s"}
        client.create_flow_run(
            nightly, name="forgotten", parameters=parameters, state=Scheduled(scheduled_time=due)
        )


def wait_for_message(arrived, words):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        texts = [message["text"] for message in arrived if words in message["text"]]
        if texts:
            return texts[0]
        time.sleep(0.2)
    pytest.fail(f"no message with {words!r} came: {arrived}")


def run_command(command, environment, *, cwd=None, expected=0):
    result = subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert result.returncode == expected, result.stdout + result.stderr
    return result.stdout
