"""The process that runs a candidate's Python function; started by `python_function`.

The function's output goes to the log of the process. The scores are returned over a separate
connection, so the function may print anything.
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
    """Import the function, then answer batches of texts until the connection is closed."""
    start = connection.recv()
    sys.path[:] = start["path"]
    from biasgate.tasks.common.errors import FINAL_ERRORS, InputError, describe_missing_module  # noqa: PLC0415
    from biasgate.tasks.scoring.kinds.model_answers import extract_scores  # noqa: PLC0415

    function: Callable[[list[str]], Any] | None = None
    texts: list[str] = []
    while True:
        try:
            if function is None:
                function = find_function(start["call"], start["name"])
                answer: tuple[str, Any] = ("ready", None)
            else:
                scores = extract_scores(function(texts), start["name"])
                answer = ("scores", scores.tobytes())
        except InputError as error:
            answer = ("refused", str(error))
        except BaseException as error:  # noqa: BLE001 - a function may raise anything, even SystemExit
            traceback.print_exc()
            lacking = describe_missing_module(error)
            problem = lacking and f"cannot run: {lacking}"
            is_final = lacking is not None or isinstance(error, FINAL_ERRORS)
            answer = ("raised", (type(error).__name__, _places(error), problem, is_final))
        sys.stdout.flush()
        connection.send(answer)
        try:
            texts = connection.recv()
        except EOFError:
            return


def find_function(call: str, described: str) -> Callable[[list[str]], Any]:
    """Return the function that `package.module:function` or `file.py:function` names."""
    from biasgate.tasks.common.errors import InputError, describe_missing_module  # noqa: PLC0415

    module, _, name = call.rpartition(":")
    try:
        is_file = module.endswith(".py")
        loaded = _run_file(Path(module)) if is_file else importlib.import_module(module)
        function = attrgetter(name)(loaded)
    except (ImportError, AttributeError, SyntaxError, FileNotFoundError, PermissionError) as error:
        traceback.print_exc()
        why = describe_missing_module(error) or f"{error}."
        msg = f"`call` must name a function that can be imported; {described} cannot: {why}"
        raise InputError(msg) from error
    if not callable(function):
        msg = f"`call` must be callable; {described} is not."
        raise InputError(msg)
    return function  # type: ignore[no-any-return]


def _run_file(path: Path) -> Any:
    sys.path.append(str(path.parent))  # it may import its neighbours
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101 - the name ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses and pickle look it up
    spec.loader.exec_module(module)
    return module


def _places(error: BaseException) -> str:
    """Return where an error was raised, innermost first, without its message."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__
    ]
    return ", ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames[-2:]))


def _end_with_parent() -> None:
    """End this process and all its children when the parent process ends.

    The parent holds the other end of standard input; this process leads its own group.
    """
    import fcntl  # noqa: PLC0415 - missing on Windows, where this module is imported, too

    life = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def wait() -> None:
        os.read(life, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
    # The thread cannot run while the function holds the GIL, as a regular expression search does.
    # Linux itself can send the signal.
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)


if __name__ == "__main__":
    _end_with_parent()
    serve(Connection(int(sys.argv[1])))
