"""Evaluations against an MLflow server that fails a fifth of its calls.

    python -m benchmarks.campaigns.failing_server --evaluations 50

prints how many end well, and their times relative to an undisturbed evaluation, which runs before
each block of five. A proxy is in front of MLflow's own server. Of all calls it answers 5 % with 500
before MLflow does the work and 5 % with 503 after it, closes the connection of 5 % after the work,
and delays 5 % by two seconds. Each evaluation has a new database and a new store. It must end like
an undisturbed evaluation.
"""

from __future__ import annotations

import argparse
import http.client
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.campaigns.disturbing import Trial, list_faults, list_runs, report_trials
from benchmarks.campaigns.faults import Server
from benchmarks.campaigns.kills import make_inputs
from benchmarks.campaigns.random_kills import Ending, prepare, start
from biasgate.tasks.mlflow_server.runs import Gateway

ENDING = Ending(0, "1", [("promotion", "1", "")], 1)
FAULTS = ("500 before", "503 after", "reset after", "delay")
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "server", "date"}
DELAY_S = 2
CALM = "nothing"
BLOCK = 5  # evaluations that are compared with the undisturbed evaluation before them


@dataclass(frozen=True, kw_only=True)
class TimedEvaluation(Trial):
    """An evaluation behind the proxy."""

    seconds: float
    n_calls: Counter[str]
    """Number of calls by fault, and of all calls by the name `calls`."""


class _Proxy(ThreadingHTTPServer):
    """A proxy before a local port that fails as it draws."""

    def __init__(self, port: int, draw: Callable[[], str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.draw, self.n_calls = port, draw, Counter[str]()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(1 << 16)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        fault = self.server.draw()
        self.server.n_calls.update(["calls", fault])
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
    """Yield the address of a proxy before a local port, and its numbers of calls."""
    server = _Proxy(port, draw)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.n_calls
    finally:
        server.shutdown()
        server.server_close()


def run_trial(folder: Path, kind: str, draw: Callable[[], str]) -> TimedEvaluation:
    """Evaluate once."""
    folder.mkdir()
    make_inputs(folder)
    server = Server(folder / "mlflow.db")
    server.start()
    try:
        with proxy(server.port, draw) as (uri, n_calls):
            started = time.monotonic()
            process = start(folder, "evaluate", MLFLOW_TRACKING_URI=uri)
            process.join(900)
            seconds = time.monotonic() - started
        gateway = Gateway(server.uri)
        ending = Ending.read(process.exitcode, gateway)
        states = [run.info.status for run in list_runs(gateway)]
        problems = list_faults(gateway, folder) if ending == ENDING else []
        # The evaluation, each candidate and the registration have a run.
        if states != ["FINISHED"] * 4:
            problems.append(f"runs are {states}")
        if ending != ENDING:
            problems.append(f"{ending} instead of {ENDING}")
        if problems:
            problems.append((folder / "log").read_text("utf-8")[-2000:])
        n_fired = sum(n_calls[fault] for fault in FAULTS)
        return TimedEvaluation(
            kind=kind, n_fired=n_fired, problems=problems, seconds=seconds, n_calls=n_calls
        )
    finally:
        if process.is_alive():
            process.kill()
        server.stop()
        shutil.rmtree(folder)


def campaign(folder: Path, n_evaluations: int, seed: int) -> Iterator[TimedEvaluation]:
    """Yield blocks of disturbed evaluations, each after an undisturbed evaluation."""
    draws = random.Random(seed)  # noqa: S311 - not for secrets

    def draw_fault() -> str:
        number = draws.random() * 20
        return FAULTS[int(number)] if number < len(FAULTS) else ""

    for turn in range(n_evaluations):
        if turn % BLOCK == 0:
            yield run_trial(folder / f"calm {turn}", CALM, lambda: "")
        yield run_trial(folder / str(turn), "a failing server", draw_fault)


def main() -> None:
    """Run the campaign and print its tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--evaluations", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder / "home")
        trials = report_trials(campaign(folder, options.evaluations, options.seed))
    calm = [trial for trial in trials if trial.kind == CALM]
    disturbed = [trial for trial in trials if trial.kind != CALM]
    ratios = [trial.seconds / calm[turn // BLOCK].seconds for turn, trial in enumerate(disturbed)]
    for title, numbers in (
        ("seconds undisturbed", [trial.seconds for trial in calm]),
        ("seconds disturbed", [trial.seconds for trial in disturbed]),
        ("ratio to the preceding undisturbed evaluation", ratios),
    ):
        print(f"{title}: median {statistics.median(numbers):.2f}, longest {max(numbers):.2f}")
    print(dict(sum((trial.n_calls for trial in disturbed), Counter[str]())))


if __name__ == "__main__":
    main()
