"""Calls to a server that is down, fails or restarts: retried for a limited time, with a message."""

import http.server
import pickle
import socket
import threading
import time

import pytest

from biasgate.tasks.common.errors import InputError, ServerError
from biasgate.tasks.mlflow_server import server as module
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.server import retry_call

GONE = '{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}'


@pytest.fixture
def messages(monkeypatch):
    sentences = []
    monkeypatch.setattr(module, "log_message", sentences.append)
    monkeypatch.setattr(module, "_responsive_servers", set())
    monkeypatch.setattr(module, "_failed_servers", {})
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(module.WAIT, raising=False)
    return sentences


@pytest.fixture
def clock(monkeypatch):
    """A clock that only advances during `time.sleep`."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.time, "sleep", lambda pause: now.__setitem__(0, now[0] + pause))
    return now


@pytest.fixture
def failing():
    """Function that starts a server; it first answers with the given statuses, then normally."""
    started = []

    def start(*statuses):
        left = list(statuses)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status = left.pop(0) if left else 404
                self.send_response(status)
                self.send_header("Retry-After", "3600")
                self.end_headers()
                self.wfile.write(GONE.encode())

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        started.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}", left

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def closed():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_a_server_that_fails_a_few_times_is_asked_again(failing, messages, clock):
    uri, left = failing(503, 500, 429)
    assert Gateway.from_uri(uri).get_run_tags("a") is None
    assert left == []
    assert messages == []
    assert 0 < clock[0] < module._SILENT_S


def test_a_server_that_is_not_there_is_given_up_after_30_seconds(messages, clock):
    uri = closed()
    with pytest.raises(ServerError) as error:
        Gateway.from_uri(uri).get_run_tags("a")
    assert 20 < clock[0] <= 30
    assert str(error.value).startswith(f"MLflow at {uri} does not answer, for ")
    assert "BIASGATE_MLFLOW_WAIT_S sets how long to wait." in str(error.value)
    assert messages == [f"MLflow at {uri} does not answer: retrying for up to 30 s."]


def test_a_server_that_has_answered_before_is_given_five_minutes(failing, messages, clock):
    uri, left = failing()
    gateway = Gateway.from_uri(uri)
    gateway.get_run_tags("a")
    left += [500] * 10_000
    with pytest.raises(ServerError, match="answers with errors"):
        gateway.get_run_tags("a")
    assert 280 < clock[0] <= 300
    assert len(messages) == 1


@pytest.mark.usefixtures("messages")
def test_one_that_was_failed_servers_is_waited_for_again_only_after_five_minutes(failing, clock):
    uri, left = failing(*[500] * 10_000)
    gateway, waited = Gateway.from_uri(uri), []
    for pause in (0, 0, 300):
        clock[0] += pause
        before = clock[0]
        with pytest.raises(ServerError):
            gateway.get_run_tags("a")
        waited.append(clock[0] - before)
    assert waited[1] == 0
    assert waited[0] > 20
    assert waited[2] > 20
    left[:] = [404]
    gateway.get_run_tags("a")  # it answers: from now on it is waited for
    left[:] = [503]
    assert gateway.get_run_tags("a") is None


def test_a_server_that_is_silent_is_named_as_such(messages, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv(module.WAIT, "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerError, match=f"MLflow at {uri} does not answer"):
            Gateway.from_uri(uri).get_run_tags("a")
    assert messages == []


@pytest.mark.usefixtures("messages")
def test_an_answer_that_is_an_error_is_not_asked_for_again(failing):
    uri, left = failing(400, 503)
    assert Gateway.from_uri(uri).get_run_tags("a") is None
    assert left == [503]


@pytest.mark.parametrize("given", ["-1", "soon", "1.5", ""])
def test_the_time_must_be_a_number_of_seconds_for_a_server_that_was_failed_servers_too(
    given, monkeypatch
):
    monkeypatch.setenv(module.WAIT, given)
    monkeypatch.setattr(module, "_failed_servers", {"http://127.0.0.1:9": time.monotonic()})
    with pytest.raises(InputError, match=f"{module.WAIT} must be a whole number of seconds"):
        retry_call(lambda: None, "http://127.0.0.1:9")


def test_a_gateway_that_was_used_can_be_sent_to_another_process(tmp_path):
    gateway = Gateway.from_store(tmp_path)
    assert gateway.list_models() == []
    assert pickle.loads(pickle.dumps(gateway)).list_models() == []  # noqa: S301 - our own bytes
