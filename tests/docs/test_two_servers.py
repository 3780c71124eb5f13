"""The guide's way of a champion to a second server: attested files, judged again there."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import mlflow
import pytest
import yaml
from support.blocks import blocks_of
from support.pages import trained
from support.promoted import signing_key, trust

from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.verify import open_champion

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "promotion.md"
TEST = "tests/docs/test_two_servers.py"


def run_lines(content, biasgate, tracking_uri=""):
    """Run each line of a shell block; MLflow's command in a process of its own."""
    for line in content.splitlines():
        program, *words = shlex.split(line)
        if program == "mlflow":
            environment = os.environ | {"MLFLOW_TRACKING_URI": tracking_uri}
            subprocess.run([sys.executable, "-m", "mlflow", *words], check=True, env=environment)
            continue
        done = biasgate(*words)
        assert done.exit_code == 0, f"{line}\n{done.output}{done.stderr}"


@pytest.mark.evaluates
@pytest.mark.slow
def test_a_champion_comes_to_a_second_server(scene, biasgate, mlflow_server, monkeypatch, tmp_path):
    attest, check, register, evaluation, last = [
        block.content for block in blocks_of(GUIDE) if TEST in (block.not_run or "")
    ]
    key = signing_key(monkeypatch, tmp_path / "secret")
    trust(monkeypatch, tmp_path / "trusted", first=key)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")  # the first server is a store
    monkeypatch.setenv("BIASGATE_STORE", str(scene / "first"))
    whole = yaml.safe_load((scene / "whole.yaml").read_text("utf-8"))
    whole["candidates"] = [trained("words")]
    (scene / "judged.yaml").write_text(yaml.safe_dump(whole), "utf-8")
    run_lines("biasgate evaluate judged.yaml --output out", biasgate)
    run_lines(attest, biasgate, Gateway.from_store(scene / "first").uri)
    run_lines(check, biasgate)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_server)
    monkeypatch.setenv("BIASGATE_STORE", str(scene / "second"))
    trust(monkeypatch, tmp_path / "other", second=signing_key(monkeypatch, tmp_path / "other"))
    mlflow.set_tracking_uri(mlflow_server)
    exec(compile(register, "guide", "exec"), {})  # noqa: S102 - our own page
    (scene / "prod.yaml").write_text(evaluation, "utf-8")
    (scene / "policy.yaml").write_text((scene / "lenient.yaml").read_text("utf-8"), "utf-8")
    run_lines(last, biasgate)
    (scene / "opened").mkdir()
    opened = open_champion("prod.toxicity", scene / "opened", Gateway(mlflow_server))
    monkeypatch.setenv("BIASGATE_TRUSTED_KEYS", str(tmp_path / "trusted"))
    command = check.replace("--model model", f"--model {opened}")
    run_lines(command, biasgate)
    next(opened.glob("*.skops")).write_bytes(b"other")
    done = biasgate(*shlex.split(command)[1:])
    assert done.exit_code == 3
    assert "model.skops: changed" in done.output
