"""The address of MLflow's server, and retries of its calls.

`MLFLOW_TRACKING_URI` is the address of the server of runs. `MLFLOW_REGISTRY_URI` is that of the
registry, if it is on another server, as in MLflow itself.

`retry_call` is the only retry policy for a server that is down, restarts or fails sometimes.
MLflow's own client retries at once. This policy retries until a time limit, first after a quarter
of a second, then after longer pauses. A call may have had its effect although the response was
lost; `runs` and `versions` allow for that.
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


def read_address(variable: str) -> str | None:
    """Return the address in `TRACKING` or `REGISTRY`; None if the variable is not set."""
    address = os.environ.get(variable)
    return require_supported(address, variable) if address else None


def require_supported(uri: str, name: str) -> str:
    """Return an address; refuse Databricks, and folders if MLflow refuses them.

    `name` is the variable or setting of the address, for the error.
    """
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
# Limits for a server before its first answer, and after it.
_FIRST_S, _LATER_S = 30.0, 300.0
_SHORTEST_S, _LONGEST_S = 0.25, 8.0  # between two attempts
_SILENT_S = 2.0
# MLflow's client retries at once, and `retry_call` adds the pauses. By default the client would
# wait for four minutes in each call, without a message.
for _name, _value in {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0.5",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # a server may request hours
}.items():
    os.environ.setdefault(_name, _value)

_responsive_servers: set[str] = set()
# Times of failure by server, so that handlers of the error do not wait again.
_failed_servers: dict[str, float] = {}


class RetryingClient:
    """MLflow's client with retries: each call is made by `retry_call`."""

    def __init__(self, client: MlflowClient, server: str) -> None:
        self._client, self._server = client, server

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_client":  # while it is unpickled
            raise AttributeError(name)
        attribute = getattr(self._client, name)
        if name.startswith("_") or not callable(attribute):
            return attribute
        return lambda *args, **kwargs: retry_call(lambda: attribute(*args, **kwargs), self._server)


def retry_call(call: Callable[[], Result], server: str) -> Result:
    """Repeat a call until the server answers, and return the result.

    The limit is 30 seconds before the first answer of a server to this process. Then it is five
    minutes, enough to restart the server. `BIASGATE_MLFLOW_WAIT_S` sets both. For five minutes
    after a failure, calls to the server are tried only once each, until it answers.

    Raises
    ------
    ServerError
        If the server does not answer within the limit.
    """
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    limit, started = _get_wait_limit(server), time.monotonic()
    pause, is_reported = _SHORTEST_S, False
    while True:
        try:
            result = call()
        except MlflowException as error:
            problem = _describe_failure(error)
            if problem is None:
                _note_answer(server)
                raise
            waited = time.monotonic() - started
            if waited + pause > limit:
                _failed_servers[server] = time.monotonic()
                subject = "the address" if urlsplit(server).hostname else TRACKING
                msg = (
                    f"MLflow at {server} {problem}, for {waited:.0f} s. Start it, or correct "
                    f"{subject}; then run again: finished work is kept. {WAIT} sets how long to "
                    "wait."
                )
                raise ServerError(msg) from error
            if waited > _SILENT_S and not is_reported:
                log_message(f"MLflow at {server} {problem}: retrying for up to {limit:.0f} s.")
                is_reported = True
        else:
            _note_answer(server)
            return result
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spread the retries of parallel tasks
        pause = min(2 * pause, _LONGEST_S)


def _note_answer(server: str) -> None:
    _responsive_servers.add(server)
    _failed_servers.pop(server, None)


def _get_wait_limit(server: str) -> float:
    setting = os.environ.get(WAIT)
    if setting is not None and not (setting.isascii() and setting.isdigit()):
        msg = f"{WAIT} must be a whole number of seconds; got {setting!r}."
        raise InputError(msg)
    if server in _failed_servers and time.monotonic() - _failed_servers[server] < _LATER_S:
        return 0.0
    if setting is not None:
        return float(setting)
    return _LATER_S if server in _responsive_servers else _FIRST_S


def _describe_failure(error: BaseException) -> str | None:
    """Describe the failure of a server; None if the error is an answer."""
    import requests  # noqa: PLC0415

    cause = error.__cause__ or error.__context__
    if isinstance(cause, requests.exceptions.RetryError):
        return "answers with errors (HTTP 5xx, 408 or 429)"
    return "does not answer" if isinstance(cause, requests.RequestException) else None
