"""Training a candidate and registering the result."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from biasgate.tasks.common.errors import CandidateError, InputError, withhold_message
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.training_rows import refuse_shared_rows
from biasgate.tasks.store import Workplace

TRAINING_KEY = "biasgate.training_key"
TRAINING_SET = "biasgate.training_set_digest"
TRAINING_SAMPLE = "biasgate.training_sample"
OPENED_AS = "biasgate.opened_as"
MODEL_PATH = "model"
NO_PARAMS = {"train_on", "model", "threshold", "rows_a_shard", "resources", "tags"}


def train_and_register(
    candidate: CandidateSettings,
    training_set: EvaluationSet,
    gateway: Gateway,
    *,
    experiment: str,
    registered_model: str,
) -> ModelVersion:
    """Return the registered version of a candidate; train and register it if necessary.

    Its tags have the digest of the training set, and the key that identifies the same training.
    """
    key = candidate.training_key(training_set)
    version = gateway.find_version(registered_model, TRAINING_KEY, key)
    if version is not None:
        return version
    experiment_id = gateway.ensure_experiment(experiment)
    # In a run that is shared with another model, a version could lose the files it was judged by.
    run_digest = json_digest([registered_model, key])
    run_id = gateway.ensure_run(experiment_id, f"train-{run_digest}", f"train {candidate.name}")
    opened_as = json.dumps(candidate.opened_as())
    tags = {TRAINING_KEY: key, TRAINING_SET: training_set.digest, OPENED_AS: opened_as}
    if training_set.sampled_from is not None:
        tags[TRAINING_SAMPLE] = _describe_sample(training_set)
    with gateway.fail_on_error(run_id):
        options = candidate.model_dump(mode="json", exclude=NO_PARAMS)
        gateway.log(run_id, params=options, tags=tags)

        def log(metrics: Mapping[str, float], epoch: int) -> None:
            gateway.log(run_id, metrics=metrics, step=epoch)

        with tempfile.TemporaryDirectory() as folder:
            fit = partial(candidate.fit, training_set, Path(folder) / MODEL_PATH, log)
            withhold_message(fit, f"training of candidate {candidate.name!r}", CandidateError)
            # Another process may have finished the same training meanwhile, in this run.
            version = gateway.find_version(registered_model, TRAINING_KEY, key)
            if version is None:
                gateway.log_folder(run_id, Path(folder) / MODEL_PATH, MODEL_PATH)
        # Before the version is created: after that, no later run completes this one.
        gateway.end_run(run_id)
        if version is not None:
            return version
        return gateway.register_once(registered_model, run_id, MODEL_PATH, tags, TRAINING_KEY)


@task(name="check training set", task_run_name="check training set of {candidate.name}")
def check_training_set(
    candidate: CandidateSettings,
    set_folder: str,
    evaluation_sets: Sequence[str],
    workplace: Workplace,
    registered_model: str,
) -> None:
    """Refuse a training set that shares rows with an evaluation set. Only reads.

    A model that was trained before has hashes of its rows, and is refused when it is opened. So
    are sets without text, by the kinds that need text.
    """
    training_set = EvaluationSet.load(Path(set_folder))
    if candidate.allow_training_rows or not training_set.has_text:
        return
    key = candidate.training_key(training_set)
    if workplace.gateway.find_version(registered_model, TRAINING_KEY, key) is not None:
        return
    sets = [EvaluationSet.load(Path(folder)) for folder in evaluation_sets]
    with_text = [evaluation_set for evaluation_set in sets if evaluation_set.has_text]
    refuse_shared_rows(training_set, with_text, candidate.name)


@task(name="train candidate", task_run_name="train {candidate.name}")
def train_candidate(
    candidate: CandidateSettings,
    set_folder: str,
    workplace: Workplace,
    experiment: str,
    registered_model: str,
) -> CandidateSettings:
    """Train on the frozen set, register the model, return the candidate with its version.

    Safe to retry: a version with the same training key is reused.
    """
    training_set = EvaluationSet.load(Path(set_folder))
    log_message(f"training {candidate.name}, unless the same training was done before")
    version = train_and_register(
        candidate,
        training_set,
        workplace.gateway,
        experiment=experiment,
        registered_model=registered_model,
    )
    log_message(
        f"{candidate.name} is {version.uri}, trained on {_describe_sample(training_set)} comments"
    )
    return candidate.pin_version(version.uri)


def _describe_sample(training_set: EvaluationSet) -> str:
    """Return the number of rows and, for a random sample, the size of the whole set."""
    n_all = training_set.sampled_from
    return f"{training_set.n_rows:,}" + (f" of {n_all:,}" if n_all is not None else "")


def refuse_two_thresholds(candidates: Sequence[CandidateSettings]) -> None:
    """Refuse two candidates with the same version and different thresholds.

    A version has a single verdict on each set, so both candidates would get the same verdict.
    """
    first: dict[str, CandidateSettings] = {}
    for candidate in candidates:
        if candidate.uri is None:
            continue
        other = first.setdefault(candidate.uri, candidate)
        if other.threshold != candidate.threshold:
            msg = (
                f"candidates of the same version must have the same `threshold`, since a version "
                f"has a single verdict; {other.name} and {candidate.name} are both "
                f"{candidate.uri}, with {other.threshold} and {candidate.threshold}. "
                "Compare thresholds in an evaluation without registered versions."
            )
            raise InputError(msg)


@task(name="pin candidate", task_run_name="pin {candidate.name}")
def pin_candidate(candidate: CandidateSettings, workplace: Workplace) -> CandidateSettings:
    """Replace a candidate's alias with the version that it names now. Only reads."""
    version = candidate.registered(workplace)
    return candidate if version is None else candidate.pin_version(version.uri)
