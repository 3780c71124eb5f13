"""Train and register the candidates of an evaluation that are trained here (part of step 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow

from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.evaluation_file import read_evaluation_file
from biasgate.tasks.scoring.training import pin_candidate, train_candidate
from biasgate.tasks.store import Workplace


def prepare_candidates(evaluation: dict[str, Any], workplace: Workplace) -> list[dict[str, Any]]:
    """Return the candidates, each registered one pinned to its version.

    - freeze all training sets, so that a wrong one is refused before any training
    - for each candidate with `train_on`: train, log and register it, or find the version that
      the same training made before
    - for each `models:/name@alias`: look up the version once, for all later steps
    """
    training_sets = {
        candidate["name"]: freeze_evaluation_set(candidate["train_on"], workplace)
        for candidate in evaluation["candidates"]
        if candidate.get("train_on")
    }
    return [
        train_candidate(
            candidate,
            training_sets[candidate["name"]],
            workplace,
            evaluation["name"],
            evaluation["registered_model"],
        )
        if candidate.get("train_on")
        else pin_candidate(candidate, workplace)
        for candidate in evaluation["candidates"]
    ]


@flow(name="train", flow_run_name="train {config}")
def train(config: str, store: str) -> list[dict[str, Any]]:
    """Train and register the candidates of an evaluation file that are trained here.

    Parameters
    ----------
    config : str
        Path of the evaluation file.
    store : str
        Folder of frozen sets and, by default, the MLflow store.

    Returns
    -------
    list of dict
        The candidates; trained ones with `model`, as in `models:/toxicity/3`.
    """
    return prepare_candidates(read_evaluation_file(config), Workplace(Path(store)))
