"""Which process owns some work, and whether that process has ended.

A number of a process means something only within its namespace (its container) and until the
machine is restarted, so both belong to its name.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

# The kernel rounds the time of the boot, so the same start may be read a second apart.
_SAME_START_S = 5.0
# The number that Linux gives to the namespace of processes outside of all containers.
_OUTERMOST = "4026531836"
_SHORT = 8


def this_process() -> str:
    """Return machine, PID and start of this process, which no other process ever shares.

    The machine is `host~machine id~boot id~namespace of processes`; the last three are empty
    where the system has none.
    """
    return _described(os.getpid())


def host_of(process: str) -> str:
    """Return the name of the machine of a process, for people."""
    return process.partition(" ")[0].partition("~")[0]


def is_of_this_machine(process: str) -> bool:
    """Whether a process runs, or ran, where this one can see it: same machine, boot, container."""
    return process.rsplit(" ", 2)[0] == _machine()


def has_ended(process: str) -> bool:
    """Whether a process is known to have ended; False if it cannot be known from here."""
    machine, pid, started = process.rsplit(" ", 2)
    if machine != _machine():
        return _was_restarted_since(machine)
    running = _start(int(pid))
    return running is None or abs(running - float(started)) > _SAME_START_S


def _was_restarted_since(machine: str) -> bool:
    """Whether this machine, not a container on it, is the same one after a later start."""
    theirs, ours = machine.split("~"), _machine().split("~")
    if len(theirs) != len(ours):
        return False
    same = theirs[:2] == ours[:2] and "" not in {ours[1], theirs[2], ours[2]}
    return same and theirs[3] == ours[3] == _OUTERMOST and theirs[2] != ours[2]


@cache
def _machine() -> str:
    machine_id = _first_line(Path("/etc/machine-id"))[:_SHORT]
    boot_id = _first_line(Path("/proc/sys/kernel/random/boot_id"))[:_SHORT]
    namespace = ""
    with suppress(OSError):
        namespace = "".join(filter(str.isdigit, str(Path("/proc/self/ns/pid").readlink())))
    return f"{socket.gethostname()}~{machine_id}~{boot_id}~{namespace}"


def _first_line(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except OSError:
        return ""


@cache
def _described(pid: int) -> str:
    return f"{_machine()} {pid} {_start(pid) or 0:.2f}"


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
