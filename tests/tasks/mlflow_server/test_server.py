"""Separate servers of runs and registry; Databricks is refused before any work."""

import re
import shlex

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.cli import cli as mlflow_commands
from support.evaluations import run, write_inputs

from biasgate import require_champion
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.doctor import check_mlflow, guard_check
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.server import REGISTRY, TRACKING, read_address

NAMES = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")
REFUSED = ("databricks", "databricks://work", "databricks-uc", "databricks-uc://w", "uc:http://x")


@pytest.fixture(autouse=True)
def no_server(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("uri", REFUSED)
def test_databricks_is_refused_in_one_sentence(monkeypatch, tmp_path, name, uri):
    monkeypatch.setenv(name, uri)
    with pytest.raises(InputError, match=rf"^{name} must name MLflow's own server or .* got \w"):
        Gateway.from_store(tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_an_argument_that_names_databricks_is_refused_too(tmp_path):
    with pytest.raises(InputError, match="does not support Databricks and Unity Catalog"):
        require_champion("toxicity", tmp_path, tracking_uri="databricks-uc")


def test_an_evaluation_is_refused_before_it_reads_or_writes_anything(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "databricks-uc")
    store = tmp_path / "store"
    code, printed = run("evaluate", tmp_path / "none.yaml", "--output", "o", "--store", store)
    assert code == 2
    assert "MLFLOW_REGISTRY_URI must name MLflow's own server" in printed
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("uri", ["mlruns", "./mlruns", "file:{here}/mlruns", "{here}/mlruns"])
def test_a_folder_of_runs_which_mlflow_refuses_is_refused_with_the_command_that_moves_it(
    monkeypatch, tmp_path, name, uri
):
    monkeypatch.chdir(tmp_path)
    uri = uri.format(here=tmp_path)
    monkeypatch.setenv(name, uri)
    with pytest.raises(InputError, match=rf"got .*mlruns\. Set {name}=sqlite:///mlflow.db, or "):
        read_address(name)
    (tmp_path / "mlruns/0").mkdir(parents=True)
    with pytest.raises(InputError, match="Move them: mlflow migrate-filestore --source") as refused:
        read_address(name)
    command = re.search("Move them: mlflow (.*?)\\. Then set", str(refused.value))[1]
    assert CliRunner().invoke(mlflow_commands, shlex.split(command)).exit_code == 0
    monkeypatch.setenv(name, "sqlite:///mlflow.db")
    assert Gateway.from_store(tmp_path / "store").list_models() == []
    checks = {
        check.what: check
        for check in guard_check("MLflow", lambda: check_mlflow(tmp_path / "store"))
    }
    assert checks["MLflow"].status == "ok"
    monkeypatch.setenv(name, uri)
    [check] = guard_check("MLflow", lambda: check_mlflow(tmp_path / "store"))
    assert (check.status, "mlflow migrate-filestore" in check.found) == ("wrong", True)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    assert read_address(name) == uri


def test_names_that_only_begin_like_those_of_databricks_are_addresses(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://databricks.example.org")
    assert read_address(TRACKING) == "http://databricks.example.org"
    assert read_address(REGISTRY) is None


def test_the_registry_is_that_of_its_own_variable(monkeypatch):
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "http://me:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "")  # both are set by the gateway
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "")
    found = Gateway.from_uri("http://127.0.0.1:7")
    assert (found.uri, found.registry_uri) == ("http://127.0.0.1:7", "http://127.0.0.1:9")
    assert read_address(REGISTRY) == "http://127.0.0.1:9"


def test_without_it_or_with_the_same_address_both_are_one(monkeypatch):
    assert Gateway.from_uri("http://127.0.0.1:7").registry is None
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "http://127.0.0.1:7")
    assert Gateway.from_uri("http://127.0.0.1:7").registry is None


@pytest.mark.slow
def test_versions_and_aliases_are_in_the_registry_and_runs_where_runs_are(
    prefect_server, monkeypatch, tmp_path
):
    del prefect_server
    monkeypatch.chdir(write_inputs(tmp_path))
    registry = f"sqlite:///{tmp_path / 'registry.db'}"
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", registry)
    code, printed = run("evaluate", "file.yaml", "--output", "out", "--store", "store")
    assert code == 0, printed
    assert "models:/toxicity/1 is champion now" in printed
    assert MlflowClient(registry, registry).get_model_version_by_alias("toxicity", "champion")
    own = f"sqlite:///{tmp_path / 'store' / 'mlflow.db'}"
    assert MlflowClient(own, own).search_registered_models() == []
    code, printed = run("verify", "toxicity", "--store", "store")
    assert code == 0, printed
    assert require_champion("toxicity", tmp_path / "store") == "models:/toxicity/1"
