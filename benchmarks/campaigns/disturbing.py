"""What the fault tests of promotion and of whole evaluations have in common."""

import logging
import os
import signal
import sys


def kill():
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def be_quiet(instead=os.devnull):
    """Redirect this process's output to a file until it ends."""
    sys.stderr = sys.stdout = open(instead, "w")  # noqa: SIM115, PTH123
    logging.disable()
