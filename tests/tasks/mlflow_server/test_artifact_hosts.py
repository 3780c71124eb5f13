"""Only the tracking server receives its token or password, whatever the registry contains."""

import http.server
import socket
import threading

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.artifact_hosts import ARTIFACT_HOSTS, require_own_host
from biasgate.tasks.mlflow_server.artifacts import fetch, open_artifacts, read_manifest
from biasgate.tasks.mlflow_server.runs import Gateway

SERVER = "https://mlflow.example.org:5000"
SAID = "artifacts must be at the host of MLflow's tracking server"


@pytest.fixture
def listener(monkeypatch):
    """Address of another host, and the `Authorization` headers that it received."""
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret-token")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    got = []

    class Recorder(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            got.append(self.headers["Authorization"])
            self.send_response(404)
            self.end_headers()

        do_PUT = do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


def folder_of(uri, tracking_uri, folder):
    fetch(uri, tracking_uri, folder)


def listed(uri, tracking_uri, folder):
    read_manifest(uri, tracking_uri, folder)


def one_file(uri, tracking_uri, folder):
    with open_artifacts(uri, tracking_uri, folder, ["verdict.json"]):
        pass


@pytest.mark.parametrize("download", [folder_of, listed, one_file])
@pytest.mark.parametrize("scheme", ["mlflow-artifacts", "http"])
def test_another_host_is_not_asked(download, scheme, listener, tmp_path):
    host, got = listener
    with pytest.raises(InputError, match=SAID):
        download(f"{scheme}://{host}/models/1", "http://127.0.0.1:9", tmp_path)
    assert got == []


def test_the_tracking_server_itself_is_asked(listener, tmp_path):
    host, got = listener
    with pytest.raises(InputError, match="mlflow-artifacts:/models/1; they are not"):
        fetch("mlflow-artifacts:/models/1", f"http://{host}", tmp_path)
    assert set(got) == {"Bearer secret-token"}


def test_nothing_is_uploaded_to_another_host(listener, tmp_path):
    host, got = listener
    gateway = Gateway.from_store(tmp_path / "store")
    experiment = gateway.client.create_experiment("theirs", f"http://{host}/artifacts")
    run = gateway.ensure_run(experiment, "key", "name")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "report.json").write_text("{}")
    with pytest.raises(InputError, match=SAID):
        gateway.log_folder(run, tmp_path / "files")
    with pytest.raises(InputError, match=SAID):
        gateway.log_table(run, {"a": [1]}, "table.json")
    assert got == []


def test_a_version_whose_source_names_a_run_is_found_where_the_run_is(tmp_path):
    gateway = Gateway.from_store(tmp_path / "store")
    run = gateway.ensure_run(gateway.ensure_experiment("any"), "key", "name")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "MLmodel").write_text("flavors: {}\n")
    gateway.log_folder(run, tmp_path / "model", "model")
    gateway.create_model("m")
    gateway.client.create_model_version("m", f"runs:/{run}/model", run_id=run)
    version = gateway.resolve("models:/m/1")
    assert [file.path for file in gateway.read_manifest(version).files] == ["MLmodel"]


@pytest.mark.parametrize(
    "uri",
    [
        "mlflow-artifacts:/models/1",
        "mlflow-artifacts://mlflow.example.org:5000/models/1",
        "https://MLflow.example.org:5000/api/2.0/mlflow-artifacts/artifacts/1",
        "s3://bucket/models/1",
        "gs://bucket/models/1",
        "abfss://files@account.dfs.core.windows.net/models/1",
        "/folder/models/1",
    ],
)
def test_own_hosts_and_stores_are_allowed(uri):
    require_own_host(uri, SERVER)


@pytest.mark.parametrize(
    "uri",
    [
        "mlflow-artifacts://mlflow.example.org/models/1",  # another port
        "http://mlflow.example.org:5000/models/1",  # not encrypted
        "https://mlflow.example.org:5000@evil.example.org/models/1",
        "https://evil.example.org\\@mlflow.example.org:5000/models/1",
        "https://mlflow.example.org:5000\\.evil.example.org/models/1",
        "https://mlflow.example.org.evil.example.org:5000/models/1",
        "MLFLOW-ARTIFACTS://evil.example.org/models/1",
        "mlflow-artifacts://mlflow.example.org:port/models/1",
        "abfss://files@account.evil.example.org/models/1",
    ],
)
def test_every_other_host_is_refused(uri):
    with pytest.raises(InputError, match=SAID):
        require_own_host(uri, SERVER)


@pytest.mark.parametrize(
    "uri",
    [
        "ftp://evil.example.org/x",
        "FTP://evil.example.org/x",
        "sftp://evil.example.org/x",
        "hdfs://evil.example.org/x",
        "viewfs://evil.example.org/x",
        "dbfs:/x",
        "r2://bucket@evil.example.org/x",
        "b2://bucket@evil.example.org/x",
        "plugin://evil.example.org/x",
    ],
)
def test_another_protocol_is_refused_unless_it_is_allowed_by_name(uri, monkeypatch):
    with pytest.raises(
        InputError, match="must be files of this machine, at the tracking"
    ) as raised:
        require_own_host(uri, SERVER)
    allowed = str(raised.value).rpartition(f"{ARTIFACT_HOSTS}=")[2]
    monkeypatch.setenv(ARTIFACT_HOSTS, allowed)
    require_own_host(uri, SERVER)


def test_an_ftp_server_that_a_version_names_is_not_connected_to(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        uri = f"ftp://127.0.0.1:{server.getsockname()[1]}/x"
        with pytest.raises(InputError, match="which was not contacted"):
            fetch(uri, "sqlite:///mlflow.db", tmp_path)
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_second_address_is_not_followed():
    with pytest.raises(InputError, match="artifacts must have the address of files; got models:/"):
        require_own_host("models:/another/1", SERVER)


def test_an_address_that_cannot_be_read_is_refused():
    with pytest.raises(InputError, match="must have an address that can be read"):
        require_own_host("https://[evil/models/1", SERVER)


def test_a_host_that_is_allowed_by_name_is_asked(monkeypatch):
    uri = "mlflow-artifacts://files.example.org:443/models/1"
    with pytest.raises(InputError, match=f"{ARTIFACT_HOSTS}=https://files.example.org:443"):
        require_own_host(uri, SERVER)
    monkeypatch.setenv(ARTIFACT_HOSTS, "http://one.example.org, https://files.example.org")
    require_own_host(uri, SERVER)
    with pytest.raises(InputError, match=SAID):
        require_own_host("https://files.example.org:444/models/1", SERVER)


def test_a_local_store_sends_the_token_nowhere():
    with pytest.raises(InputError, match=r"BIASGATE_ARTIFACT_HOSTS=https://evil\.example\.org"):
        require_own_host("mlflow-artifacts://evil.example.org/models/1", "sqlite:///mlflow.db")
