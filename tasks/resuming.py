"""What a killed evaluation left behind: its runs go on, or are ended.

A process that is killed cannot end its MLflow runs. The next evaluation of the same experiment
finds those whose owner is gone. The runs of the very same evaluation become its own, and all
that it logs overwrites what is there; those of another one end as KILLED. What a promotion
rests on already is not made again: `biasgate verify` compares it with the ledger.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.ledger import Ledger
from tasks.mlflow_gateway import KEY, OWNER, PARENT, Gateway, Running
from tasks.mlflow_registry import ModelVersion
from tasks.orchestration import task
from tasks.owners import has_ended, is_of_this_machine, this_process
from tasks.promotion import CHAMPION
from tasks.scoring.candidate import Workplace

EVALUATION = "biasgate.evaluation"
TABLE = "bias_metrics.json"  # what MLflow's page shows; no result of its own
# Of a process on another machine nobody can tell whether it lives.
_LEASE_S = 24 * 3600


def settle_abandoned(gateway: Gateway, experiment_id: str, key: str, evaluation: str) -> None:
    """Make the runs of the same evaluation this one's own, end those of others as KILLED.

    Parameters
    ----------
    gateway : Gateway
        Tracking server.
    experiment_id : str
        Where to look.
    key : str
        Of this evaluation's run.
    evaluation : str
        Digest of all that decides what is logged.
    """
    left = [run for run in gateway.running(experiment_id) if _is_abandoned(run)]
    same = next((run for run in left if run.tags.get(EVALUATION) == evaluation), None)
    if same is not None:
        gateway.log(same.run_id, tags={KEY: key, OWNER: this_process()})
    for run in left:
        if same is None or same.run_id not in {run.run_id, run.tags.get(PARENT)}:
            gateway.finish(run.run_id, "KILLED")


@task(
    name="look for earlier promotion",
    task_run_name="look for earlier promotion of {candidate[name]}",
)
def find_promotion(
    candidate: dict[str, Any], measured: list[dict[str, Any]], run: str, store: str
) -> tuple[list[dict[str, Any]], dict[str, Any]] | None:
    """Return verdicts and decision where this evaluation promoted the candidate before a kill.

    The files that the verdicts were logged with replace those of the new measurement. Safe to
    retry.
    """
    gateway = Workplace.at(store).gateway
    version = _promoted(candidate, run, gateway)
    if version is None:
        return None
    verdicts = [_fetch_verdict(version, one, gateway) for one in measured]
    sentence = f"{version.uri} is {CHAMPION} now, since before this evaluation was interrupted."
    decision = {"outcome": "pass", "promoted": True, "champion_moved": False, "sentence": sentence}
    return verdicts, {"candidate": candidate["name"]} | decision


def _is_abandoned(run: Running) -> bool:
    owner = run.tags.get(OWNER)
    if owner is None:
        return False
    if is_of_this_machine(owner):
        return has_ended(owner)
    return time.time() - run.started > _LEASE_S


def _promoted(candidate: Mapping[str, Any], run: str, gateway: Gateway) -> ModelVersion | None:
    """Return the candidate's version if it is champion on verdicts that lie under this run."""
    if not candidate.get("model"):
        return None
    version = gateway.resolve(candidate["model"])
    champion = gateway.alias(version.name, CHAMPION)
    if champion is None or champion.version != version.version:
        return None
    last = Ledger(gateway, version.name).last_done()
    if last is None or last.content["version"] != version.version:
        return None
    parents = {gateway.parent_of(one["run_id"]) for one in last.content["verdicts"]}
    return version if parents == {run} else None


def _fetch_verdict(
    version: ModelVersion, measured: Mapping[str, Any], gateway: Gateway
) -> dict[str, Any]:
    name, folder = measured["report"]["evaluation_set"]["name"], Path(measured["folder"])
    run_id = version.tags[f"biasgate.{name}.run_id"]
    logged = gateway.download_artifacts(run_id)
    shutil.copytree(logged, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(TABLE))
    verdict: dict[str, Any] = json.loads((folder / "verdict.json").read_text("utf-8"))
    return verdict | {"run_id": run_id}
