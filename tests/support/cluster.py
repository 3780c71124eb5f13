"""A Dask cluster of real processes on this machine, and a model that can end one of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.disturbing import kill

REPOSITORY = Path(__file__).parents[2]
# Where the model notes what it scores, and the text at which it kills its process, once.
ASKED, KILL_AT = "BIASGATE_TEST_ASKED", "BIASGATE_TEST_KILL_AT"


def score(texts: list[str]) -> list[float]:
    """Score as `support.kills.score_by_hash`; note process and texts; perhaps be killed."""
    from support.kills import score_by_hash  # noqa: PLC0415 - which imports all the rest

    folder = Path(os.environ[ASKED])
    if os.environ.get(KILL_AT) in texts:
        with contextlib.suppress(FileExistsError):
            (folder / "killed").touch(exist_ok=False)
            kill()
    with (folder / f"{os.getpid()}.asked").open("a", encoding="utf-8") as stream:
        stream.writelines(f"{one}\n" for one in texts)
    return score_by_hash(texts)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of processes that can import project and tests."""
    paths = [str(REPOSITORY), str(REPOSITORY / "tests"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | more


@contextlib.contextmanager
def cluster(
    folder: Path, workers: Mapping[str, tuple[str, ...]], known: Mapping[str, str]
) -> Iterator[str]:
    """Yield the address of a scheduler with some workers, each with options of its own."""
    file = folder / "scheduler.json"
    started = [_start(folder, "scheduler", ("--port", "0", "--host", "127.0.0.1"), known)]
    try:
        for name, options in workers.items():
            options = ("--name", name, "--nthreads", "1", "--no-nanny", *options)
            started.append(_start(folder, "worker", options, known))
        yield _address(file)
    finally:
        for process in started:
            process.kill()
            process.wait()


def _start(
    folder: Path, what: str, options: tuple[str, ...], known: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dask", what, *options, "--no-dashboard"]
    command += ["--scheduler-file", str(folder / "scheduler.json")]
    with (folder / f"{what}.log").open("ab") as log:
        return subprocess.Popen(command, env=known, cwd=folder, stdout=log, stderr=log)


def _address(file: Path) -> str:
    import json  # noqa: PLC0415

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads(file.read_text("utf-8"))["address"])
        time.sleep(0.1)
    raise RuntimeError((file.parent / "scheduler.log").read_text("utf-8"))
