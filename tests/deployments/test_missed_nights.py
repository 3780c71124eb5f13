"""Nights that were missed while no worker ran: one is run, the others are skipped."""

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


async def nights(client):
    name = DeploymentFilterName.model_validate({"any_": ["worker"]})
    found = await client.read_flow_runs(deployment_filter=DeploymentFilter(name=name))
    return sorted(found, key=lambda one: one.expected_start_time)


def schedule_of(number):
    """Due now, `number` times within seconds, and never again."""
    start = datetime.now(UTC) + timedelta(seconds=45)
    rule = f"FREQ=SECONDLY;INTERVAL=5;COUNT={number}"
    return RRuleSchedule(rrule=f"DTSTART:{start:%Y%m%dT%H%M%SZ}\nRRULE:{rule}")


async def until(client, condition):
    """Return the nights as soon as the condition holds for all of them."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = await nights(client)
        if len(found) == MISSED and all(map(condition, found)):
            break
        await asyncio.sleep(2)
    return found


async def miss_some(client):
    deployment = await client.read_deployment_by_name("nightly/worker")
    for one in deployment.schedules:
        await client.delete_deployment_schedule(deployment.id, one.id)
    await client.create_deployment_schedules(deployment.id, [(schedule_of(MISSED), True)])
    return await until(client, lambda one: one.state.name == "Late")


def test_of_the_nights_that_no_worker_ran_one_is_run_and_the_others_are_skipped(
    tmp_path, prefect_services, running
):
    file = write_inputs(tmp_path) / "file.yaml"
    deploy(file, SHIPPED, prefect_services)
    late = ask(miss_some, prefect_services)
    assert [one.state.name for one in late] == ["Late"] * MISSED
    assert all(one.auto_scheduled for one in late)
    running(WORKER, prefect_services)

    async def all_end(client):
        return await until(client, lambda one: one.state.is_final())

    ended = ask(all_end, prefect_services)
    said = (tmp_path / "command.log").read_text("utf-8")
    assert sorted(one.state.name for one in ended) == ["Cancelled"] * (MISSED - 1) + ["Passed"], (
        said
    )
    messages = {one.state.message for one in ended if one.state.is_cancelled()}
    assert messages == {"Deployment concurrency limit reached."}
    assert len(list((tmp_path / "nightly").glob("*/summary.json"))) == 1
