"""The scheduled nightly evaluation: `biasgate nightly CONFIG --output DIR --cron '0 2 * * *'`.

A work pool is not needed: the calling process keeps running, polls the Prefect API for scheduled
runs, and starts each run in its own process. For a worker on another machine, use `prefect.yaml`
in this folder.

Each evaluation file has its own deployment. Prefect silently replaces a deployment of the same
name, and the end of either process pauses both. A second process for the same file is therefore
refused while the first process runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
from prefect import get_client
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron, Schedule
from prefect.server.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL
from prefect.types.entrypoint import EntrypointType

from biasgate.deployments.night_runner import NightRunner
from biasgate.flows.nightly import nightly
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import log_message
from biasgate.tasks.common.processes import (
    describe_this_process,
    get_host_name,
    has_ended,
    is_on_this_machine,
)
from biasgate.tasks.included import format_argument
from biasgate.tasks.reading_evaluation import read_file

# A serving process polls for runs every ten seconds. After this time without a request it is
# taken for dead.
SILENCE_LIMIT = timedelta(seconds=60)
_SERVER_PREFIX = "Served by process "
ONE_AT_A_TIME = ConcurrencyLimitConfig(
    limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW
)


def serve(
    config: str, output: Path, store: Path, cron: str, options: Mapping[str, Any] | None = None
) -> None:
    """Register the evaluation's deployment with its schedule, and run the scheduled nights.

    `store`: folder of sets, scores and, by default, the MLflow store. `options`: other parameters
    of the flow `nightly`, such as `fail_when_blocked`.
    """
    schedule = _read_schedule(cron)
    name = get_deployment_name(config)
    refuse_second_process(name)
    parameters = {
        "config": format_argument(config),
        "output": str(output.resolve()),
        "store": str(store.resolve()),
    }
    runner = NightRunner(name=name)
    deployment = runner.add_flow(
        nightly,
        name=name,
        schedule=schedule,
        parameters=parameters | dict(options or {}),
        description=(
            f"Evaluates {format_argument(config)}.\n\n{_SERVER_PREFIX}{describe_this_process()}"
        ),
        tags=["biasgate"],
        # One evaluation at a time: nights that are due meanwhile, or were missed, are skipped.
        concurrency_limit=ONE_AT_A_TIME,
        # Import the flow by module, because the package is installed.
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    assert isinstance(deployment, UUID)  # noqa: S101 - a coroutine only within an event loop
    started = datetime.fromtimestamp(psutil.Process().create_time(), UTC)
    schedule_nights(deployment, started)
    next_due = f"{find_next_night(cron, started):%Y-%m-%d %H:%M} UTC"
    log_message(
        f"waiting for the nights of nightly/{name}: the next is due at {next_due}. "
        f"Each night gets a folder in {output.resolve()}. "
        f"To run a night now: prefect deployment run nightly/{name}"
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(runner.start())


def find_next_night(cron: str, since: datetime) -> datetime:
    """Return the first time after `since` at which a schedule, in UTC, is due."""
    [due] = asyncio.run(CronSchedule(cron=cron, timezone="UTC").get_dates(1, since))
    return due


def schedule_nights(deployment: UUID, since: datetime) -> None:
    """Schedule the nights of a deployment that are due after `since`.

    Prefect's server itself would begin some seconds after the registration, and would skip a night
    that is due while the command starts.
    """
    body = {"start_time": since.isoformat()}
    with get_client(sync_client=True) as client:
        client.request(
            "POST", "/deployments/{id}/schedule", path_params={"id": deployment}, json=body
        )


def get_deployment_name(config: str) -> str:
    """Return the evaluation's name in lower case with dashes, and a digest of the file's path.

    The digest distinguishes files with the same name in different folders. For an included
    evaluation it is the digest of its name.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", read_file(config).name.lower()).strip("-")
    return f"{slug}-{hashlib.sha256(format_argument(config).encode()).hexdigest()[:6]}"


def refuse_second_process(name: str) -> None:
    """Raise an error if a running process already serves a deployment.

    A process on this machine is looked up. A process on another machine is taken for running until
    a minute after its last request to Prefect's server, also if it was killed.
    """
    url = PREFECT_API_URL.value()
    if not url:
        msg = (
            "a schedule needs a running Prefect server; none is set. Run `prefect server "
            "start`, and here `export PREFECT_API_URL=http://127.0.0.1:4200/api`."
        )
        raise InputError(msg)
    try:
        with get_client(sync_client=True) as client:
            deployment = client.read_deployment_by_name(f"nightly/{name}")
    except ObjectNotFound:
        return
    except httpx.TransportError as error:
        msg = f"no Prefect server answers at PREFECT_API_URL {url} ({type(error).__name__})."
        raise InputError(msg) from error
    process = describe_server(deployment, datetime.now(UTC))
    if process is not None:
        msg = (
            f"deployment nightly/{name} is already served by {process}. Stop that process first: "
            "a second process would replace its schedule, and ending either would pause both. (If "
            f"it was killed on another machine, wait {SILENCE_LIMIT.seconds} s.)"
        )
        raise InputError(msg)


def describe_server(deployment: DeploymentResponse | Any, now: datetime) -> str | None:
    """Return a description of the process that serves a deployment, or None."""
    process = (deployment.description or "").rpartition(_SERVER_PREFIX)[2]
    if process and has_ended(process):
        return None
    if process and is_on_this_machine(process):
        return f"process {process.rsplit(' ', 2)[1]} on {get_host_name(process)}"
    last_poll = deployment.last_polled
    # A stopped process has paused its deployment.
    if deployment.paused or last_poll is None or now - last_poll > SILENCE_LIMIT:
        return None
    machine = get_host_name(process) or "an unknown machine"
    return f"a process on {machine}, last seen {(now - last_poll).seconds} s ago"


def _read_schedule(cron: str) -> Schedule:
    try:
        find_next_night(cron, datetime.now(UTC))
        return Cron(cron, timezone="UTC")
    except ValueError as error:
        msg = (
            "`--cron` must be five fields such as '0 2 * * *', each in its range: minute, hour, "
            f"day, month, weekday, for a day that exists; got {cron!r}."
        )
        raise InputError(msg) from error
