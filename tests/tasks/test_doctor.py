"""The doctor: each check reports its finding and a remedy."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.promoted import revoke, signing_key, trust
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks import doctor
from biasgate.tasks.doctor import Diagnosis, guard_check


def list_statuses(checks):
    return [(check.what, check.status) for check in checks]


@pytest.fixture
def server():
    """A server: `server.answer` is its status and text."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, text = http_server.answer
            self.send_response_only(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            """Print no log."""

    http_server = HTTPServer(("127.0.0.1", 0), Handler)
    http_server.answer = (200, version("mlflow"))
    http_server.url = f"http://127.0.0.1:{http_server.server_port}"
    thread = threading.Thread(target=http_server.serve_forever, daemon=True)
    thread.start()
    yield http_server
    http_server.shutdown()
    http_server.server_close()
    thread.join()


def test_the_installed_versions_are_those_that_biasgate_names():
    [check] = doctor.check_versions()
    assert check.status == "ok"
    assert f"mlflow {version('mlflow')}" in check.found


@pytest.mark.parametrize(
    ("requirement", "status", "words"),
    [
        ('numpy>=1; extra == "app"', "ok", "numpy"),
        ('fastapi<0.1; extra == "app"', "wrong", "breaks, in part silently: flows die"),
        ('no-such-package>=1; extra == "app"', "wrong", "it is missing"),
        ('no-such-package>=1; extra == "text"', "ok", "numpy"),
        ('numpy<1; extra == "text"', "wrong", "biasgate was not tried with other versions"),
        ('numpy<1; extra == "dev"', "ok", "numpy"),
    ],
)
def test_a_version_that_does_not_work_is_named_with_the_command_that_changes_it(
    requirement, status, words
):
    [check] = doctor.check_versions([requirement])
    assert check.status == status
    assert words in check.found
    assert check.do.startswith("pip install ") == (status == "wrong")


@pytest.mark.parametrize(
    ("prefect", "sqlalchemy", "status"),
    [("3.8.8", "2.0.58", "ok"), ("3.8.8", "2.1.0", "wrong"), ("3.9.0", "2.1.0", "ok")],
)
def test_sqlalchemy_2_1_needs_prefect_3_9(monkeypatch, prefect, sqlalchemy, status):
    installed = {"prefect": prefect, "sqlalchemy": sqlalchemy}
    monkeypatch.setattr(doctor, "_find_version", installed.get)
    [check] = doctor.check_versions([])
    assert check.status == status
    assert check.do == ('pip install "sqlalchemy<2.1"' if status == "wrong" else "")


def fake_torch(*, available):
    cuda = SimpleNamespace(
        is_available=lambda: available,
        mem_get_info=lambda: (70 * 2**30, 80 * 2**30),
        get_device_name=lambda: "NVIDIA H100",
    )
    return SimpleNamespace(cuda=cuda, __version__="2.13.0")


@pytest.mark.parametrize(
    ("driver", "library", "status", "words"),
    [
        ("", None, "ok", "torch is not installed"),
        ("NVIDIA H100", None, "warning", "torch is not installed"),
        ("NVIDIA H100", fake_torch(available=False), "wrong", "torch 2.13.0 cannot use it"),
        ("NVIDIA H100", fake_torch(available=True), "ok", "NVIDIA H100, 70.0 of 80.0 GiB free"),
        ("", fake_torch(available=False), "ok", "are scored on the CPU"),
    ],
)
def test_a_gpu_that_nothing_uses_is_guarded(monkeypatch, driver, library, status, words):
    monkeypatch.setattr(doctor, "_list_driver_gpus", lambda: driver)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda _: library)
    monkeypatch.setitem(sys.modules, "torch", library)
    [check] = doctor.check_gpu()
    assert check.status == status
    assert words in check.found


@pytest.mark.parametrize(
    ("free", "files", "status"),
    [(50, 10**6, "ok"), (5, 10**6, "warning"), (0.5, 10**6, "wrong"), (50, 10, "wrong")],
)
def test_a_disk_that_is_almost_full_is_guarded(monkeypatch, tmp_path, free, files, status):
    usage = SimpleNamespace(free=free * doctor.GIB)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(doctor.os, "statvfs", lambda _: SimpleNamespace(f_favail=files))
    checks = list(doctor.check_disks({"store": tmp_path / "not" / "there"}))
    assert list_statuses(checks) == [
        ("disk of the store", status),
        ("disk of the temporary files", status),
    ]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs Linux")
