"""Runs that a killed evaluation left behind are resumed or ended.

A killed process cannot end its MLflow runs. The next evaluation of the same experiment finds the
runs whose owner has ended. It resumes those of the same evaluation, overwriting what they
logged, and ends the others as KILLED. The evidence of a promotion is never replaced:
`biasgate verify` compares it with the ledger.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.common.processes import describe_this_process, has_ended, is_on_this_machine
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.entry import Entry
from biasgate.tasks.ledger.ledger import CHAMPION, Ledger
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.mlflow_server.runs import KEY, OWNER, PARENT, Gateway, Running
from biasgate.tasks.promoting.decisions import make_decisions
from biasgate.tasks.promoting.succession import build_succession, collect_judged
from biasgate.tasks.records import Decided, LoggedVerdict, Verdict
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking.view import FOLDER as PICTURES

EVALUATION = "biasgate.evaluation"
RESUMED = "biasgate.resumed"
"""The tag of an evaluation whose first process was killed: its seconds are those of the last."""
TABLE = "bias_metrics.json"  # shown on MLflow's page; not a result of its own
# It is unknown whether a process on another machine, or in another container, is alive.
_LEASE_S = 24 * 3600


@dataclass(frozen=True)
class EvaluationRun:
    """The MLflow run of an evaluation, under which those of its candidates are nested."""

    run_id: str
    """Its id."""
    workplace: Workplace
    """The store and MLflow server of the run."""
    source: dict[str, str] = field(default_factory=dict)
    """Tags that name the evaluation file and its commit."""


def settle_abandoned(gateway: Gateway, experiment_id: str, key: str, evaluation: str) -> None:
    """Take over abandoned runs of the same evaluation, a digest; end those of others as KILLED."""
    left = [run for run in gateway.running(experiment_id) if _is_abandoned(run)]
    same = next((run for run in left if run.tags.get(EVALUATION) == evaluation), None)
    if same is not None:
        gateway.log(same.run_id, tags={KEY: key, OWNER: describe_this_process(), RESUMED: "true"})
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
    """Return verdicts and decisions if this evaluation already promoted a candidate.

    This happens if it was killed, or lost its connection, after that. The files logged with the
    verdicts replace those of the new measurement. Safe to retry.
    """
    gateway, model = run.workplace.gateway, registered_model
    entry = _own_promotion(model, run.run_id, gateway) if model else None
    if model is None or entry is None:
        return None
    verdicts = [[_fetch_verdict(one, run.run_id, gateway) for one in ones] for ones in measured]
    judged = collect_judged([ones[0].candidate for ones in measured], verdicts, gateway)
    before = Ledger(gateway, model).chain.get_prefix(entry.number).links
    replaced = entry.content.replaces or None
    decisions = make_decisions(judged, model, replaced, before, build_succession(policy))
    return Decided([verdict for ones in verdicts for verdict in ones], decisions)


def _is_abandoned(run: Running) -> bool:
    owner = run.tags.get(OWNER)
    if owner is None:
        return False
    if has_ended(owner):
        return True
    return not is_on_this_machine(owner) and time.time() - run.started > _LEASE_S


def _own_promotion(model: str, run: str, gateway: Gateway) -> Entry | None:
    """Return the last promotion if it is based on verdicts of this run and still holds."""
    last = Ledger(gateway, model).chain.last_move
    champion = gateway.alias(model, CHAMPION)
    if last is None or champion is None or champion.version != last.content.version:
        return None
    parents = {gateway.parent_of(verdict.run_id) for verdict in last.content.verdicts}
    return last if parents == {run} else None


def _fetch_verdict(measured: Measured, run: str, gateway: Gateway) -> LoggedVerdict:
    """Return a logged verdict; its files replace the new ones."""
    folder = Path(measured.folder)
    key = run_key(run, measured.candidate.name, measured.source.name)
    run_id = gateway.find_run(gateway.experiment_of(run), key)
    with gateway.run_files(str(run_id)) as logged:
        only_for_mlflow = shutil.ignore_patterns(TABLE, PICTURES)
        shutil.copytree(logged, folder, dirs_exist_ok=True, ignore=only_for_mlflow)
    verdict = Verdict.read((folder / "verdict.json").read_bytes())
    return LoggedVerdict.from_verdict(verdict, str(run_id))


def run_key(run: str, candidate: str, evaluation_set: str) -> str:
    """Return the key of the run of one candidate on one set.

    Names have no slash, but they may have ` on `.
    """
    return f"{run}/{candidate}/{evaluation_set}"
