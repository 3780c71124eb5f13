"""Judge all candidates against the current champion, and promote the best one that passed."""

from __future__ import annotations

from typing import Any

from biasgate.tasks.gating.evidence import gather_evidence
from biasgate.tasks.gating.verdict import decide_candidate
from biasgate.tasks.promoting.decisions import promote_best
from biasgate.tasks.promoting.rivals import pin_rivals
from biasgate.tasks.reporting.model_card import describe_version, write_model_card
from biasgate.tasks.reporting.publish import publish_results
from biasgate.tasks.scoring.scored import score_candidate
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking.log_runs import log_candidate_run
from biasgate.tasks.tracking.resume import find_promotion

# Every time somebody else promotes while the candidates are judged, they are judged again.
ATTEMPTS = 5


def judge_candidates(
    candidates: list[dict[str, Any]],
    measured: list[list[dict[str, Any]]],
    evaluation: dict[str, Any],
    run: str,
    workplace: Workplace,
    work: str,
    output: str,
) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return every candidate's verdict on every set, and what became of each candidate.

    If this evaluation promoted a candidate already (before it was killed), keep that result.

    - look up the current champion and reference
    - steps 5 and 6 of the pipeline: judge each candidate against them, describe its version,
      publish its results
    - step 7: move `champion` to the best one that passed, if the policy lets it replace the
      champion; if somebody else moved `champion` meanwhile, start again
    """
    for _ in range(ATTEMPTS):
        promoted = find_promotion(candidates, measured, evaluation, run, workplace)
        if promoted is not None:
            publish_results(candidates, work, output)
            return promoted
        rivals = pin_rivals(evaluation, candidates, workplace)
        verdicts = [
            judge_candidate(candidate, on_sets, rivals, evaluation, run, workplace)
            for candidate, on_sets in zip(candidates, measured, strict=True)
        ]
        publish_results(candidates, work, output)
        decisions = promote_best(candidates, verdicts, evaluation, workplace)
        if not any(one["champion_moved"] for one in decisions):
            break
    return verdicts, decisions


def judge_candidate(
    candidate: dict[str, Any],
    measured: list[dict[str, Any]],
    rivals: dict[str, dict[str, Any]],
    evaluation: dict[str, Any],
    run: str,
    workplace: Workplace,
) -> list[dict[str, Any]]:
    """Return a candidate's verdict on every set.

    - on each set: compare, decide, log one MLflow run
    - describe the registered version by its model cards
    """
    verdicts = [judge_on_set(one, rivals, evaluation, run, workplace) for one in measured]
    describe_version(candidate, [one["folder"] for one in measured], workplace)
    return verdicts


def judge_on_set(
    measured: dict[str, Any],
    rivals: dict[str, dict[str, Any]],
    evaluation: dict[str, Any],
    run: str,
    workplace: Workplace,
) -> dict[str, Any]:
    """Return the verdict on one set, logged.

    - score champion and reference on the same rows (kept scores are reused)
    - step 5: gather rows and scores in one file, from which anybody can recompute the verdict;
      decide, write the model card
    - step 6: log all of it as one MLflow run
    """
    report, folder = measured["report"], measured["folder"]
    scores = {
        role: score_candidate(one, measured["rows"], workplace) for role, one in rivals.items()
    }
    evidence = gather_evidence(
        measured["layout"], measured["rows"], measured["scores"], scores, folder
    )
    verdict = decide_candidate(report, evidence, evaluation, rivals, folder)
    write_model_card(report, verdict, evaluation, folder)
    return log_candidate_run(report, verdict, folder, run, workplace)
