"""Which process owns some work, and whether that process has ended."""

from __future__ import annotations

import os
import socket
from functools import cache

import psutil

# The kernel rounds the time of the boot, so the same start may be read a second apart.
_SAME_START_S = 5.0


def this_process() -> str:
    """Return machine, PID and start of this process, which no other process ever shares."""
    return _described(os.getpid())


def is_of_this_machine(process: str) -> bool:
    """Whether a process runs, or ran, on this machine."""
    return process.rsplit(" ", 2)[0] == socket.gethostname()


def has_ended(process: str) -> bool:
    """Whether a process of this machine has ended; never true of another machine's."""
    _, pid, started = process.rsplit(" ", 2)
    if not is_of_this_machine(process):
        return False
    running = _start(int(pid))
    return running is None or abs(running - float(started)) > _SAME_START_S


@cache
def _described(pid: int) -> str:
    return f"{socket.gethostname()} {pid} {_start(pid) or 0:.2f}"


def _start(pid: int) -> float | None:
    """Return when a process started, in seconds since the boot; None if it has ended.

    Relative to the boot, because setting the clock shifts both times alike.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process.create_time() - psutil.boot_time()
    except psutil.Error:
        return None
