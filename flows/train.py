"""Train and register the candidates of an evaluation that are trained here."""

from __future__ import annotations

from pathlib import Path

from prefect import flow

from biasgate.flows.own_runs import own_run, steps_of
from biasgate.tasks.common.own_folders import temporary_files
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.reading_evaluation import read_evaluation_file
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.training import pin_candidate, refuse_two_thresholds, train_candidate
from biasgate.tasks.store import Workplace


def prepare_candidates(evaluation: Evaluation, workplace: Workplace) -> list[CandidateSettings]:
    """Return the candidates, each registered one pinned to its version.

    - freeze all training sets, so that a wrong one is refused before any training
    - for each candidate with `train_on`: train, log and register it, or find the version that
      the same training made before
    - for each `models:/name@alias`: look up the version once, for all later steps
    - refuse one version at two thresholds
    """
    training_sets = {
        candidate.name: freeze_evaluation_set(source, workplace)
        for candidate in evaluation.candidates
        if (source := candidate.training()) is not None
    }
    prepared = [
        train_candidate(
            candidate,
            training_sets[candidate.name],
            workplace,
            evaluation.name,
            str(evaluation.registered_model),
        )
        if candidate.name in training_sets
        else pin_candidate(candidate, workplace)
        for candidate in evaluation.candidates
    ]
    refuse_two_thresholds(prepared)
    return prepared


@flow(name="train", flow_run_name="train {config}", on_running=[own_run])
def train(config: str, store: str) -> list[CandidateSettings]:
    """Train and register the candidates of an evaluation file that are trained here.

    Parameters
    ----------
    store : str
        Folder of frozen sets and, by default, the MLflow store.

    Returns
    -------
    list of CandidateSettings
        The candidates; trained ones with `model`, as in `models:/toxicity/3`.
    """
    with temporary_files(), steps_of(config, store):
        return prepare_candidates(read_evaluation_file(config), Workplace(Path(store)))
