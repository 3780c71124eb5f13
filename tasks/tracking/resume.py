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
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.common.processes import has_ended, is_of_this_machine, this_process
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.mlflow_server.runs import KEY, OWNER, PARENT, Gateway, Running
from biasgate.tasks.promoting.champion import CHAMPION
from biasgate.tasks.promoting.decisions import judged_versions, succession_of, tell
from biasgate.tasks.promoting.ledger import Entry, Ledger
from biasgate.tasks.records import Decided, LoggedVerdict, Verdict
from biasgate.tasks.store import Workplace

EVALUATION = "biasgate.evaluation"
TABLE = "bias_metrics.json"  # what MLflow's page shows; no result of its own
# Of a process on another machine nobody can tell whether it lives.
_LEASE_S = 24 * 3600


@dataclass(frozen=True)
class EvaluationRun:
    """The MLflow run of an evaluation, under which those of its candidates are nested.

    Attributes
    ----------
    run_id : str
        Its id.
    workplace : Workplace
        Where it is.
    """

    run_id: str
    workplace: Workplace


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


@task(name="look for earlier promotion")
def find_promotion(
    measured: list[list[Measured]],
    registered_model: str | None,
    policy: Policy,
    run: EvaluationRun,
) -> Decided | None:
    """Return verdicts and decisions where this evaluation promoted a candidate already.

    It did so before it was killed, or before its connection was lost. The files that the
    verdicts were logged with replace those of the new measurement. Safe to retry.
    """
    gateway, model = run.workplace.gateway, registered_model
    entry = _own_promotion(model, run.run_id, gateway) if model else None
    if model is None or entry is None:
        return None
    verdicts = [[_fetch_verdict(one, run.run_id, gateway) for one in ones] for ones in measured]
    judged = judged_versions([ones[0].candidate for ones in measured], verdicts, gateway)
    before = [one for one in Ledger(gateway, model).entries() if one.number < entry.number]
    replaced = entry.content["replaces"] or None
    decisions = tell(judged, model, replaced, before, succession_of(policy))
    return Decided([one for ones in verdicts for one in ones], decisions)


def _is_abandoned(run: Running) -> bool:
    owner = run.tags.get(OWNER)
    if owner is None:
        return False
    if is_of_this_machine(owner):
        return has_ended(owner)
    return time.time() - run.started > _LEASE_S


def _own_promotion(model: str, run: str, gateway: Gateway) -> Entry | None:
    """Return the last promotion if it rests on verdicts under this run and still stands."""
    last = Ledger(gateway, model).last_done()
    champion = gateway.alias(model, CHAMPION)
    if last is None or champion is None or champion.version != last.content["version"]:
        return None
    parents = {gateway.parent_of(one["run_id"]) for one in last.content["verdicts"]}
    return last if parents == {run} else None


def _fetch_verdict(measured: Measured, run: str, gateway: Gateway) -> LoggedVerdict:
    """Return a logged verdict; its files replace those that were made again."""
    folder = Path(measured.folder)
    key = run_key(run, measured.candidate.name, measured.source.name)
    run_id = gateway.find_run(gateway.experiment_of(run), key)
    logged = gateway.download_artifacts(str(run_id))
    shutil.copytree(logged, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(TABLE))
    verdict: Verdict = json.loads((folder / "verdict.json").read_text("utf-8"))
    return {**verdict, "run_id": str(run_id)}


def run_key(run: str, candidate: str, evaluation_set: str) -> str:
    """Return the key of the run of one candidate on one set."""
    return f"{run}/{candidate} on {evaluation_set}"
