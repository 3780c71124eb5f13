"""Unique names of processes, and a check if a named process has ended.

A PID is unique only within its namespace (its container) and until the machine is restarted, so
both are part of the name.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

# The kernel rounds the boot time, so two readings of the same start may differ by a second.
_SAME_START_S = 5.0
# Linux's number for the PID namespace outside of all containers.
_HOST_NAMESPACE = "4026531836"
_ID_LENGTH = 8


def describe_this_process() -> str:
    """Return the unique name of this process: machine, PID and start.

    The machine is `host~machine id~boot id~PID namespace`. The last three are empty if the system
    does not have them.
    """
    return _describe_process(os.getpid())


def get_host_name(process: str) -> str:
    """Return the host name in the name of a process, for display."""
    return process.partition(" ")[0].partition("~")[0]


def is_on_this_machine(process: str) -> bool:
    """Return True if a process has the machine, boot and container of this process."""
    return process.rsplit(" ", 2)[0] == _identify_machine()


def has_ended(process: str) -> bool:
    """Return True if a process is known to have ended; False if that is unknown."""
    machine, pid, started = process.rsplit(" ", 2)
    if machine != _identify_machine():
        return _has_rebooted(machine)
    running = _read_start(int(pid))
    return running is None or abs(running - float(started)) > _SAME_START_S


def _has_rebooted(machine: str) -> bool:
    """Return True if this is the same machine after a restart; False for containers."""
    other, this = machine.split("~"), _identify_machine().split("~")
    if len(other) != len(this):
        return False
    is_same_host = other[:2] == this[:2] and "" not in {this[1], other[2], this[2]}
    return is_same_host and other[3] == this[3] == _HOST_NAMESPACE and other[2] != this[2]


@cache
def _identify_machine() -> str:
    machine_id = _read_text(Path("/etc/machine-id"))[:_ID_LENGTH]
    boot_id = _read_text(Path("/proc/sys/kernel/random/boot_id"))[:_ID_LENGTH]
    namespace = ""
    with suppress(OSError):
        namespace = "".join(filter(str.isdigit, str(Path("/proc/self/ns/pid").readlink())))
    return f"{socket.gethostname()}~{machine_id}~{boot_id}~{namespace}"


def _read_text(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except OSError:
        return ""


@cache
def _describe_process(pid: int) -> str:
    return f"{_identify_machine()} {pid} {_read_start(pid) or 0:.2f}"


def _read_start(pid: int) -> float | None:
    """Return the start of a process in seconds since the boot; None if it has ended.

    Relative to the boot, since a change of the clock shifts both times equally.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process.create_time() - psutil.boot_time()
    except psutil.Error:
        return None
