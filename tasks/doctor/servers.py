"""The servers: versions, whether they answer, the clock, and what this machine may do there."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path

import httpx

from biasgate.tasks.common.prefect_artifacts import api_url
from biasgate.tasks.common.secrets import masked
from biasgate.tasks.doctor.check import Check
from biasgate.tasks.ledger.entry import LEASE
from biasgate.tasks.ledger.ledger import CHAMPION
from biasgate.tasks.mlflow_server.moved_store import DATABASE
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.server_addresses import REGISTRY, TRACKING, tracking_address

_TIMEOUT_S = 10.0
_LATE_S = 30.0
_MLFLOW, _REGISTRY, _PREFECT = "MLflow", "MLflow's registry", "Prefect"
_VARIABLES = {_MLFLOW: TRACKING, _REGISTRY: REGISTRY, _PREFECT: "PREFECT_API_URL"}


def has_runs(store: Path) -> bool:
    """Return whether MLflow may know of anything: a server is named, or the store has runs."""
    return bool(tracking_address()) or (store / DATABASE).exists()


def check_mlflow(store: Path, *, may_write: bool) -> Iterator[Check]:
    """Check that MLflow answers, and that this machine may set an alias there.

    `store`: the store, whose database is used if `MLFLOW_TRACKING_URI` names no server.
    `may_write`: whether to try it: a model of its own is registered, gets an alias, and is deleted.
    """
    if not has_runs(store):
        yield Check("MLflow", "ok", f"{store} has no runs yet; the first evaluation makes them")
        return
    gateway = Gateway.of_store(store)
    if gateway.uri.startswith("http"):
        lines = list(_check_http(gateway.uri))
        yield from lines
        if any(line.status == "wrong" for line in lines):
            return
    else:
        gateway.models()
        yield Check("MLflow", "ok", f"{masked(gateway.uri)} answers; MLflow {version('mlflow')}")
    if gateway.registry and gateway.registry.startswith("http"):
        yield from _check_http(gateway.registry, _REGISTRY)
    if may_write:
        yield from _check_rights(gateway)


def _check_http(uri: str, what: str = _MLFLOW) -> Iterator[Check]:
    """Check a server's answer, its version and its clock."""
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    found = _asked(what, f"{uri.rstrip('/')}/version", (user, password) if user else None)
    if isinstance(found, Check):
        yield found
        return
    theirs, ours = found.text.strip(), version("mlflow")
    text = f"{masked(uri)} answers; MLflow {theirs[:20]} there, {ours} here"
    if _minor(theirs) == _minor(ours):
        yield Check(what, "ok", text)
    else:
        yield Check(what, "warning", text, f"Run MLflow {_minor(ours)} on the server, too.")
    yield from _check_clock(what, found)


def check_prefect() -> Iterator[Check]:
    """Check that Prefect's server answers, if one is named."""
    url = api_url()
    if not url:
        text = "no server is named, so each command starts one of its own"
        yield Check("Prefect", "ok", text, "For schedules, set PREFECT_API_URL to a server.")
        return
    found = _asked("Prefect", f"{url.rstrip('/')}/admin/version", None)
    if isinstance(found, Check):
        yield found
        return
    theirs, ours = found.text.strip('"\n '), version("prefect")
    text = f"{masked(url)} answers; Prefect {theirs[:20]} there, {ours} here"
    if _minor(theirs) == _minor(ours):
        yield Check("Prefect", "ok", text)
    else:
        yield Check("Prefect", "warning", text, f"Run Prefect {_minor(ours)} on the server, too.")
    yield from _check_clock("Prefect", found)


def _asked(what: str, url: str, auth: tuple[str, str] | None) -> httpx.Response | Check:
    """Return a server's answer, or what is wrong with it."""
    try:
        found = httpx.get(url, timeout=_TIMEOUT_S, auth=auth)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        name = _VARIABLES[what]
        text = f"{masked(url)} does not answer ({type(error).__name__})"
        return Check(what, "wrong", text, f"Start the server, or set {name} to another address.")
    if found.status_code in {401, 403}:
        text = f"{masked(url)} refuses this user ({found.status_code})"
        return Check(what, "wrong", text, "Set user and password, or ask who runs the server.")
    if found.is_error or "<html" in found.text[:500].lower():
        text = f"{masked(url)} answers {found.status_code}, and not as {what} does"
        return Check(what, "wrong", text, "Look at the address, and at the server's log.")
    return found


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def _check_clock(what: str, answer: httpx.Response) -> Iterator[Check]:
    """Compare the clocks: entries of the ledger expire by them."""
    with suppress(ValueError, KeyError, TypeError):
        theirs = parsedate_to_datetime(answer.headers["date"])
        apart = abs((datetime.now(UTC) - theirs).total_seconds())
        text = f"{apart:.0f} s apart from the clock of {what}'s server"
        do = "Let both machines set their clocks by NTP."
        if apart >= LEASE.total_seconds():
            yield Check("clock", "wrong", f"{text}; entries of the ledger expire at once", do)
        else:
            yield (
                Check("clock", "warning", text, do)
                if apart > _LATE_S
                else Check("clock", "ok", text)
            )


def _check_rights(gateway: Gateway) -> Iterator[Check]:
    """Register a model of its own, set an alias, read it back, and delete the model."""
    name = f"biasgate-doctor-{uuid.uuid4().hex[:8]}"
    do = "Ask who runs the registry for the right to register models and to set aliases."
    try:
        made = gateway.record_version(name, None, {})
        gateway.set_alias(name, CHAMPION, made.version)
        found = gateway.alias(name, CHAMPION)
        gateway.delete_alias(name, CHAMPION)
    except Exception as error:  # noqa: BLE001 - as above
        text = masked(f"{type(error).__name__}: {error}".splitlines()[0])
        yield Check("rights", "wrong", f"no alias can be set: {text}", do)
        with suppress(Exception):
            gateway.delete_model(name)
        return
    if found is None or found.version != made.version:
        yield Check("rights", "wrong", "an alias that was set could not be read back", do)
    else:
        yield Check("rights", "ok", "a model was registered, got an alias, and was removed again")
    try:
        gateway.delete_model(name)
    except Exception as error:  # noqa: BLE001 - as above
        text = masked(f"{type(error).__name__}: {error}".splitlines()[0])
        yield Check("rights", "warning", f"model {name} is left: {text}", "Delete it by hand.")
