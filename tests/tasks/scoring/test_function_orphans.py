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


def killed_in_the_middle(folder, function):
    """Kill the parent of a function's process during a call; return the processes it left."""
    (folder / "functions.py").write_text(FUNCTIONS)
    (folder / "parent.py").write_text(PARENT)
    call, noted = f"{folder / 'functions.py'}:{function}", folder / "pids"
    with subprocess.Popen([sys.executable, "parent.py", call], cwd=folder) as parent:
        try:
            while not noted.exists():
                assert parent.poll() is None
                time.sleep(0.05)
            left = [psutil.Process(int(pid)) for pid in noted.read_text().split()]
        finally:
            parent.kill()
    return left


def running(processes):
    """Those that run on, some time later; they are ended then."""
    psutil.wait_procs(processes, timeout=20)
    found = [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    for one in found:
        one.kill()
    return found


@pytest.mark.parametrize("function", ["sleep", "search"])
def test_the_process_ends_when_its_parent_is_killed_during_a_call(tmp_path, function):
    assert running(killed_in_the_middle(tmp_path, function)) == []


def test_processes_that_the_function_started_end_as_well(tmp_path):
    assert running(killed_in_the_middle(tmp_path, "start")) == []
