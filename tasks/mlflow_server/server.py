"""MLflow's server: where it is, and calls that are made again while it does not answer.

`MLFLOW_TRACKING_URI` names the server of runs, and `MLFLOW_REGISTRY_URI` that of models if it is
another one, as in MLflow itself.

`answered` is the one policy for a server that is gone, starts again or fails now and then. MLflow's
own client asks again at once; here it is asked again until the time is up, first after a quarter of
a second, then more and more rarely. What the calls do may have been done when the answer was lost:
`runs` and `versions` are written for that.
"""

from __future__ import annotations

import os
import random
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from biasgate.tasks.common.errors import InputError, ServerError
from biasgate.tasks.common.prefect_task import log_message

if TYPE_CHECKING:
    from mlflow import MlflowClient

TRACKING, REGISTRY = "MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"
_DATABRICKS = frozenset({"databricks", "databricks-uc", "uc"})


def address_in(variable: str) -> str | None:
    """Return the address in `TRACKING` or `REGISTRY`; None: a store's database, or the same."""
    found = os.environ.get(variable)
    return require_supported(found, variable) if found else None


def require_supported(uri: str, name: str) -> str:
    """Return an address, unless it is one of Databricks, or a folder, which MLflow refuses."""
    if urlsplit(uri).scheme in _DATABRICKS or uri in _DATABRICKS:
        msg = (
            f"{name} must name MLflow's own server or a database, or be unset, since "
            "biasgate does not support Databricks and Unity Catalog; "
            f"got {urlsplit(uri).scheme or uri}. Evaluate with a store of your own, and let the "
            "exit code decide: docs/guides/operate.md, On Databricks."
        )
        raise InputError(msg)
    if urlsplit(uri).scheme not in {"", "file"}:
        return uri
    from mlflow.environment_variables import MLFLOW_ALLOW_FILE_STORE  # noqa: PLC0415

    if not MLFLOW_ALLOW_FILE_STORE.get():
        folder, database = unquote(urlsplit(uri).path), "sqlite:///mlflow.db"
        move = f"mlflow migrate-filestore --source {shlex.quote(folder)} --target {database}"
        msg = (
            f"{name} must name MLflow's own server or a database, or be unset, since MLflow "
            f"refuses to keep runs in a folder; got {uri}. "
            f"{f'Move them: {move}. Then set' if Path(folder).is_dir() else 'Set'} "
            f"{name}={database}, or unset it: the store then has a database."
        )
        raise InputError(msg)
    return uri


Result = TypeVar("Result")
WAIT = "BIASGATE_MLFLOW_WAIT_S"
_FIRST_S, _LATER_S = 30.0, 300.0  # of a server that has not answered yet, and of one that has
_SHORTEST_S, _LONGEST_S = 0.25, 8.0  # between two tries
_SAID_AFTER_S = 2.0
# MLflow's client asks again at once, and takes its time only here. Its own default is to wait four
# minutes in each call, without a word.
for _name, _value in {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0.5",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # a server may ask for hours
}.items():
    os.environ.setdefault(_name, _value)

_have_answered: set[str] = set()
_given_up: dict[str, float] = {}  # when, so that what is done about it waits no second time


class AnsweredClient:
    """MLflow's client; each of its calls is `answered`."""

    def __init__(self, client: MlflowClient, server: str) -> None:
        self._client, self._server = client, server

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_client":  # while it is unpickled
            raise AttributeError(name)
        found = getattr(self._client, name)
        if name.startswith("_") or not callable(found):
            return found
        return lambda *args, **kwargs: answered(lambda: found(*args, **kwargs), self._server)


def answered(call: Callable[[], Result], server: str) -> Result:
    """Make a call until the server answers.

    A server that has not answered this process before is given 30 seconds, another one five
    minutes, so that it can be started again; `BIASGATE_MLFLOW_WAIT_S` sets both. One that was given
    up is asked once by each call of the next five minutes, until it answers.
    """
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    limit, started = _limit(server), time.monotonic()
    pause, said = _SHORTEST_S, False
    while True:
        try:
            result = call()
        except MlflowException as error:
            problem = _unanswered(error)
            if problem is None:
                _has_answered(server)
                raise
            waited = time.monotonic() - started
            if waited + pause > limit:
                _given_up[server] = time.monotonic()
                named = "the address" if urlsplit(server).hostname else TRACKING
                msg = (
                    f"MLflow at {server} {problem}, for {waited:.0f} s. Start it, or correct "
                    f"{named}; then run again: finished work is kept. {WAIT} sets how long to "
                    "wait."
                )
                raise ServerError(msg) from error
            if waited > _SAID_AFTER_S and not said:
                log_message(f"MLflow at {server} {problem}: retrying for up to {limit:.0f} s.")
                said = True
        else:
            _has_answered(server)
            return result
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - not all at the same time
        pause = min(2 * pause, _LONGEST_S)


def _has_answered(server: str) -> None:
    _have_answered.add(server)
    _given_up.pop(server, None)


def _limit(server: str) -> float:
    given = os.environ.get(WAIT)
    if given is not None and not (given.isascii() and given.isdigit()):
        msg = f"{WAIT} must be a whole number of seconds; got {given!r}."
        raise InputError(msg)
    if server in _given_up and time.monotonic() - _given_up[server] < _LATER_S:
        return 0.0
    if given is not None:
        return float(given)
    return _LATER_S if server in _have_answered else _FIRST_S


def _unanswered(error: BaseException) -> str | None:
    """Return what the server did instead of an answer; None if it answered."""
    import requests  # noqa: PLC0415

    cause = error.__cause__ or error.__context__
    if isinstance(cause, requests.exceptions.RetryError):
        return "answers with errors (HTTP 5xx, 408 or 429)"
    return "does not answer" if isinstance(cause, requests.RequestException) else None
