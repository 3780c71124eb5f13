"""Candidate kind `python`: a function in a package or a file, from texts to scores."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import psutil
import pyarrow as pa
from pydantic import AfterValidator, ByteSize, Field, ValidationInfo

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import (
    CandidateError,
    CandidateStoppedError,
    InputError,
    format_place,
)
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.prefect_task import log_message
from biasgate.tasks.common.settings import resolve_config_path
from biasgate.tasks.scoring.candidate import CandidateSettings, Version
from biasgate.tasks.scoring.kinds import function_worker
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.store import Workplace

_NOT_BOUND = "What the function imports or reads beside its file may change the scores."
_NAME = r"[A-Za-z_][\w.]*"


def _resolve_call(value: str, info: ValidationInfo) -> str:
    """Make the path of a file absolute."""
    if re.fullmatch(f"{_NAME}:{_NAME}", value) and not value.partition(":")[0].endswith(".py"):
        return value
    file, _, function = value.rpartition(":")
    if file.endswith(".py") and re.fullmatch(_NAME, function):
        return f"{resolve_config_path(file, info)}:{function}"
    msg = "must be package.module:function, or file.py:function"
    raise ValueError(msg)


Call = Annotated[str, AfterValidator(_resolve_call)]


class PythonFunction(CandidateSettings):
    """A function that takes a list of texts and returns a score or two probabilities for each."""

    kind: Literal["python"]
    call: Call
    """`package.module:function`, or `file.py:function` with a path relative to the file. It gets a
    list of texts and returns a score, or two probabilities, for each."""
    version: Version
    """Version of the function's model. Scores are reused while the version and the file stay the
    same. Without a version they are never reused."""
    batch_size: Annotated[int, Field(ge=1)] = 1_000
    """Texts per call."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """Seconds for a call, and for the import before the first call."""
    memory_limit: Annotated[ByteSize, Field(gt=0)] | None = None
    """Limit in bytes, or as in `4GB`, for the function's process and its child processes. Default:
    80 % of the free memory."""

    @property
    def file(self) -> Path | None:
        """The file of the function; None if it is in a package."""
        module = self.call.rpartition(":")[0]
        return Path(module) if module.endswith(".py") else None

    def check(self) -> None:
        """Refuse a missing package, file or function, without running code."""
        call = f"`call` of candidate {self.name!r}"
        if self.file is None:
            package = self.call.partition(":")[0].partition(".")[0]
            if find_spec(package) is None:
                msg = f"{call} must name an installed package; got {package!r}."
                raise InputError(msg)
            return
        try:
            tree = ast.parse(self.file.read_bytes(), str(self.file))
        except OSError as error:
            msg = f"file {self.file} of candidate {self.name!r} cannot be read: {error.strerror}."
            raise InputError(msg) from error
        except (SyntaxError, ValueError) as error:
            line = format_place(line=getattr(error, "lineno", None))
            msg = f"{call} must name a Python file; {self.file} is not a Python file {line}."
            raise InputError(msg) from error
        names = _list_names(tree)
        function = self.call.rpartition(":")[2].partition(".")[0]
        if names is not None and function not in names:
            msg = f"{call} must name a function of its file; {self.file} has no {function!r}."
            raise InputError(msg + did_you_mean(function, names))

    def open(self, workplace: Workplace) -> FunctionScorer:
        """Return a scorer; its first `score` imports the function."""
        return FunctionScorer(self, workplace)


def _list_names(tree: ast.Module) -> set[str] | None:
    """Return all names that a file defines anywhere; None if it may define more at run time.

    Names within functions count, so that only names that are certainly missing are refused.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                names.add(name)
            case ast.Name(id="globals" | "exec" | "setattr" | "vars"):
                return None
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name="*"):
                return None
            case ast.alias(name=name, asname=alias):
                names.add(alias or name.partition(".")[0])
    return None if "__getattr__" in names else names


class FunctionScorer(Scorer):
    """The function, which runs in its own process."""

    def __init__(self, settings: PythonFunction, workplace: Workplace) -> None:
        self._settings, self._workplace = settings, workplace
        self._name = f"{settings.call} of candidate {settings.name!r}"
        self.files = settings.file
        self.not_bound = _NOT_BOUND
        if settings.file is None:
            self.not_bound = (
                f"The package behind {settings.call} is not recorded, only its name and `version`."
            )
            self.digest = json_digest(["python", settings.call, settings.version])
        else:
            function = settings.call.rpartition(":")[2]
            self.digest = json_digest(["python", self.single_digest, function, settings.version])

    def try_out(self) -> None:
        """Import the function."""
        log_message(f"importing {self._name}")
        _ = self._process

    def score(self, rows: pa.RecordBatch) -> np.ndarray:
        """Call the function batch by batch."""
        texts, size = rows.column("text").to_pylist(), self._settings.batch_size
        batches = (texts[start : start + size] for start in range(0, len(texts), size))
        return np.concatenate([self._process.score(batch) for batch in batches])

    def close(self) -> None:
        """End the process."""
        if "_process" in self.__dict__:
            self._process.close()

    @cached_property
    def _process(self) -> FunctionProcess:
        settings = self._settings
        log = self._workplace.store / "logs" / f"{settings.name}.log"
        limits = settings.timeout_s, settings.memory_limit
        return FunctionProcess(settings.call, self._name, *limits, log)


