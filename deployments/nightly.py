"""The cron-scheduled nightly: `biasgate nightly CONFIG --output DIR --cron '0 2 * * *'`.

`serve` needs no work pool: the process that calls it stays, asks the Prefect API for the runs
that the schedule made, and starts each in a process of its own. For a worker on another
machine use `prefect.yaml` beside this file.
"""

from __future__ import annotations

from pathlib import Path

from prefect.deployments.runner import EntrypointType

from flows.nightly import nightly


def serve(config: Path, output: Path, store: Path, cron: str) -> None:
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
    """
    parameters = {"config": config, "output": output, "store": store}
    nightly.serve(
        name="biasgate",
        cron=cron,
        parameters={name: str(path.resolve()) for name, path in parameters.items()},
        tags=["biasgate"],
        # One evaluation at a time; and found by module, as the package is installed.
        limit=1,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
