"""Nights that were missed without a worker: the first is run, the others are skipped."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
from prefect.client.schemas.schedules import RRuleSchedule
from support.evaluations import write_inputs
from support.served import ask
from support.workers import SHIPPED, WORKER, deploy

pytestmark = pytest.mark.slow

MISSED = 3
PATIENCE_S = 600


async def list_nights(client):
    name = DeploymentFilterName.model_validate({"any_": ["worker"]})
    runs = await client.read_flow_runs(deployment_filter=DeploymentFilter(name=name))
    return sorted(runs, key=lambda run: run.expected_start_time)


def make_schedule(number):
    """Return a schedule that is due `number` times, every five seconds from soon on."""
    start = datetime.now(UTC) + timedelta(seconds=45)
    rule = f"FREQ=SECONDLY;INTERVAL=5;COUNT={number}"
    return RRuleSchedule(rrule=f"DTSTART:{start:%Y%m%dT%H%M%SZ}\nRRULE:{rule}")


async def wait_until(client, condition):
    """Return the nights as soon as the condition holds for all of them."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        nights = await list_nights(client)
        if len(nights) == MISSED and all(map(condition, nights)):
            break
        await asyncio.sleep(2)
    return nights


async def miss_nights(client):
    deployment = await client.read_deployment_by_name("nightly/worker")
    for schedule in deployment.schedules:
        await client.delete_deployment_schedule(deployment.id, schedule.id)
    await client.create_deployment_schedules(deployment.id, [(make_schedule(MISSED), True)])
    return await wait_until(client, lambda night: night.state.name == "Late")


def test_of_the_nights_that_no_worker_ran_one_is_run_and_the_others_are_skipped(
    tmp_path, prefect_services, running
):
    file = write_inputs(tmp_path) / "file.yaml"
    deploy(file, SHIPPED, prefect_services)
    late = ask(miss_nights, prefect_services)
    assert [night.state.name for night in late] == ["Late"] * MISSED
    assert all(night.auto_scheduled for night in late)
    running(WORKER, prefect_services)

    async def all_end(client):
        return await wait_until(client, lambda night: night.state.is_final())

    ended = ask(all_end, prefect_services)
    output = (tmp_path / "command.log").read_text("utf-8")
    assert sorted(night.state.name for night in ended) == ["Cancelled"] * (MISSED - 1) + [
        "Passed"
    ], output
    messages = {night.state.message for night in ended if night.state.is_cancelled()}
    assert messages == {"Deployment concurrency limit reached."}
    assert len(list((tmp_path / "nightly").glob("*/summary.json"))) == 1
