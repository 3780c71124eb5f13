"""Questions to the Prefect server of a test about its deployments."""

import asyncio
import time

from prefect import get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
from prefect.settings import PREFECT_API_URL, temporary_settings

PATIENCE_S = 210


def wait_for_deployment(name, environment, *, paused, cron=None):
    """Wait until a deployment is paused or not, and perhaps has a schedule; return it."""

    async def read(client):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = await client.read_deployments(
                deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=[name]))
            )
            for one in found:
                crons = [schedule.schedule.cron for schedule in one.schedules]
                if one.paused == paused and cron in {None, *crons}:
                    return one
            await asyncio.sleep(0.5)
        return None

    found = ask(read, environment)
    assert found is not None, name
    return found


def ask(question, environment):
    """Ask the Prefect server of the test."""

    async def asked():
        async with get_client() as client:
            return await question(client)

    with temporary_settings({PREFECT_API_URL: environment["PREFECT_API_URL"]}):
        return asyncio.run(asked())
