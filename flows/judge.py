"""Judge one candidate against the champion of now, and promote it if it passed."""

from __future__ import annotations

from typing import Any

from tasks.evidence import gather_evidence
from tasks.gating import decide_candidate
from tasks.model_card import describe_version, write_model_card
from tasks.promotion import promote_candidate
from tasks.publishing import publish_results
from tasks.resuming import find_promotion
from tasks.rivals import pin_rivals
from tasks.scoring.scored import score_candidate
from tasks.tracking import log_candidate_run

# Every time somebody else promotes while this candidate is judged, it is judged anew.
ATTEMPTS = 5


def judge_candidate(
    candidate: dict[str, Any],
    measured: list[dict[str, Any]],
    candidates: list[dict[str, Any]],
    evaluation: dict[str, Any],
    run: str,
    store: str,
    work: str,
    output: str,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a candidate's verdict on every set, and what became of `champion`.

    1. if this evaluation promoted it before it was killed, leave it at that
    2. look up champion and reference as they are now
    3. on each set: compare, decide, log one MLflow run
    4. describe the registered version by its model cards; publish the results
    5. move `champion` if the candidate passed; if that moved meanwhile, from step 2
    """
    promoted = find_promotion(candidate, measured, run, store)
    if promoted is not None:
        publish_results(candidate, work, output)
        return promoted
    for _ in range(ATTEMPTS):
        rivals = pin_rivals(evaluation, candidates, store)
        verdicts = [judge_on_set(one, rivals, evaluation, run, store) for one in measured]
        describe_version(candidate, [one["folder"] for one in measured], store)
        publish_results(candidate, work, output)
        decision = promote_candidate(candidate, verdicts, evaluation, store)
        if not decision["champion_moved"]:
            break
    return verdicts, decision


def judge_on_set(
    measured: dict[str, Any],
    rivals: dict[str, dict[str, Any]],
    evaluation: dict[str, Any],
    run: str,
    store: str,
) -> dict[str, Any]:
    """Return the verdict on one set, logged.

    1. score the rivals on the same rows (kept scores are reused)
    2. gather rows and scores in one file, from which anybody can decide again
    3. decide, write the model card; log all of it as one MLflow run
    """
    report, folder = measured["report"], measured["folder"]
    scores = {role: score_candidate(one, measured["rows"], store) for role, one in rivals.items()}
    evidence = gather_evidence(
        measured["layout"], measured["rows"], measured["scores"], scores, folder
    )
    verdict = decide_candidate(report, evidence, evaluation, rivals, folder)
    write_model_card(report, verdict, evaluation, folder)
    return log_candidate_run(report, verdict, folder, run, store)
