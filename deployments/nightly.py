"""The cron-scheduled nightly: `biasgate nightly CONFIG --output DIR --cron '0 2 * * *'`.

`serve` needs no work pool: the process that calls it stays, asks the Prefect API for the runs
that the schedule made, and starts each in a process of its own. For a worker on another
machine use `prefect.yaml` beside this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect.schedules import Cron, Schedule
from prefect.settings import PREFECT_API_URL
from prefect.types.entrypoint import EntrypointType

from flows.nightly import nightly
from tasks.errors import InputError


def serve(
    config: Path, output: Path, store: Path, cron: str, outcome_of: list[str] | None = None
) -> None:
    """Register the deployment `nightly/biasgate` with its schedule and run what falls due.

    Parameters
    ----------
    config : Path
        Evaluation file.
    output : Path
        Folder that gets one folder per run.
    store : Path
        Folder of sets, scores and, by default, the MLflow store.
    cron : str
        Five fields, in UTC.
    outcome_of : list of str, optional
        As in `flows.nightly.nightly`.

    Raises
    ------
    InputError
        If `cron` is not a schedule, or there is no server whose scheduler would make runs.
    """
    schedule = _schedule(cron)
    if not PREFECT_API_URL.value():
        msg = (
            "a schedule needs a Prefect server that stays; none is set. Run `prefect server "
            "start`, and here `export PREFECT_API_URL=http://127.0.0.1:4200/api`."
        )
        raise InputError(msg)
    places = {"config": config, "output": output, "store": store}
    parameters: dict[str, Any] = {name: str(path.resolve()) for name, path in places.items()}
    nightly.serve(
        name="biasgate",
        schedule=schedule,
        parameters=parameters | ({"outcome_of": outcome_of} if outcome_of else {}),
        tags=["biasgate"],
        # One evaluation at a time; and found by module, as the package is installed.
        limit=1,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


def _schedule(cron: str) -> Schedule:
    try:
        return Cron(cron, timezone="UTC")
    except ValueError as error:
        msg = f"`--cron` must be five fields such as '0 2 * * *'; got {cron!r}."
        raise InputError(msg) from error
