"""Diagnose training data, and mitigate bias: try every method, and let the gate decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow

from biasgate.flows.evaluate import evaluate
from biasgate.flows.own_runs import own_run, steps_of
from biasgate.flows.states import summary_of
from biasgate.tasks.common.own_folders import temporary_files
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.mitigating.blocked import limited_to, read_blocked
from biasgate.tasks.mitigating.diagnosis import TrainingDiagnosis, diagnose_training_set
from biasgate.tasks.mitigating.mitigation_report import MitigationReport, report_mitigation
from biasgate.tasks.mitigating.proposing import (
    mitigation_of,
    propose_candidates,
    trained_here,
    training_source,
)
from biasgate.tasks.mitigating.sets import check_sets, sets_of
from biasgate.tasks.mitigation import candidate_of, write_evaluation_file
from biasgate.tasks.reading_evaluation import read_evaluation_file
from biasgate.tasks.reporting.publish import check_places
from biasgate.tasks.scoring.training import train_candidate
from biasgate.tasks.store import Workplace

WITHHELD = "`biasgate mitigate` is an experiment, and promotes only with `--promote`"


@flow(name="mitigate", flow_run_name="mitigate {config}", on_running=[own_run])
def mitigate(
    config: str,
    output: str,
    store: str,
    *,
    candidate: str | None = None,
    blocked: str | None = None,
    promote: bool = False,
) -> MitigationReport:
    """Train a candidate again with every method, and let the gate judge the results.

    It is an experiment: no alias moves, unless that is asked for.

    - read the verdict of a blocked candidate: the identities that failed are balanced
    - choose thresholds and calibrations on `tune_on`, and freeze the training set that each method
      makes (it has a digest); whatever is wrong with the sets shows before anything is written
    - diagnose its training data
    - write an evaluation file of all mitigated candidates, and evaluate it
    - say which passed, and what each method cost every identity

    Parameters
    ----------
    store : str
        Folder of frozen sets, scores and, by default, the MLflow store.
    candidate : str, optional
        The candidate to mitigate. Default: that of `blocked`, or the only one that is trained
        here.
    blocked : str, optional
        Folder of results of a candidate that did not pass, OUTPUT/SET/CANDIDATE.

    Returns
    -------
    MitigationReport
        The content of `mitigation.json`.
    """
    with temporary_files(), steps_of(config, store):
        check_places(output, store)
        evaluation = read_evaluation_file(config)
        verdict = read_blocked(blocked, output)
        chosen = candidate_of(evaluation, candidate, verdict)
        workplace = Workplace(Path(store))
        sets = sets_of(
            training_source(chosen),
            evaluation.evaluation_sets,
            mitigation_of(evaluation.mitigation),
            lambda source: freeze_evaluation_set(source, workplace),
        )
        mitigation = limited_to(verdict, mitigation_of(evaluation.mitigation), sets)
        check_sets(sets, mitigation)
        source, rows = sets.training.source, sets.training.folder
        model = str(evaluation.registered_model)
        trained = None
        if sets.tune_on is not None:
            trained = train_candidate(chosen, rows, workplace, evaluation.name, model)
        proposals = propose_candidates(chosen, trained, mitigation, rows, sets.tune_on, workplace)
        candidates = [
            proposal.candidate for proposal in proposals if proposal.candidate is not None
        ]
        frozen = {
            candidate.name: freeze_evaluation_set(made, workplace)
            for candidate in candidates
            if (made := candidate.training()) is not None
        }
        diagnose_training_set(
            source, rows, mitigation, f"{output}/diagnosis", workplace, evaluation.name
        )
        written = write_evaluation_file(evaluation, candidates, config, output)
        summary = None
        if candidates:
            withheld = None if promote else WITHHELD
            state: Any = evaluate(written, output, store, withheld=withheld, return_state=True)
            summary = summary_of(state)
        return report_mitigation(chosen.name, proposals, frozen, verdict, summary, output)


@flow(name="diagnose-data", flow_run_name="diagnose data of {config}", on_running=[own_run])
def diagnose_data(
    config: str, output: str, store: str, *, candidate: str | None = None
) -> list[TrainingDiagnosis]:
    """Say what a model could learn about identities from its training set.

    - freeze the training set of each candidate that is trained here
    - count and test each identity, over all lengths and in buckets of length
    - write `diagnosis.json`, `diagnosis.csv` and `diagnosis.html`, and log them in MLflow

    Parameters
    ----------
    output : str
        Folder for the results; each training set has a folder in it.
    store : str
        Folder of frozen sets and, by default, the MLflow store.
    candidate : str, optional
        The candidate whose training set is diagnosed. Default: all that are trained here.

    Returns
    -------
    list of TrainingDiagnosis
        The content of each `diagnosis.json`.
    """
    with temporary_files(), steps_of(config, store):
        check_places(output, store)
        evaluation = read_evaluation_file(config)
        workplace, mitigation = Workplace(Path(store)), mitigation_of(evaluation.mitigation)
        sources = trained_here(evaluation.candidates, candidate)
        frozen = [freeze_evaluation_set(source, workplace) for source in sources]
        return [
            diagnose_training_set(source, rows, mitigation, output, workplace, evaluation.name)
            for source, rows in zip(sources, frozen, strict=True)
        ]
