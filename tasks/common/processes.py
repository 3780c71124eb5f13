"""Who is making something, and whether that process has ended."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_process() -> str:
    """Return machine, number and start of this process: no other has, or will have, the same."""
    pid = os.getpid()
    return f"{socket.gethostname()} {pid} {_start(pid)}"


def is_of_this_machine(process: str) -> bool:
    """Whether a process runs, or ran, on this machine."""
    return process.rsplit(" ", 2)[0] == socket.gethostname()


def has_ended(process: str) -> bool:
    """Whether a process of this machine has ended; of another machine's this cannot tell."""
    _, pid, started = process.rsplit(" ", 2)
    return is_of_this_machine(process) and _start(int(pid)) != started


def _start(pid: int) -> str:
    """Return when a process started, as the kernel counts; "" if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return ""
    fields = stat.rsplit(")", 1)[1].split()
    return "" if fields[0] == "Z" else fields[19]
