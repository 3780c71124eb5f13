"""Train baseline, control and every method on several splits, and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow

from biasgate.flows.own_runs import own_run
from biasgate.flows.time_limits import steps_of
from biasgate.tasks.common.own_folders import temporary_files
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.mitigating.experiment_report import compare_methods
from biasgate.tasks.mitigating.proposing import mitigation_of, training_source
from biasgate.tasks.mitigating.sets import Sets, check_sets, sets_of
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.trials import run_trial
from biasgate.tasks.mitigation_checks import candidate_of
from biasgate.tasks.reading_evaluation import read_evaluation_file
from biasgate.tasks.reporting.publish import check_places
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.store import Workplace


@flow(name="experiment", flow_run_name="experiment {config}", on_running=[own_run])
def experiment(
    config: str, output: str, store: str, *, candidate: str | None = None, seeds: int | None = None
) -> dict[str, Any]:
    """Compare the methods that an evaluation file names, after Dixon et al. (2018).

    - freeze the training set, the pool and the sets to measure on; refuse shared rows
    - for each seed: split the training set, train every method on the same rows, measure all of
      them (numbers that an earlier run kept are used again)
    - compare the methods with the baseline and with the control, over all splits
    - write `experiment.json`, `costs.csv` and `experiment.html`, and log them in MLflow

    Nothing is registered: `biasgate mitigate` hands candidates to the gate.

    Parameters
    ----------
    config : str
        Path of the evaluation file.
    output : str
        Folder for the results.
    store : str
        Folder of frozen sets and, by default, the MLflow store.
    candidate : str, optional
        The candidate to train. Default: the only one that is trained here.
    seeds : int, optional
        Replaces the file's `seeds`.

    Returns
    -------
    dict
        The content of `experiment.json`.
    """
    with temporary_files(), steps_of(config, store):
        check_places(output, store)
        evaluation = read_evaluation_file(config)
        workplace, mitigation = Workplace(Path(store)), mitigation_of(evaluation.mitigation, seeds)
        chosen = candidate_of(evaluation, candidate)
        sets = freeze_sets(chosen, evaluation, mitigation, workplace)
        check_sets(sets, mitigation)
        trials = [
            run_trial(chosen, mitigation, sets, seed, output, store)
            for seed in range(mitigation.seeds)
        ]
        return compare_methods(trials, mitigation, evaluation.name, output, workplace)


def freeze_sets(
    candidate: CandidateSettings,
    evaluation: Evaluation,
    mitigation: Mitigation,
    workplace: Workplace,
) -> Sets:
    """Freeze all sets of an experiment, so that a wrong one is refused before any training."""
    return sets_of(
        training_source(candidate),
        evaluation.evaluation_sets,
        mitigation,
        lambda source: freeze_evaluation_set(source, workplace),
    )
