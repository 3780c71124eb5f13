"""A function's process ends with the evaluation that started it, whatever it is doing."""

import subprocess
import sys
import time

import psutil
import pytest

# Each notes the processes that must end, then never answers.
FUNCTIONS = """\
import os, re, subprocess, sys, time

def note(*pids):
    with open("pids.new", "w") as stream:
        stream.write(" ".join(map(str, pids)))
    os.replace("pids.new", "pids")

def sleep(texts):
    note(os.getpid())
    time.sleep(3600)

def search(texts):
    # No other thread of Python runs during a search, and this one takes years.
    note(os.getpid())
    re.match("(a+)+$", "a" * 60 + "b")

def start(texts):
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    note(os.getpid(), other.pid)
    time.sleep(3600)
"""
PARENT = """\
import sys
from pathlib import Path
from biasgate.tasks.scoring.kinds.python_function import FunctionProcess

if __name__ == "__main__":
    process = FunctionProcess(sys.argv[1], "a function", 3600.0, None, Path("log"))
    process.score(["a text"])
"""


def kill_parent(folder, function):
    """Kill the parent of a function's process during a call; return the remaining processes."""
    (folder / "functions.py").write_text(FUNCTIONS)
    (folder / "parent.py").write_text(PARENT)
    call, pids = f"{folder / 'functions.py'}:{function}", folder / "pids"
    with subprocess.Popen([sys.executable, "parent.py", call], cwd=folder) as parent:
        try:
            while not pids.exists():
                assert parent.poll() is None
                time.sleep(0.05)
            left = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
        finally:
            parent.kill()
    return left


def find_running(processes):
    """Return the processes that still run after some time, and end them."""
    psutil.wait_procs(processes, timeout=20)
    running = [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    for process in running:
        process.kill()
    return running


@pytest.mark.parametrize("function", ["sleep", "search"])
def test_the_process_ends_when_its_parent_is_killed_during_a_call(tmp_path, function):
    assert find_running(kill_parent(tmp_path, function)) == []


def test_processes_that_the_function_started_end_as_well(tmp_path):
    assert find_running(kill_parent(tmp_path, "start")) == []
