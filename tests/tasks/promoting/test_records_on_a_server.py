"""Entries of the ledger without a run, on an MLflow server.

A server refuses sources of versions that a local store accepts.
"""

import pytest
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway


def run(*arguments):
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, " ".join((done.output + done.stderr).split())


@pytest.mark.evaluates
def test_a_server_answers_the_doctor_and_takes_a_policy(mlflow_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output = run("policy", "register", "default", "--model", "toxicity")
    assert code == 0, output
    code, output = run("doctor")
    assert "ok MLflow: http" in output
    code, output = run("history", "toxicity", "--json")
    assert code == 0, output
    [entry] = Ledger(Gateway(mlflow_server), "toxicity").read_entries()
    assert entry.content.action == "policy"
