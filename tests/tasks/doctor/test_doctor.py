"""The doctor: each line says what was found, and what to do."""

import json
import os
import sys
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from support.evaluations import write_inputs
from support.promoted import revoke, signing_key, trust
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks import doctor
from biasgate.tasks.doctor import Check, each_check
from biasgate.tasks.mlflow_server.versions import ModelVersion


def lines(found):
    return [(one.what, one.status) for one in found]


@pytest.fixture
def server():
    """A server that answers as told: `server.answer` is status and text, `.late` its clock."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, text = made.answer
            self.send_response_only(status)
            self.send_header("Date", formatdate(made.time(), usegmt=True))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            """Say nothing."""

    made = HTTPServer(("127.0.0.1", 0), Handler)
    made.answer = (200, version("mlflow"))
    made.late = 0
    made.time = lambda: time.time() - made.late
    made.url = f"http://127.0.0.1:{made.server_port}"
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def test_the_installed_versions_are_those_that_biasgate_names():
    [found] = doctor.check_versions()
    assert found.status == "ok"
    assert f"mlflow {version('mlflow')}" in found.found


@pytest.mark.parametrize(
    ("requirement", "status", "words"),
    [
        ('numpy>=1; extra == "app"', "ok", "numpy"),
        ('fastapi<0.1; extra == "app"', "wrong", "breaks, in part silently: flows die"),
        ('no-such-package>=1; extra == "app"', "wrong", "it is missing"),
        ('no-such-package>=1; extra == "text"', "ok", "numpy"),
        ('numpy<1; extra == "text"', "wrong", "biasgate was not tried with others"),
        ('numpy<1; extra == "dev"', "ok", "numpy"),
    ],
)
def test_a_version_that_does_not_work_is_named_with_the_command_that_changes_it(
    requirement, status, words
):
    [found] = doctor.check_versions([requirement])
    assert found.status == status
    assert words in found.found
    assert found.do.startswith("pip install ") == (status == "wrong")


def torch(*, available):
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
        ("NVIDIA H100", None, "warning", "so nothing uses it"),
        ("NVIDIA H100", torch(available=False), "wrong", "torch 2.13.0 cannot use it"),
        ("NVIDIA H100", torch(available=True), "ok", "NVIDIA H100, 70.0 of 80.0 GiB free"),
        ("", torch(available=False), "ok", "are scored on the CPU"),
    ],
)
def test_a_gpu_that_nothing_uses_is_each_check(monkeypatch, driver, library, status, words):
    monkeypatch.setattr(doctor, "_nvidia", lambda: driver)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda _: library)
    monkeypatch.setitem(sys.modules, "torch", library)
    [found] = doctor.check_gpu()
    assert found.status == status
    assert words in found.found


@pytest.mark.parametrize(
    ("free", "files", "status"),
    [(50, 10**6, "ok"), (5, 10**6, "warning"), (0.5, 10**6, "wrong"), (50, 10, "wrong")],
)
def test_a_disk_that_is_almost_full_is_each_check(monkeypatch, tmp_path, free, files, status):
    usage = SimpleNamespace(free=free * doctor.GIB)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(doctor.os, "statvfs", lambda _: SimpleNamespace(f_favail=files))
    found = list(doctor.check_disks({"store": tmp_path / "not" / "there"}))
    assert lines(found) == [("disk of the store", status), ("disk of the temporary files", status)]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs Linux")
def test_a_place_that_cannot_be_written_to_is_each_check():
    first, _ = doctor.check_disks({"store": Path("/proc/nowhere")})
    assert (first.status, first.do) == ("wrong", "Make it writable, or name another place.")


@pytest.mark.parametrize(
    ("answer", "late", "expected"),
    [
        ((200, version("mlflow")), 0, [("MLflow", "ok"), ("clock", "ok")]),
        ((200, "2.1.0"), 0, [("MLflow", "warning"), ("clock", "ok")]),
        ((200, version("mlflow")), 60, [("MLflow", "ok"), ("clock", "warning")]),
        ((200, version("mlflow")), 400, [("MLflow", "ok"), ("clock", "wrong")]),
        ((401, "no"), 0, [("MLflow", "wrong")]),
        ((500, "no"), 0, [("MLflow", "wrong")]),
        ((200, "<html>"), 0, [("MLflow", "wrong")]),
    ],
)
def test_an_mlflow_server_is_asked_for_version_and_time(
    server, tmp_path, monkeypatch, answer, late, expected
):
    server.answer, server.late = answer, late
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    found = list(doctor.check_mlflow(tmp_path, may_write=False))
    assert lines(found) == expected
    assert all(one.do for one in found if one.status != "ok")


def test_a_server_that_does_not_answer_is_told_without_its_password(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ada:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "before")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "before")
    [found] = doctor.check_mlflow(tmp_path, may_write=True)
    assert (found.status, "does not answer" in found.found) == ("wrong", True)
    assert "secret" not in found.found


def test_prefects_server_is_asked_too(server, monkeypatch):
    monkeypatch.setattr(doctor, "api_url", lambda: f"{server.url}/api")
    server.answer = (200, f'"{version("prefect")}"')
    assert lines(doctor.check_prefect()) == [("Prefect", "ok"), ("clock", "ok")]
    server.answer = (200, '"2.20.0"')
    assert lines(doctor.check_prefect())[0] == ("Prefect", "warning")
    server.answer = (403, "")
    assert lines(doctor.check_prefect()) == [("Prefect", "wrong")]
    monkeypatch.setattr(doctor, "api_url", lambda: None)
    assert lines(doctor.check_prefect()) == [("Prefect", "ok")]


class Registry:
    """A registry in which some calls fail."""

    def __init__(self, *failing, other=False):
        self.failing, self.other, self.left = failing, other, set()

    def _call(self, name):
        if name in self.failing:
            message = f"PERMISSION_DENIED: {name}"
            raise RuntimeError(message)

    def record_version(self, name, *_):
        self._call("record_version")
        self.left.add(name)
        return ModelVersion(name, "1", None, {})

    def set_alias(self, *_):
        self._call("set_alias")

    def alias(self, name, _):
        return ModelVersion(name, "2" if self.other else "1", None, {})

    def delete_alias(self, *_):
        self._call("delete_alias")

    def delete_model(self, name):
        self._call("delete_model")
        self.left.discard(name)


@pytest.mark.parametrize(
    ("registry", "expected", "n_left"),
    [
        (Registry(), [("rights", "ok")], 0),
        (Registry("record_version"), [("rights", "wrong")], 0),
        (Registry("set_alias"), [("rights", "wrong")], 0),
        (Registry(other=True), [("rights", "wrong")], 0),
        (Registry("delete_model"), [("rights", "ok"), ("rights", "warning")], 1),
        (Registry("set_alias", "delete_model"), [("rights", "wrong")], 1),
    ],
)
def test_whether_an_alias_can_be_set_is_tried_and_nothing_is_left(registry, expected, n_left):
    assert lines(doctor._check_rights(registry)) == expected
    assert len(registry.left) == n_left


def test_without_keys_it_is_told_that_verdicts_can_be_forged():
    [found] = doctor.check_keys()
    assert (found.status, "may forge them" in found.found) == ("warning", True)


def test_a_key_that_signs_is_fine_unless_others_read_it_or_it_is_revoked(monkeypatch, tmp_path):
    key = signing_key(monkeypatch, tmp_path / "secret")
    path = tmp_path / "secret" / "key"
    path.chmod(0o600)
    trust(monkeypatch, tmp_path / "trusted", own=key)
    assert lines(doctor.check_keys()) == [("signing key", "ok")]
    path.chmod(0o644)
    assert lines(doctor.check_keys()) == [("signing key", "warning")]
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", key.pem)
    assert lines(doctor.check_keys()) == [("signing key", "ok")]
    revoke(key, "2026-01-01T00:00:00+00:00")
    assert lines(doctor.check_keys()) == [("signing key", "wrong")]
    monkeypatch.delenv("BIASGATE_PRIVATE_KEY")
    [found] = doctor.check_keys()
    assert "this machine can only verify" in found.found


def test_data_that_an_evaluation_file_names_is_checked(tmp_path):
    assert lines(doctor.check_evaluation(None)) == [("data", "ok")]
    assert lines(doctor.check_evaluation(tmp_path / "no.yaml")) == [("data", "wrong")]
    file = tmp_path / "wrong.yaml"
    file.write_text("name: x", "utf-8")
    [found] = each_check("data", lambda: doctor.check_evaluation(file))
    assert (found.status, str(file) in found.found) == ("wrong", True)


def test_a_champion_that_cannot_score_the_sets_as_they_are_now_is_each_check(tmp_path):
    file = write_inputs(tmp_path) / "file.yaml"
    config = yaml.safe_load(file.read_text("utf-8"))
    del config["registered_model"], config["candidates"][0]["register"]
    config["champion"] = {"name": "old", "kind": "scores", "path": "old.csv"}
    file.write_text(yaml.safe_dump(config), "utf-8")
    scores = (tmp_path / "scores.csv").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "old.csv").write_text("".join(scores), "utf-8")
    able = Check("champion", "ok", "old can score rows")
    assert list(doctor.check_champion(file, tmp_path / "store")) == [able]
    (tmp_path / "old.csv").write_text("".join(scores[:-9]), "utf-8")
    [unable] = doctor.check_champion(file, tmp_path / "store")
    assert unable.status == "wrong"
    assert unable.found.startswith("old cannot score rows, so nobody can be judged: ")
    assert "9" in unable.found


def test_without_a_champion_nothing_is_said_of_one(tmp_path):
    file = write_inputs(tmp_path) / "file.yaml"
    assert list(doctor.check_champion(file, tmp_path / "store")) == []
    assert list(doctor.check_champion(None, tmp_path / "store")) == []
    assert not (tmp_path / "store").exists()


def test_a_frozen_set_that_was_changed_is_each_check(tmp_path):
    folder = tmp_path / "sets" / "comments-1"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text("{}", "utf-8")
    [found] = doctor.check_store(tmp_path)
    assert (found.status, str(folder) in found.do) == ("wrong", True)
    os.utime(folder, (4e9, 4e9))
    assert lines(doctor.check_store(tmp_path))[-1] == ("clock", "warning")
    assert list(doctor.check_store(tmp_path / "no")) == []


def test_a_check_that_fails_does_not_hide_the_others():
    def fails():
        yield Check("a", "ok", "fine")
        message = "http://me:secret@host is broken\nand more"
        raise RuntimeError(message)

    first, second = each_check("a", fails)
    assert (first.status, second.status) == ("ok", "wrong")
    assert second.found == "RuntimeError: http://***@host is broken"


def test_the_command_exits_3_if_something_is_wrong(monkeypatch, tmp_path):
    given = {}

    def found(store, config, *, may_write):
        given.update(store=store, config=config, may_write=may_write)
        return [Check("a", "ok", "fine"), Check("b", "wrong", "[bad]", "Do this.")]

    monkeypatch.setattr(doctor, "examine", found)
    done = CliRunner().invoke(app, ["doctor", "x.yaml", "--store", str(tmp_path), "--read-only"])
    assert done.exit_code == 3
    assert "b: [bad]" in done.output
    assert "Do this." in done.output
    assert "1 wrong, 0 warnings." in done.output
    assert given == {"store": tmp_path, "config": given["config"], "may_write": False}
    done = CliRunner().invoke(app, ["doctor", "--json"])
    assert json.loads(done.stdout)[1] == {
        "what": "b",
        "status": "wrong",
        "found": "[bad]",
        "do": "Do this.",
    }
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: [Check("a", "warning", "so so")])
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 0
