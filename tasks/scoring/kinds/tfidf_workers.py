"""Run a model on all cores: in processes that receive it once and keep it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from typing import Any

import joblib
import numpy as np

# Each call gets a process's share of a quarter of the remaining texts: few calls, and parts that
# fit into the caches. The last calls get this many, so that no process waits long.
FEWEST_TEXTS = 125
_SHARES = 4

_model: Any = None


class Workers:
    """A function of a model and texts, run in this process and one more per additional core.

    The model is sent to each process once, when it starts. Until then this process works alone.

    Parameters
    ----------
    call : callable
        Takes model and texts, returns one number per text; a module-level function.
    model : object
        The model; must be picklable.
    cores : int, optional
        Default: all that this process may use (`LOKY_MAX_CPU_COUNT` lowers it).
    """

    def __init__(
        self, call: Callable[[Any, Sequence[str]], np.ndarray], model: Any, cores: int | None = None
    ) -> None:
        self._call, self._model = call, model
        self._helpers = (joblib.cpu_count() if cores is None else cores) - 1
        self._pool: ProcessPoolExecutor | None = None
        if self._helpers > 0:
            # Forked processes could inherit a lock that a thread of this process holds.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._helpers, context, _begin, (call, model))
            self._started = self._pool.submit(_is_there)

    def run(self, texts: Sequence[str]) -> np.ndarray:
        """Return the function's numbers, in the order of the texts."""
        parts = list(self._parts(texts))
        done: dict[int, np.ndarray] = {}
        begun: dict[int, Future[np.ndarray]] = {}
        todo = deque(range(len(parts)))
        while todo:
            # A few at a time: submitted calls cannot safely be cancelled.
            while len(begun) < min(self._ahead(), len(todo) - 1):
                at = todo.popleft()
                begun[at] = self._submit(parts[at])
            at = todo.popleft()
            done[at] = self._call(self._model, parts[at])
            for at in [at for at, one in begun.items() if one.done()]:
                done[at] = self._result(begun.pop(at), parts[at])
        done |= {at: self._result(one, parts[at]) for at, one in begun.items()}
        return np.concatenate([done[at] for at in range(len(parts))])

    def wait_until_started(self) -> None:
        """Wait for the first of the other processes."""
        if self._pool is not None:
            self._started.result()

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _parts(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        """Split texts into parts of decreasing size, so that all processes finish together."""
        at, shares = 0, _SHARES * (self._helpers + 1)
        while at < len(texts):
            size = max((len(texts) - at) // shares, FEWEST_TEXTS)
            yield texts[at : at + size]
            at += size

    def _ahead(self) -> int:
        """Return how many parts may be queued for the other processes."""
        is_ready = self._pool is not None and self._started.done()
        return 2 * self._helpers if is_ready else 0

    def _submit(self, part: Sequence[str]) -> Future[np.ndarray]:
        assert self._pool is not None  # noqa: S101 - `_ahead` ensures it
        try:
            return self._pool.submit(_run, list(part))
        except BrokenExecutor as error:
            self.close()
            self._pool = None
            failed: Future[np.ndarray] = Future()
            failed.set_exception(error)
            return failed

    def _result(self, begun: Future[np.ndarray], part: Sequence[str]) -> np.ndarray:
        try:
            return begun.result()
        except BrokenExecutor:  # a process was killed, perhaps for memory: one core is enough
            return self._call(self._model, part)


def _begin(call: Callable[[Any, Sequence[str]], np.ndarray], model: Any) -> None:
    global _model  # noqa: PLW0603 - one per process
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
