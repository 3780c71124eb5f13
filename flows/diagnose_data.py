"""Diagnose the training data of candidates."""

from __future__ import annotations

from pathlib import Path

from prefect import flow

from biasgate.flows.own_runs import own_run, steps_of
from biasgate.tasks.common.own_folders import temporary_files
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.mitigating.diagnosis import TrainingDiagnosis, diagnose_training_set
from biasgate.tasks.mitigating.proposing import mitigation_of, trained_here
from biasgate.tasks.reading_evaluation import read_evaluation_file
from biasgate.tasks.reporting.publish import check_places
from biasgate.tasks.store import Workplace


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
