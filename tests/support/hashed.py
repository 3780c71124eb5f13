"""The models of killed evaluations, in a module that imports fast.

A candidate of kind `python` imports its module in a process of its own, once for each range of
shards. Prefect and MLflow, which the rest of the campaign needs, take half a minute to import on
a busy machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

# Of `score_and_note`: where it notes what it scores; how many workers must meet there; the text
# at which it kills the worker, once.
NOTES, MEETING, KILL_AT = "TEST_NOTES", "TEST_MEETING", "TEST_KILL_AT"
# The name of the worker; the function runs in a process below it, which gets its environment.
NAME = "TEST_WORKER"


def score_by_hash(texts: list[str]) -> list[float]:
    """Score each text by its content alone."""
    return [int(hashlib.sha256(one.encode()).hexdigest()[:12], 16) / 16**12 for one in texts]


def score_and_note(texts: list[str]) -> list[float]:
    """Score like `score_by_hash`, and note by worker what was scored."""
    folder, worker = Path(os.environ[NOTES]), os.environ[NAME]
    (folder / f"{worker}.here").touch()
    until(lambda: len(list(folder.glob("*.here"))) >= int(os.environ[MEETING]))
    if os.environ[KILL_AT] in texts:
        with contextlib.suppress(FileExistsError):
            (folder / "killed").touch(exist_ok=False)
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(3600)  # the end of the worker ends this process
    with (folder / f"{worker}.asked").open("a", encoding="utf-8") as stream:
        stream.writelines(f"{one}\n" for one in texts)
    return score_by_hash(texts)


def until(is_so: Any) -> None:
    """Wait until a condition holds.

    Raises
    ------
    TimeoutError
        After four minutes.
    """
    deadline = time.monotonic() + 240
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)