def test_a_place_that_cannot_be_written_to_is_guarded():
    first, _ = doctor.check_disks({"store": Path("/proc/nowhere")})
    assert (first.status, first.do) == ("wrong", "Make it writable, or name another place.")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ((200, version("mlflow")), "ok"),
        ((200, "2.1.0"), "warning"),
        ((401, "no"), "wrong"),
        ((500, "no"), "wrong"),
        ((200, "<html>"), "wrong"),
    ],
)
def test_an_mlflow_server_is_asked_for_its_version(server, tmp_path, monkeypatch, answer, status):
    server.answer = answer
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    [check] = doctor.check_mlflow(tmp_path)
    assert (check.what, check.status) == ("MLflow", status)
    assert bool(check.do) == (status != "ok")


def test_a_registry_on_a_server_of_its_own_is_asked_too(server, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "http://127.0.0.1:9")
    found = list(doctor.check_mlflow(tmp_path))
    assert list_statuses(found) == [("MLflow", "ok"), ("MLflow's registry", "wrong")]
    assert "set MLFLOW_REGISTRY_URI" in found[1].do


def test_a_server_that_does_not_answer_is_told_without_its_password(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ada:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "before")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "before")
    [found] = doctor.check_mlflow(tmp_path)
    assert (found.status, "does not answer" in found.found) == ("wrong", True)
    assert "secret" not in found.found


def test_prefects_server_is_asked_too(server, monkeypatch):
    monkeypatch.setattr(doctor, "get_api_url", lambda: f"{server.url}/api")
    server.answer = (200, f'"{version("prefect")}"')
    assert list_statuses(doctor.check_prefect()) == [("Prefect", "ok")]
    server.answer = (200, '"2.20.0"')
    assert list_statuses(doctor.check_prefect()) == [("Prefect", "warning")]
    server.answer = (403, "")
    assert list_statuses(doctor.check_prefect()) == [("Prefect", "wrong")]
    monkeypatch.setattr(doctor, "get_api_url", lambda: None)
    assert list_statuses(doctor.check_prefect()) == [("Prefect", "ok")]


def test_without_keys_it_is_told_that_verdicts_can_be_forged():
    [check] = doctor.check_keys()
    assert (check.status, "can forge verdicts" in check.found) == ("warning", True)


def test_a_key_that_signs_is_fine_unless_others_read_it_or_it_is_revoked(monkeypatch, tmp_path):
    key = signing_key(monkeypatch, tmp_path / "secret")
    path = tmp_path / "secret" / "key"
    path.chmod(0o600)
    trust(monkeypatch, tmp_path / "trusted", own=key)
    assert list_statuses(doctor.check_keys()) == [("signing key", "ok")]
    path.chmod(0o644)
    assert list_statuses(doctor.check_keys()) == [("signing key", "warning")]
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", key.pem)
    assert list_statuses(doctor.check_keys()) == [("signing key", "ok")]
    revoke(key, "2026-01-01T00:00:00+00:00")
    assert list_statuses(doctor.check_keys()) == [("signing key", "wrong")]
    monkeypatch.delenv("BIASGATE_PRIVATE_KEY")
    [check] = doctor.check_keys()
    assert "this machine can only verify" in check.found


def test_a_check_that_fails_does_not_hide_the_others():
    def fails():
        yield Diagnosis("a", "ok", "fine")
        message = "http://me:secret@host is broken\nand more"
        raise RuntimeError(message)

    first, second = guard_check("a", fails)
    assert (first.status, second.status) == ("ok", "wrong")
    assert second.found == "RuntimeError: http://***@host is broken"


def test_the_command_exits_3_if_something_is_wrong(monkeypatch, tmp_path):
    stores = []

    def run_checks(store):
        stores.append(store)
        return [Diagnosis("a", "ok", "fine"), Diagnosis("b", "wrong", "[bad]", "Do this.")]

    monkeypatch.setattr(doctor, "run_checks", run_checks)
    result = CliRunner().invoke(app, ["doctor", "--store", str(tmp_path)])
    assert result.exit_code == 3
    assert "b: [bad]" in result.output
    assert "Do this." in result.output
    assert "1 wrong, 0 warnings." in result.output
    assert stores == [tmp_path]
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert json.loads(result.stdout)[1] == {
        "what": "b",
        "status": "wrong",
        "found": "[bad]",
        "do": "Do this.",
    }
    monkeypatch.setattr(doctor, "run_checks", lambda _: [Diagnosis("a", "warning", "so so")])
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 0
