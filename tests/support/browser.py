"""A real browser for tests of pages, and MLflow's server to look at."""

import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
# MLflow opens its assistant at the first visit.
NO_ASSISTANT = "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
BROKEN = re.compile("something went wrong|not found", re.IGNORECASE)


@contextmanager
def launched():
    """Yield a browser; skip the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is missing")
    playwright.expect.set_options(timeout=60_000)  # machines of tests are slow
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def mlflow_page(browser, picture):
    """Yield a fresh page of MLflow; it may run no name, and at its end it is kept as a picture."""
    context = browser.new_context(viewport={"width": 1600, "height": 1000})
    page = context.new_page()
    page.add_init_script(NO_ASSISTANT)
    page.set_default_timeout(60_000)
    said = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda asked: said.append(asked.url) if ":9/" in asked.url else None)
    yield page
    page.screenshot(path=picture)
    assert page.get_by_text(BROKEN).count() == 0
    assert said == []
    context.close()


@contextmanager
def started_ui(store):
    """Start `biasgate ui` on a store; yield its process and what it printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = store.parent / f"{store.name}-ui.log"
    command = [sys.executable, "-m", "biasgate", "ui", "--store", str(store), "--port", str(port)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with log.open("wb") as stream:
        server = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, env=environment, cwd=store.parent
        )
    try:
        wait_for_health(f"http://127.0.0.1:{port}/health", server, log)
        yield server, log.read_text("utf-8")
    finally:
        server.terminate()
        server.wait(timeout=30)


def wait_for_health(url, server, log):
    """Wait until a server answers; fail with its log if it ends."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(url, timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    pytest.fail(f"MLflow did not become healthy: {log.read_text()[-2000:]}")


def links_of(printed, experiment):
    """The links that `biasgate ui` printed for an experiment, by what they open."""
    part = re.search(rf"^  {experiment}:\n((?:    .*\n)+)", printed, re.MULTILINE)[1]
    found = re.findall(r"^    (.{16})(http\S+)$", part, re.MULTILINE)
    return {what.strip(): address for what, address in found}
