"""Part of the second step: the candidates of tonight, some of them found in the registry."""

from __future__ import annotations

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.common.printable import printable
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.ledger.ledger import CHAMPION
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.store import Workplace


def with_found(evaluation: Evaluation, gateway: Gateway, *, watch_champion: bool) -> Evaluation:
    """Add the versions that `registered_candidates` finds to the candidates of the file.

    A version that the file names is not added again, and the champion is not: it is what the
    others are compared with.

    `watch_champion`: whether the champion is measured too, so that there may be no candidate.
    """
    wanted, model = evaluation.registered_candidates, evaluation.registered_model
    if wanted is None or model is None:
        return evaluation
    champion = gateway.alias(model, CHAMPION)
    known = {
        gateway.resolve(candidate.uri).uri for candidate in evaluation.candidates if candidate.uri
    }
    known |= {champion.uri} if champion else set()
    versions = wanted.versions(model, gateway, known)
    found = [wanted.candidate(model, version.version) for version in versions]
    candidates = [*evaluation.candidates, *found]
    names = [candidate.name for candidate in candidates]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        msg = (
            f"candidate {twice} must have another name: a version that `registered_candidates` "
            "found has this one."
        )
        raise InputError(msg)
    if not candidates and not (watch_champion and champion):
        lacks = "no champion to measure" if watch_champion else "nothing to judge"
        msg = (
            f"a version of {model} other than the champion must have {printable(str(wanted))}; "
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
    say(f"versions found in the registry: {', '.join(map(str, named)) or 'none'}")
    return found
