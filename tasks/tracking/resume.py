"""Resuming or ending the runs of killed evaluations.

A killed process cannot end its MLflow runs. The next evaluation of the same experiment finds the
runs with an owner that has ended. It resumes the runs of the same evaluation, overwriting their
values, and ends the others as KILLED. The evidence of a promotion is never replaced, because
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
from biasgate.tasks.mlflow_server.runs import KEY, OWNER, PARENT, Gateway, UnfinishedRun
from biasgate.tasks.promoting.decisions import make_decisions
from biasgate.tasks.promoting.succession import build_succession, collect_judged
from biasgate.tasks.records import Decided, LoggedVerdict, Verdict
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking.view import FOLDER as PICTURES

EVALUATION = "biasgate.evaluation"
RESUMED = "biasgate.resumed"
"""Tag of a resumed evaluation; its seconds are those of the last process."""
TABLE = "bias_metrics.json"  # only for MLflow's page: not part of the results
# After this time, a run of another machine or container counts as abandoned: its process cannot be
# checked.
_LEASE_S = 24 * 3600


@dataclass(frozen=True)
class EvaluationRun:
    """The MLflow run of an evaluation, the parent of its candidates' runs."""

    run_id: str
    workplace: Workplace
    """The store and MLflow server of the run."""
    source: dict[str, str] = field(default_factory=dict)
    """Tags that name the evaluation file and its commit."""


def settle_abandoned_runs(gateway: Gateway, experiment_id: str, key: str, evaluation: str) -> None:
    """Take over an abandoned run of the same evaluation; end the others as KILLED.

    `evaluation` is the digest of the evaluation and its scores.
    """
    ended = {run.run_id for run in gateway.list_unfinished(experiment_id) if _is_abandoned(run)}
    # A process may have finished its run between the reading and its end.
    unfinished = gateway.list_unfinished(experiment_id) if ended else []
    abandoned = [run for run in unfinished if run.run_id in ended]
    resumed = next((run for run in abandoned if run.tags.get(EVALUATION) == evaluation), None)
    if resumed is not None:
        gateway.log(
            resumed.run_id, tags={KEY: key, OWNER: describe_this_process(), RESUMED: "true"}
        )
    for run in abandoned:
        if resumed is None or resumed.run_id not in {run.run_id, run.tags.get(PARENT)}:
            gateway.end_run(run.run_id, "KILLED")


@task(name="look for earlier promotion")
def find_promotion(
    measured: list[list[Measured]], model: str | None, policy: Policy, run: EvaluationRun
) -> Decided | None:
    """Return verdicts and decisions if this evaluation already promoted a candidate.

    This happens if the process was killed, or lost its connection, after the promotion. The files
    logged with the verdicts replace the newly measured files. Safe to retry.
    """
    gateway = run.workplace.gateway
    entry = _find_own_promotion(model, run.run_id, gateway) if model else None
    if model is None or entry is None:
        return None
    verdicts = [
        [_fetch_verdict(on_set, run.run_id, gateway) for on_set in on_sets] for on_sets in measured
    ]
    judged = collect_judged([on_sets[0].candidate for on_sets in measured], verdicts, gateway)
    earlier_links = Ledger(gateway, model).chain.get_prefix(entry.number).links
    replaced = entry.content.replaces or None
    decisions = make_decisions(judged, model, replaced, earlier_links, build_succession(policy))
    return Decided([verdict for on_sets in verdicts for verdict in on_sets], decisions)


def _is_abandoned(run: UnfinishedRun) -> bool:
    owner = run.tags.get(OWNER)
    if owner is None:
        return False
    if has_ended(owner):
        return True
    return not is_on_this_machine(owner) and time.time() - run.started > _LEASE_S


def _find_own_promotion(model: str, run: str, gateway: Gateway) -> Entry | None:
    """Return the last promotion if this run decided it and its version is still champion."""
    last = Ledger(gateway, model).chain.last_move
    champion = gateway.get_alias(model, CHAMPION)
    if last is None or champion is None or champion.version != last.content.version:
        return None
    parents = {gateway.get_parent_id(verdict.run_id) for verdict in last.content.verdicts}
    return last if parents == {run} else None


def _fetch_verdict(measured: Measured, run: str, gateway: Gateway) -> LoggedVerdict:
    """Return a logged verdict, and replace the new files by the logged files."""
    folder = Path(measured.folder)
    key = make_run_key(run, measured.candidate.name, measured.source.name)
    run_id = gateway.find_run(gateway.get_experiment_id(run), key)
    with gateway.open_run_files(str(run_id)) as logged_folder:
        only_for_mlflow = shutil.ignore_patterns(TABLE, PICTURES)
        shutil.copytree(logged_folder, folder, dirs_exist_ok=True, ignore=only_for_mlflow)
    verdict = Verdict.read((folder / "verdict.json").read_bytes())
    return LoggedVerdict.from_verdict(verdict, str(run_id))


def make_run_key(run: str, candidate: str, evaluation_set: str) -> str:
    """Return the key of the run of a candidate on a set.

    Unlike the title of the run, the key is unique: names have no slash, but may have ` on `.
    """
    return f"{run}/{candidate}/{evaluation_set}"
