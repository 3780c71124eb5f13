"""One model on all cores: the same numbers in the same order, whatever happens to a process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from biasgate.tasks.scoring.kinds.tfidf_workers import FEWEST_TEXTS, Workers

TEXTS = [f"{n:05}" for n in range(9 * FEWEST_TEXTS + 17)]


def number_and_process(model, texts):
    """A number of each text, and the process that gave it after the point."""
    return np.array([model["add"] + int(text) + os.getpid() / 1e9 for text in texts])


def die(model, texts):
    if model["dies"] != os.getpid():
        os.kill(os.getpid(), signal.SIGKILL)
    return np.array([float(text) for text in texts])


def slow(model, texts):
    time.sleep(0.01)
    return number_and_process(model, texts)


@pytest.fixture
def workers():
    made = []

    def workers(call, model, cores):
        made.append(Workers(call, model, cores))
        made[-1].wait_until_started()
        return made[-1]

    yield workers
    for one in made:
        one.close()


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_every_text_gets_its_number_in_order(workers, cores):
    numbers = workers(slow, {"add": 0.0}, cores).run(TEXTS)
    assert np.floor(numbers).tolist() == [int(text) for text in TEXTS]
    processes = set(np.round((numbers % 1) * 1e9).astype(int).tolist())
    assert os.getpid() in processes
    assert (len(processes) > 1) == (cores > 1)


def test_a_process_that_is_killed_costs_no_number(workers):
    team = workers(die, {"dies": os.getpid()}, 2)
    for _ in range(2):
        assert team.run(TEXTS).tolist() == [float(text) for text in TEXTS]


def test_while_a_process_is_still_starting_this_one_does_the_work():
    team = Workers(number_and_process, {"add": 0.0}, 2)
    numbers = team.run(TEXTS[:10])
    assert np.round((numbers % 1) * 1e9).astype(int).tolist() == [os.getpid()] * 10
    team.close()


LASTING = """
import sys, time
sys.path[:0] = sys.argv[1:3]
from biasgate.tasks.scoring.kinds.tfidf_workers import Workers
import math
if __name__ == "__main__":
    team = Workers(math.fsum, {}, 2)
    team.wait_until_started()
    [process] = team._pool._processes
    print(process, flush=True)
    time.sleep(60)
"""


def test_a_process_ends_with_the_one_that_was_killed(tmp_path):
    script = tmp_path / "lasting.py"
    script.write_text(LASTING)
    root = str(Path(__file__).resolve().parents[3])
    command = [sys.executable, str(script), root, root]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        os.kill(child, 0)  # it is there
        parent.kill()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _is_alive(child):
        time.sleep(0.05)
    assert not _is_alive(child)


def _is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
