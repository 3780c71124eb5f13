"""Deployments for a worker, as prefect.yaml makes them, on the server of the tests."""

import subprocess
import sys
from pathlib import Path

SHIPPED = Path(__file__).parents[2] / "deployments" / "prefect.yaml"
PREFECT = [sys.executable, "-m", "prefect"]
WORKER = [*PREFECT, "worker", "start", "--pool", "biasgate"]


def deploy(config, file, environment):
    """Do what the comment in prefect.yaml says; runs of an earlier deployment are nobody's then."""
    folder = config.parent
    subprocess.run(
        [*PREFECT, "--no-prompt", "deployment", "delete", "nightly/worker"],
        check=False,
        env=environment,
        capture_output=True,
    )
    environment = environment | {
        "BIASGATE_CONFIG": str(config),
        "BIASGATE_OUTPUT": str(folder / "nightly"),
        "BIASGATE_STORE": str(folder / "store"),
    }
    for command in (
        ["work-pool", "create", "biasgate", "--type", "process", "--overwrite"],
        ["--no-prompt", "deploy", "--all", "--prefect-file", str(file)],
    ):
        done = subprocess.run(
            [*PREFECT, *command],
            check=False,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