LOG_BYTES = 64 * 1024
# Between two checks of time and memory.
INTERVAL_S = 0.25
_PATIENCE_S = 5.0
_MIB = 2**20
_CGROUP = Path("/sys/fs/cgroup/memory.max")


class FunctionProcess:
    """The process of a function, which is imported when this is constructed.

    `call`: `package.module:function` or `/path/file.py:function`. `name`: the function, for
    messages. `timeout_s`: limit for the import, and for each batch. `memory_limit`: bytes of
    resident memory for the process and its children. Default: 80 % of the free memory. `log`: file
    for the end of the printed output.
    """

    def __init__(
        self, call: str, name: str, timeout_s: float, memory_limit: int | None, log: Path
    ) -> None:
        self._name, self._timeout_s, self._log_file = name, timeout_s, log
        self._limit = memory_limit or measure_free_memory() * 4 // 5
        self._deadline: float | None = None
        self._exceeded: str | None = None
        self._ended = threading.Event()
        self._output, self._n_printed = bytearray(), 0
        self._connection, worker_end = Pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this project's own file
                [sys.executable, "-P", function_worker.__file__, str(worker_end.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[worker_end.fileno()],
                start_new_session=True,  # Ctrl-C must reach only the evaluation, which then ends it
            )
        finally:
            worker_end.close()
        self._threads = [
            threading.Thread(target=run, daemon=True)
            for run in (self._read_output, self._enforce_limits)
        ]
        for thread in self._threads:
            thread.start()
        try:
            self._exchange({"call": call, "name": name, "path": sys.path})
        except BaseException:
            self.close()
            raise

    def score(self, texts: Sequence[str]) -> np.ndarray:
        """Return the function's scores, shape (n,).

        Raises
        ------
        CandidateError
            If the function raised an error or its process ended.
        CandidateStoppedError
            If it exceeded a limit or lacks a module. It is not tried again.
        """
        scores = np.frombuffer(self._exchange(list(texts)), dtype=np.float64)
        if len(scores) != len(texts):
            msg = (
                f"{self._name} must return as many scores as texts; got {len(scores)} for "
                f"{len(texts)}."
            )
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

    def _exchange(self, message: Any) -> Any:
        """Send a message and return the answer; raise the error that it describes."""
        self._deadline = time.monotonic() + self._timeout_s
        try:
            self._connection.send(message)
            kind, answer = self._connection.recv()
        except (EOFError, OSError):
            raise self._explain_end() from None
        self._deadline = None
        if kind == "refused":
            raise InputError(answer)
        if kind == "raised":
            log = self._end_and_log()
            error, places, problem, is_final = answer
            problem = problem or (
                f"failed with {error} at {places}; its message is withheld, since it may quote a "
                f"comment.{log}"
            )
            msg = f"{self._name} {problem}"
            raise CandidateStoppedError(msg) if is_final else CandidateError(msg)
        return answer

    def _explain_end(self) -> CandidateError:
        log = self._end_and_log()
        if self._exceeded is not None:
            return CandidateStoppedError(f"{self._name} {self._exceeded}{log}")
        code = self._process.wait()
        cause = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        if code == -signal.SIGKILL:
            cause += ", as happens when the system runs out of memory"
        return CandidateError(f"{self._name}: its process ended {cause} before it answered.{log}")

    def _end_and_log(self) -> str:
        """End the process and save its output; return a sentence with the place of the log."""
        self._kill()
        self._threads[0].join(_PATIENCE_S)
        self._write_log()
        if not self._n_printed:
            return ""
        return f" The end of its output is in {self._log_file}; it may quote comments."

    def _write_log(self) -> None:
        if self._n_printed:
            self._log_file.parent.mkdir(parents=True, exist_ok=True)
            n_left_out = self._n_printed - len(self._output)
            first = f"[{n_left_out} bytes before this were left out]\n" if n_left_out else ""
            self._log_file.write_bytes(first.encode() + bytes(self._output))

    def _read_output(self) -> None:
        """Read all output, and keep its end."""
        stream = self._process.stdout
        assert stream is not None  # noqa: S101 - it was started with a pipe
        with suppress(OSError, ValueError):  # closed while a child process still holds it
            while block := os.read(stream.fileno(), LOG_BYTES):
                self._n_printed += len(block)
                self._output = (self._output + block)[-LOG_BYTES:]

    def _enforce_limits(self) -> None:
        while not self._ended.wait(INTERVAL_S) and self._process.poll() is None:
            used, deadline = measure_memory(self._process.pid), self._deadline
            if used > self._limit:
                self._exceeded = (
                    f"was stopped: its process used {used // _MIB:,} MiB of memory, and "
                    f"`memory_limit` is {self._limit // _MIB:,} MiB. Check what it keeps "
                    "between batches, lower `batch_size` or raise the limit."
                )
            elif deadline is not None and time.monotonic() > deadline:
                self._exceeded = (
                    f"was stopped: it did not answer within {self._timeout_s:g} s (`timeout_s`, "
                    "for the import and for each batch). Lower `batch_size` or raise the limit."
                )
            if self._exceeded is not None:
                self._kill()
                return

    def _kill(self) -> None:
        """End the process and its children."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def measure_memory(pid: int) -> int:
    """Return the bytes of memory that a process and its children use."""
    total = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                total += member.memory_info().rss
    return total


def measure_free_memory() -> int:
    """Return the free bytes of this machine, or of its container's limit if that is less."""
    free = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):
        free = min(free, int(_CGROUP.read_text("utf-8")))
    return free
