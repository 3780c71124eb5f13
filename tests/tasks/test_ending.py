"""The immediate end of a process: its last functions are called, and its steps stop."""

import subprocess
import sys

ENDING = """\
import subprocess, sys, threading, time
from biasgate.tasks.common.steps import limit_duration
from biasgate.tasks.ending import end_immediately

child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
entered = threading.Event()

def wait_for_child():
    entered.set()
    child.wait()

def work():
    limit_duration(wait_for_child)()
    print("the step ended", flush=True)

threading.Thread(target=work).start()
entered.wait()
last = [lambda: print("told", flush=True), lambda: 1 / 0, lambda: time.sleep(3600)]
end_immediately(7, 1, *last, lambda: (child.kill(), child.wait(), time.sleep(0.5)))
"""


def test_what_is_done_last_is_tried_and_no_step_tells_of_its_killed_child():
    done = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (7, "told\n"), done.stderr
