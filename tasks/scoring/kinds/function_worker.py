"""The process that runs a candidate's Python function; `python_function` starts it.

The function may print anything: its output goes to a log, and scores are returned over a separate
connection.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path
from typing import Any


def serve(connection: Connection) -> None:
    """Import the function, then score batches of texts until the connection is closed."""
    start = connection.recv()
    sys.path[:] = start["path"]
    from biasgate.tasks.common.errors import FINAL_ERRORS, InputError, describe_missing_module  # noqa: PLC0415
    from biasgate.tasks.scoring.kinds.model_answers import extract_scores  # noqa: PLC0415

    function: Callable[[list[str]], Any] | None = None
    texts: list[str] = []
    while True:
        try:
            if function is None:
                function = _import_function(start["call"], start["name"])
                answer: tuple[str, Any] = ("ready", None)
            else:
                scores = extract_scores(function(texts), start["name"])
                answer = ("scores", scores.tobytes())
        except InputError as error:
            answer = ("refused", str(error))
        except BaseException as error:  # noqa: BLE001 - a function may raise anything, even SystemExit
            traceback.print_exc()
            missing_module = describe_missing_module(error)
            problem = missing_module and f"cannot run: {missing_module}"
            is_final = missing_module is not None or isinstance(error, FINAL_ERRORS)
            answer = ("raised", (type(error).__name__, _locate_error(error), problem, is_final))
        sys.stdout.flush()
        connection.send(answer)
        try:
            texts = connection.recv()
        except EOFError:
            return


def _import_function(call: str, described: str) -> Callable[[list[str]], Any]:
    """Return the function of `package.module:function` or `file.py:function`."""
    from biasgate.tasks.common.errors import InputError, describe_missing_module  # noqa: PLC0415

    module, _, name = call.rpartition(":")
    try:
        is_file = module.endswith(".py")
        imported = _import_file(Path(module)) if is_file else importlib.import_module(module)
        function = attrgetter(name)(imported)
    except (ImportError, AttributeError, SyntaxError, FileNotFoundError, PermissionError) as error:
        traceback.print_exc()
        cause = describe_missing_module(error) or f"{error}."
        msg = f"`call` must name a function that can be imported; {described} cannot: {cause}"
        raise InputError(msg) from error
    if not callable(function):
        msg = f"`call` must be callable; {described} is not."
        raise InputError(msg)
    return function  # type: ignore[no-any-return]


def _import_file(path: Path) -> Any:
    sys.path.append(str(path.parent))  # it may import its neighbours
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101 - the name ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses and pickle look it up
    spec.loader.exec_module(module)
    return module


def _locate_error(error: BaseException) -> str:
    """Return the last two places of an error, innermost first, without its message."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__
    ]
    return ", ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames[-2:]))


def _end_with_parent() -> None:
    """End this process and its children, which are a process group, when the parent ends.

    The parent has the other end of standard input.
    """
    import fcntl  # noqa: PLC0415 - missing on Windows, although this module is imported there

    parent_end = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def await_end() -> None:
        os.read(parent_end, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=await_end, daemon=True).start()
    # The thread cannot run while the function holds the GIL, as a regular expression search does.
    # Linux itself can send the signal.
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(parent_end, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(parent_end, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(parent_end, fcntl.F_GETFL)
        fcntl.fcntl(parent_end, fcntl.F_SETFL, flags | os.O_ASYNC)


if __name__ == "__main__":
    _end_with_parent()
    serve(Connection(int(sys.argv[1])))
