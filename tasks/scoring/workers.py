"""All cores on a model that Python runs: processes that get it once and keep it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from typing import Any

import joblib
import numpy as np

# Small enough that nobody waits long for the last one, large enough that calls cost nothing.
TEXTS_A_CALL = 250

_model: Any = None


class Workers:
    """A function of a model and texts, run by this process and one more for each further core.

    The model is sent to each process once, at its start. Until that is done, this process works
    alone; then it begins at the other end of the texts.

    Parameters
    ----------
    call : callable
        Of model and texts; a module's own function, returning one number per text.
    model : object
        What can be pickled.
    cores : int, optional
        Default all that this process may use (`LOKY_MAX_CPU_COUNT` lowers it).
    """

    def __init__(
        self, call: Callable[[Any, Sequence[str]], np.ndarray], model: Any, cores: int | None = None
    ) -> None:
        self._call, self._model = call, model
        helpers = (joblib.cpu_count() if cores is None else cores) - 1
        self._pool: ProcessPoolExecutor | None = None
        if helpers > 0:
            # Forked, they could inherit a lock that a thread of this process holds.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(helpers, context, _begin, (call, model))
            self._started = self._pool.submit(_is_there)

    def run(self, texts: Sequence[str]) -> np.ndarray:
        """Return the function's numbers, in the order of the texts."""
        parts = [texts[at : at + TEXTS_A_CALL] for at in range(0, len(texts), TEXTS_A_CALL)]
        calls = self._submitted(parts)
        done = [self._result(*both) for both in reversed(list(zip(parts, calls, strict=True)))]
        return np.concatenate(done[::-1])

    def wait_until_started(self) -> None:
        """Wait for the first of the other processes."""
        if self._pool is not None:
            self._started.result()

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _submitted(self, parts: list[Sequence[str]]) -> list[Future[np.ndarray] | None]:
        if self._pool is None or not self._started.done():
            return [None] * len(parts)
        try:
            return [self._pool.submit(_run, list(part)) for part in parts]
        except BrokenExecutor:
            self._pool = None
            return [None] * len(parts)

    def _result(self, part: Sequence[str], begun: Future[np.ndarray] | None) -> np.ndarray:
        if begun is None or begun.cancel():
            return self._call(self._model, part)
        try:
            return begun.result()
        except BrokenExecutor:  # a process was killed, as for memory: one core is enough
            return self._call(self._model, part)


def _begin(call: Callable[[Any, Sequence[str]], np.ndarray], model: Any) -> None:
    global _model  # noqa: PLW0603 - a process has one
    _model = (call, model)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _is_there() -> bool:
    return _model is not None


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(texts: Sequence[str]) -> np.ndarray:
    call, model = _model
    return np.asarray(call(model, texts))
