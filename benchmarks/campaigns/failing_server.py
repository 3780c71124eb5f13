"""Evaluations against an MLflow server that fails a fifth of its calls.

    python -m benchmarks.campaigns.failing_server --evaluations 50

prints how many end well, and how many times as long they take as an undisturbed one, of which one
runs before each five. A proxy stands before MLflow's own server. Of all calls it answers 5 % with
500 before MLflow does the work and 5 % with 503 after it, closes the connection of 5 % after the
work, and delays 5 % by two seconds. Each evaluation has a new database and a new store. It must end
as one that nobody disturbed.
"""

from __future__ import annotations

import argparse
import http.client
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.campaigns.faults import Server
from benchmarks.campaigns.kills import MODEL, make_inputs
from benchmarks.campaigns.random_kills import Ending, prepare, start
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.verify import verify_model

ENDING = Ending(0, "1", [("promotion", "1", "")], 1)
FAULTS = ("500 before", "503 after", "reset after", "delay")
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "server", "date"}
DELAY_S = 2
BLOCK = 5  # evaluations in a row that are compared with the undisturbed one before them


@dataclass(frozen=True)
class Trial:
    """One evaluation.

    Attributes
    ----------
    seconds : float
        How long it took.
    faults : Counter
        How often the proxy failed in each way, and, by the name `calls`, how many calls it had.
    problems : list of str
        What is wrong.
    """

    seconds: float
    faults: Counter[str]
    problems: list[str]


class _Proxy(ThreadingHTTPServer):
    """A proxy before a local port that fails as it draws."""

    def __init__(self, port: int, draw: Callable[[], str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.draw, self.seen = port, draw, Counter[str]()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(1 << 16)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        fault = self.server.draw()
        self.server.seen.update(["calls", fault])
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if fault == "500 before":
            self._answer(500, [], b"")
            return
        if fault == "delay":
            time.sleep(DELAY_S)
        behind = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        behind.request(self.command, self.path, body, dict(self.headers))
        answer = behind.getresponse()
        content = answer.read()
        behind.close()
        if fault == "reset after":
            self.close_connection = True
        elif fault == "503 after":
            self._answer(503, [], b"")
        else:
            self._answer(answer.status, answer.getheaders(), content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def proxy(port: int, draw: Callable[[], str]) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the address of a proxy before a local port, and what it did."""
    server = _Proxy(port, draw)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.seen
    finally:
        server.shutdown()
        server.server_close()


def run_trial(folder: Path, draw: Callable[[], str]) -> Trial:
    """Evaluate once."""
    folder.mkdir()
    make_inputs(folder)
    behind = Server(folder / "mlflow.db")
    behind.start()
    try:
        with proxy(behind.port, draw) as (uri, seen):
            started = time.monotonic()
            process = start(folder, "evaluate", MLFLOW_TRACKING_URI=uri)
            process.join(900)
            seconds = time.monotonic() - started
        found, problems = _look(behind.uri, process.exitcode, folder)
        if found != ENDING:
            problems.append(f"{found} where {ENDING} is right")
        if problems:
            problems.append((folder / "log").read_text("utf-8")[-2000:])
        return Trial(seconds, seen, problems)
    finally:
        if process.is_alive():
            process.kill()
        behind.stop()


def _look(uri: str, exit_code: int | None, folder: Path) -> tuple[Ending, list[str]]:
    gateway = Gateway(uri)
    ending = Ending.of(exit_code, gateway)
    experiments = [one.experiment_id for one in gateway.client.search_experiments()]
    states = [one.info.status for one in gateway.client.search_runs(experiments)]
    problems = list[str]()
    if ending == ENDING:
        problems += (
            one.sentence for one in verify_model(MODEL, None, gateway, folder) if not one.holds
        )
    # One run for the evaluation, one for each candidate, one for the registration.
    if states != ["FINISHED"] * 4:
        problems.append(f"runs are {states}")
    return ending, problems


def main() -> None:
    """Run the campaign and print what was seen."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--evaluations", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draws = random.Random(options.seed)  # noqa: S311 - not for secrets
    calm, trials, multiples = list[Trial](), list[Trial](), list[float]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder / "home")
        for turn in range(options.evaluations):
            if turn % BLOCK == 0:
                calm.append(_tried(folder / f"calm {turn}", lambda: ""))
            trials.append(_tried(folder / str(turn), lambda: _draw(draws)))
            multiples.append(trials[-1].seconds / calm[-1].seconds)
    times = sorted(one.seconds for one in trials)
    total = sum((one.faults for one in trials), Counter[str]())
    sys.stdout.write(
        f"undisturbed: {len(calm)} evaluations, "
        f"{statistics.median(one.seconds for one in calm):.1f} s (median)\n"
        f"disturbed: {len(times)} evaluations, {statistics.median(times):.1f} s (median), "
        f"{times[-1]:.1f} s (longest); {dict(total)}\n"
        f"times as long as the undisturbed one before: {statistics.median(multiples):.2f} "
        f"(median), {max(multiples):.2f} (longest)\n"
        f"wrong: {sum(bool(one.problems) for one in [*calm, *trials])}\n"
    )


def _tried(folder: Path, draw: Callable[[], str]) -> Trial:
    trial = run_trial(folder, draw)
    shutil.rmtree(folder)
    sys.stderr.write(f"{trial}\n")
    return trial


def _draw(draws: random.Random) -> str:
    number = draws.random() * 20
    return FAULTS[int(number)] if number < len(FAULTS) else ""


if __name__ == "__main__":
    main()
