"""A candidate's Python function in its own process, which is stopped if necessary.

A user's function may hang, use ever more memory, print without end, exit or crash. The
evaluation must survive all of that, and report in one sentence what happened.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from biasgate.tasks.common.errors import CandidateError, CandidateStoppedError, InputError
from biasgate.tasks.scoring.kinds import function_worker

LOG_BYTES = 64 * 1024
# Between two checks of time and memory.
INTERVAL_S = 0.25
_PATIENCE_S = 5.0
_MIB = 2**20
_CGROUP = Path("/sys/fs/cgroup/memory.max")


class FunctionProcess:
    """The process; it starts at once, and is ready when `ask` first returns.

    `call`: `package.module:function` or `/path/file.py:function`. `of`: name of the function, for
    messages. `timeout_s`: limit for the import, and for each batch. `memory_limit`: bytes of
    resident memory that the process and its children may use. Default: 80 % of the memory that is
    available now. `log`: file for the end of its printed output.
    """

    def __init__(
        self, call: str, of: str, timeout_s: float, memory_limit: int | None, log: Path
    ) -> None:
        self._of, self._timeout_s, self._log_file = of, timeout_s, log
        self._limit = memory_limit or available_memory() * 4 // 5
        self._deadline: float | None = None
        self._stopped: str | None = None
        self._ended = threading.Event()
        self._printed, self._n_printed = bytearray(), 0
        self._connection, self._process = _start()
        self._threads = [
            threading.Thread(target=one, daemon=True) for one in (self._read, self._watch)
        ]
        for thread in self._threads:
            thread.start()
        try:
            self._talk({"call": call, "of": of, "path": sys.path})
        except BaseException:
            self.close()
            raise

    def ask(self, texts: Sequence[str]) -> np.ndarray:
        """Return the function's scores, shape (n,).

        Raises CandidateError if the function raised or its process ended, and
        CandidateStoppedError, after which it is not tried again, if it took too long or too much
        memory.
        """
        scores = np.frombuffer(self._talk(list(texts)), dtype=np.float64)
        if len(scores) != len(texts):
            msg = f"{self._of} must return one score per text; got {len(scores)} for {len(texts)}."
            raise InputError(msg)
        return scores

    def close(self) -> None:
        """End the process, and save the end of its output."""
        self._ended.set()
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_S if self._deadline is None else 0)
        self._kill()
        for thread in self._threads:
            thread.join(_PATIENCE_S)
        self._write_log()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _talk(self, message: Any) -> Any:
        self._deadline = time.monotonic() + self._timeout_s
        try:
            self._connection.send(message)
            kind, answer = self._connection.recv()
        except (EOFError, OSError):
            kind, answer = "ended", None
        if kind == "ended":
            raise self._how_it_ended()
        self._deadline = None
        if kind == "refused":
            raise InputError(answer)
        if kind == "raised":
            self._end()
            error, places = answer
            msg = (
                f"{self._of} failed with {error} at {places}; its message is withheld, since it "
                f"may quote a comment.{self._see_log()}"
            )
            raise CandidateError(msg)
        return answer

    def _how_it_ended(self) -> CandidateError:
        self._end()
        if self._stopped is not None:
            return CandidateStoppedError(f"{self._of} {self._stopped}{self._see_log()}")
        code = self._process.wait()
        how = f"with exit code {code}"
        if code < 0:
            how = f"by {signal.Signals(-code).name}"
        if code == -signal.SIGKILL:
            how += ", as happens when the system runs out of memory"
        msg = f"{self._of}: its process ended {how} before it answered.{self._see_log()}"
        return CandidateError(msg)

    def _see_log(self) -> str:
        """Save the output; return a sentence that says where."""
        self._write_log()
        if not self._n_printed:
            return ""
        return f" The end of its output is in {self._log_file}; it may quote comments."

    def _write_log(self) -> None:
        if self._n_printed:
            self._log_file.parent.mkdir(parents=True, exist_ok=True)
            left_out = self._n_printed - len(self._printed)
            first = f"[{left_out} bytes before this were left out]\n" if left_out else ""
            self._log_file.write_bytes(first.encode() + bytes(self._printed))

    def _read(self) -> None:
        """Read all output, and keep the end of it."""
        stream = self._process.stdout
        assert stream is not None  # noqa: S101 - it was started with a pipe
        with suppress(OSError, ValueError):  # closed while a child process still holds it
            while block := os.read(stream.fileno(), LOG_BYTES):
                self._n_printed += len(block)
                self._printed = (self._printed + block)[-LOG_BYTES:]

    def _watch(self) -> None:
        while not self._ended.wait(INTERVAL_S) and self._process.poll() is None:
            used, deadline = resident_memory(self._process.pid), self._deadline
            if used > self._limit:
                self._stopped = (
                    f"was stopped: its process used {used // _MIB:,} MiB of memory, and "
                    f"`memory_limit` is {self._limit // _MIB:,} MiB. Check what it keeps "
                    "between batches, lower `batch_size` or raise the limit."
                )
            elif deadline is not None and time.monotonic() > deadline:
                self._stopped = (
                    f"was stopped: it did not answer within {self._timeout_s:g} s (`timeout_s`, "
                    "for the import and for each batch). Lower `batch_size` or raise the limit."
                )
            if self._stopped is not None:
                self._kill()
                return

    def _end(self) -> None:
        """End the process, and read the rest of its output."""
        self._kill()
        self._threads[0].join(_PATIENCE_S)

    def _kill(self) -> None:
        """End the process and its children."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _start() -> tuple[Connection, subprocess.Popen[bytes]]:
    ours, theirs = Pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - this project's own file
            [sys.executable, "-P", function_worker.__file__, str(theirs.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C must reach only the evaluation, which then ends it
        )
    finally:
        theirs.close()
    return ours, process


def resident_memory(pid: int) -> int:
    """Return the bytes that a process and its children hold in memory."""
    with suppress(psutil.Error):
        process, total = psutil.Process(pid), 0
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                total += one.memory_info().rss
        return total
    return 0


def available_memory() -> int:
    """Return the bytes that are free on this machine, or within its container's limit."""
    free = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):
        free = min(free, int(_CGROUP.read_text("utf-8")))
    return free
