"""Reading of evaluation files: everything that can be checked is checked before any work starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import format_size, suggest_path
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.steps import StepSettings
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.data.freezing import check_source
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evaluation_file import Evaluation, EvaluationFile
from biasgate.tasks.evidence.answers import refuse_missing_thresholds
from biasgate.tasks.gating.policy import read_policy
from biasgate.tasks.included import find_evaluation_file, is_count_file, list_included_names
from biasgate.tasks.ledger.ledger import CHAMPION
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.remembering.trend import remember_failure
from biasgate.tasks.reporting.notifications import build_crash_message, notify
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.registered_candidates import make_placeholders
from biasgate.tasks.signing.keys import PrivateKey, TrustedKeys
from biasgate.tasks.store import Workplace


def read_evaluation(
    config: str | Path, outcome_of: Sequence[str] | None = None, sample: int | None = None
) -> Evaluation:
    """Read an evaluation file and its policy, and check everything that can be checked now.

    `config`: its path, or the name of an included evaluation. `outcome_of`: replaces the file's
    `outcome_of`. `sample`: replaces `sample` of all sets, training sets included.

    Returns the settings with absolute paths, and the policy.
    """
    path = find_evaluation_file(config).resolve()
    evaluation = read_file(config)
    if sample is not None:
        evaluation = with_sample(evaluation, sample)
    names = [candidate.name for candidate in evaluation.candidates]
    unknown = sorted(set(outcome_of or ()) - set(names))
    if unknown:
        msg = f"`--candidate` must be one of {', '.join(names)} in {path}; got {unknown[0]!r}."
        raise InputError(msg)
    policy = read_policy(evaluation.policy, path.parent)
    rivals = [one for one in (evaluation.champion, evaluation.reference) if one is not None]
    pool = None if evaluation.mitigation is None else evaluation.mitigation.pool
    for source in (*evaluation.evaluation_sets, *(() if pool is None else (pool,))):
        check_source(source)
    found = make_placeholders(evaluation.registered_candidates, evaluation.registered_model)
    for candidate in (*evaluation.candidates, *found, *rivals):
        if (training := candidate.training()) is not None:
            check_source(training)
        candidate.check()
        candidate.check_signature()
    for candidate in (*evaluation.candidates, *found, *rivals):
        training = candidate.training()
        for source in (*evaluation.evaluation_sets, *([training] if training else [])):
            candidate.require_text(source)
    for rule in policy.decision_rules() if evaluation.reference is None else ():
        if rule.reference_margin is not None:
            msg = (
                f"policy {policy.name!r}: rule {rule.name} has a `reference_margin`; name the "
                "`reference` in the evaluation file."
            )
            raise InputError(msg)
    refuse_missing_thresholds(policy.decision_rules(), _with_roles(evaluation, found))
    counted = tuple(outcome_of or evaluation.outcome_of)
    # Not validated again: that would replace the made-up versions of candidates.
    return Evaluation.model_construct(
        **dict(evaluation) | {"policy": policy, "outcome_of": counted}
    )


def read_file(config: str | Path) -> EvaluationFile:
    """Read an evaluation file, given by its path or by the name of an included evaluation."""
    path = find_evaluation_file(config)
    if not path.exists() and path.suffix not in {".yaml", ".yml"}:
        known = list_included_names()
        msg = (
            f"CONFIG must be an evaluation file or one of the included evaluations, "
            f"{', '.join(known)}; got {str(config)!r}.{did_you_mean(str(config), known)}"
            f"{suggest_path(path)}"
        )
        raise InputError(msg)
    if is_count_file(path):
        msg = f"file {path} must not have `source: shards`, which only `biasgate evaluate` takes."
        raise InputError(msg)
    return read_settings(path.resolve(), EvaluationFile)


def with_sample(evaluation: EvaluationFile, sample: int) -> EvaluationFile:
    """Return the evaluation on random samples of about so many rows, training sets included."""
    sets = [_sampled(source, sample) for source in evaluation.evaluation_sets]
    candidates = [
        candidate
        if (training := candidate.training()) is None
        else candidate.model_copy(update={"train_on": _sampled(training, sample)})
        for candidate in evaluation.candidates
    ]
    return evaluation.model_copy(update={"evaluation_sets": sets, "candidates": candidates})


def _sampled(source: SourceSettings, sample: int) -> SourceSettings:
    try:
        return type(source).model_validate(dict(source) | {"sample": sample}, by_name=True)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        msg = f"`--sample` cannot be used on set {source.name!r}: {problem}."
        raise InputError(msg) from None


def _with_roles(
    evaluation: EvaluationFile, found: Sequence[CandidateSettings]
) -> Iterator[tuple[str, CandidateSettings]]:
    """Yield candidates and rivals, except a registered champion, which is looked up later."""
    yield from (("candidate", candidate) for candidate in (*evaluation.candidates, *found))
    if evaluation.champion is not None and evaluation.registered_model is None:
        yield "champion", evaluation.champion
    if evaluation.reference is not None:
        yield "reference", evaluation.reference


@task(name="read evaluation")
def read_evaluation_file(
    config: str, outcome_of: list[str] | None = None, sample: int | None = None
) -> Evaluation:
    """Read and check an evaluation file, and the key to sign with. Only reads, safe to retry."""
    evaluation = read_evaluation(config, outcome_of, sample)
    TrustedKeys.load().refuse_revoked(PrivateKey.from_environment())  # before anything is trained
    candidates = (
        ", ".join(candidate.name for candidate in evaluation.candidates) or "registered versions"
    )
    sets = ", ".join(evaluation_set.name for evaluation_set in evaluation.evaluation_sets)
    policy = evaluation.policy.name
    log_message(f"evaluation {evaluation.name}: {candidates} on {sets}, judged by policy {policy}")
    return evaluation


@task(name="plan downloads")
def plan_downloads(evaluation: Evaluation, workplace: Workplace) -> None:
    """Report what will be downloaded; refuse what the hub does not have. Only reads.

    So an unknown model or revision ends the run before an archive is downloaded or a model trained.
    """
    training = [one for candidate in evaluation.candidates if (one := candidate.training())]
    found: dict[str, int | None] = {}
    for source in (*evaluation.evaluation_sets, *training):
        found |= source.downloads(workplace.store / "downloads")
    for candidate in evaluation.candidates:
        found |= candidate.downloads()
    files = [
        name if size is None else f"{name} ({format_size(size)})" for name, size in found.items()
    ]
    if files:
        log_message(f"to download: {', '.join(files)}")


def read_step_settings(config: str) -> StepSettings:
    """Return how steps are tried; the default if the file is wrong: its own step refuses it."""
    try:
        found = read_file(config)
    except InputError:
        return StepSettings()
    return StepSettings(found.step_retries, found.step_timeout_s)


def notify_of_crash(flow: Any, flow_run: Any, state: Any) -> None:
    """Notify of a failed flow: a Prefect hook, which does not change the flow's state.

    If the evaluation file cannot be read, no message is sent.
    """
    del flow
    evaluation = read_file(flow_run.parameters["config"])
    notify(evaluation.notifications, build_crash_message(evaluation.name, _kind_of(state)))


def remember_failed_night(flow: Any, flow_run: Any, state: Any) -> None:
    """Remember that a night failed: a Prefect hook, as above. What cannot be logged is said."""
    del flow
    night, config, store = map(flow_run.parameters.get, ("night", "config", "store"))
    if not night:
        return
    try:
        evaluation = read_file(config).name
        workplace = Workplace(Path(store))
        remember_failure(evaluation, str(flow_run.id), _kind_of(state), workplace)
    except Exception as error:  # noqa: BLE001 - the night has failed anyway, with its own error
        log_message(f"`biasgate trend` will not show this night: {type(error).__name__}")


def _kind_of(state: Any) -> str:
    """Return the name of the error with which a flow failed, or of its state; never its text."""
    error = getattr(state.data, "result", state.data)  # Prefect wraps it in its own record
    return type(error).__name__ if isinstance(error, BaseException) else str(state.name)


def with_found(evaluation: Evaluation, gateway: Gateway, *, watch_champion: bool) -> Evaluation:
    """Add the versions that `registered_candidates` finds to the candidates of the file.

    A version that the file names is not added again, and the champion is not: it is what the
    others are compared with.

    `watch_champion`: whether the champion is measured too, so that there may be no candidate.
    """
    wanted, model = evaluation.registered_candidates, evaluation.registered_model
    if wanted is None or model is None:
        return evaluation
    champion = gateway.get_alias(model, CHAMPION)
    known = {
        gateway.resolve(candidate.uri).uri for candidate in evaluation.candidates if candidate.uri
    }
    known |= {champion.uri} if champion else set()
    versions = wanted.find_versions(model, gateway, known)
    found = [wanted.make_candidate(model, version.version) for version in versions]
    candidates = [*evaluation.candidates, *found]
    names = [candidate.name for candidate in candidates]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        msg = (
            f"candidate {twice} must have another name: `registered_candidates` found a version "
            "with this name."
        )
        raise InputError(msg)
    if not candidates and not (watch_champion and champion):
        lacks = "no champion to measure" if watch_champion else "nothing to judge"
        msg = (
            f"a version of {model} other than the champion must have "
            f"{escape_invisible(str(wanted))}; "
            f"none has, and there is {lacks}. Tag a version, or name `candidates` in the "
            "evaluation file."
        )
        raise InputError(msg)
    return evaluation.model_copy(update={"candidates": candidates})


@task(name="find candidates")
def find_candidates(
    evaluation: Evaluation, workplace: Workplace, *, watch_champion: bool
) -> Evaluation:
    """Return the evaluation with the versions of its registered model that are candidates now.

    Safe to retry: it only reads the registry.
    """
    if evaluation.registered_candidates is None:
        return evaluation
    found = with_found(evaluation, workplace.gateway, watch_champion=watch_champion)
    named = [candidate.uri for candidate in found.candidates[len(evaluation.candidates) :]]
    wanted, model = escape_invisible(str(found.registered_candidates)), found.registered_model
    log_message(f"versions of {model} with {wanted}: {', '.join(map(str, named)) or 'none'}")
    return found
