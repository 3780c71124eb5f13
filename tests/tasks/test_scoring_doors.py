"""One model through every door gives the same scores."""

import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from support.comments import ODD, batch

from tasks.mlflow_models import save_classifier
from tasks.scoring.kinds import CANDIDATES
from tasks.scoring.tfidf import EXAMPLE, Tfidf

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]

TEXTS = [f"{word} {n}" for n in range(100) for word in ("kind words", "vile insult", "a house")]
MODEL = "models:/words/1"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    settings = Tfidf(name="words", kind="tfidf", model=MODEL)
    toxic = ["vile" in text for text in TEXTS]
    save_classifier(settings.pipeline().fit(TEXTS, toxic), folder, EXAMPLE)
    return folder


@pytest.fixture(scope="module")
def url(model, tmp_path_factory):
    """`mlflow models serve`, as anybody would run it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(model)]
    command += ["--env-manager", "local", "-h", "127.0.0.1", "-p", str(port)]
    log = tmp_path_factory.mktemp("log") / "served.log"
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # noqa: PTH120
    with log.open("wb") as stream:
        server = subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {"PATH": path, "MLFLOW_DISABLE_TELEMETRY": "true"},
        )
        try:
            _wait(f"http://127.0.0.1:{port}/ping", server, log)
            yield f"http://127.0.0.1:{port}/invocations"
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _wait(ping, server, log):
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(ping).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.3)
    pytest.fail(f"the model server did not start:\n{log.read_text()[-2000:]}")


def test_the_baseline_scores_the_same_through_every_door(model, url):
    version = SimpleNamespace(uri=MODEL)
    gateway = SimpleNamespace(resolve=lambda _: version, download=lambda _: model)
    doors = [
        {"kind": "tfidf", "model": MODEL},
        {"kind": "mlflow", "model": MODEL},
        {"kind": "http", "url": url, "version": "1", "batch_size": 50},
    ]
    found = []
    for door in doors:
        candidate = CANDIDATES.validate_python(door | {"name": "words"})
        with candidate.open(SimpleNamespace(gateway=gateway)) as scorer:
            found.append(scorer.score(batch(TEXTS + ODD)))
    assert np.ptp(found[0]) > 0.5
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=0, atol=1e-12)
