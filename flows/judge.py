"""Judge all candidates against the current champion, and promote the best one that passed."""

from __future__ import annotations

from biasgate.flows.score import look_up_rivals, score_rivals
from biasgate.flows.stages import stage
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.evidence.join import gather_evidence
from biasgate.tasks.gating.verdict import decide_candidate
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.promoting.decisions import promote_best
from biasgate.tasks.promoting.earlier_nights import pool_nights_of
from biasgate.tasks.promoting.pinned import look_at_ledger
from biasgate.tasks.promoting.rivals import Rivals, decision_on_watched
from biasgate.tasks.promoting.spending import RivalScores, Shares, count_decisions, with_share
from biasgate.tasks.records import Context, Decided, LoggedVerdict
from biasgate.tasks.reporting.model_card import write_model_card
from biasgate.tasks.reporting.page.writing import write_candidate_page
from biasgate.tasks.reporting.publish import publish_results
from biasgate.tasks.reporting.version_tags import describe_version
from biasgate.tasks.tracking.log_runs import log_candidate_run
from biasgate.tasks.tracking.resume import EvaluationRun, find_promotion

# The candidates are judged again each time another process promotes meanwhile.
ATTEMPTS = 5


@stage("judge")
def judge_candidates(
    measured: list[list[Measured]],
    watched: list[list[Measured]],
    evaluation: Evaluation,
    run: EvaluationRun,
    output: str,
    withheld: str | None = None,
) -> Decided:
    """Return every candidate's verdict on every set, and the decision on each candidate.

    `watched` is the champion, if it is measured without being a candidate: the policy says how it
    does now, and nothing is decided about it.

    If this evaluation promoted a candidate already (before it was killed), keep that result.

    - look up the current champion and reference, and score them (kept scores are reused)
    - have the ledger count the decisions of the year, if the policy says so; look up its last entry
    - judge each candidate against them, describe its version,
      publish its results
    - move `champion` to the best one that passed, if the policy lets it replace the
      champion and nothing is `withheld`; if another process moved `champion` meanwhile, start again
    """
    model, policy = evaluation.registered_model, evaluation.policy
    candidates = [on_sets[0].candidate for on_sets in measured]
    for _ in range(ATTEMPTS):
        promoted = find_promotion(measured, model, policy, run)
        if promoted is not None:
            publish_results(measured, output)
            return promoted
        rivals = look_up_rivals(evaluation, candidates, run.workplace)
        against = [
            score_rivals(rivals, one.rows, run.workplace) for one in (*measured, *watched)[0]
        ]
        shares = {}
        if measured and policy.spending is not None and model is not None:
            shares = count_decisions(measured, rivals, against, model, policy, run.workplace)
        context = look_at_ledger(model, policy, evaluation.required_sets, run.workplace)
        verdicts = [
            judge_candidate(on_sets, rivals, against, context, shares, evaluation, run)
            for on_sets in measured
        ]
        beside = [
            [
                judge_on_set(on_set, rivals, scores, context, evaluation, run)
                for on_set, scores in zip(on_sets, against, strict=True)
            ]
            for on_sets in watched
        ]
        publish_results([*measured, *watched], output)
        decisions = promote_best(candidates, verdicts, model, policy, run.workplace, withheld)
        if not any(decision.champion_moved for decision in decisions):
            break
    decisions += [decision_on_watched(one) for one in beside]
    return Decided([on_set for on_sets in (*verdicts, *beside) for on_set in on_sets], decisions)


def judge_candidate(
    measured: list[Measured],
    rivals: Rivals,
    against: list[RivalScores],
    context: Context,
    shares: Shares,
    evaluation: Evaluation,
    run: EvaluationRun,
) -> list[LoggedVerdict]:
    """Return a candidate's verdict on every set.

    - on each set: compare, decide, log one MLflow run
    - describe the registered version by its model cards
    """
    context = with_share(context, measured[0].candidate.name, shares)
    verdicts = [
        judge_on_set(one, rivals, scores, context, evaluation, run)
        for one, scores in zip(measured, against, strict=True)
    ]
    model, policy = evaluation.registered_model, evaluation.policy
    describe_version(measured[0].candidate, measured, model, policy, run.workplace)
    return verdicts


def judge_on_set(
    measured: Measured,
    rivals: Rivals,
    scores: RivalScores,
    context: Context,
    evaluation: Evaluation,
    run: EvaluationRun,
) -> LoggedVerdict:
    """Return the verdict on one set, logged.

    - if a rival is another one by now, gather its scores too
    - if the set pools nights, add the rows of earlier nights
    - decide, write the model card and the page
    - log all of it as one MLflow run
    """
    policy, n_candidates = evaluation.policy, max(1, len(evaluation.candidates))
    evidence = gather_evidence(
        measured.rows, measured.scores, scores, measured.source, measured.folder
    )
    if measured.source.pool_nights is not None:
        evidence = pool_nights_of(measured, evidence, policy, n_candidates, run.workplace)
    verdict = decide_candidate(measured, evidence, rivals, policy, n_candidates, context)
    write_model_card(measured, verdict, evaluation.model_card, policy.promote)
    write_candidate_page(measured, verdict, evidence, evaluation.language)
    evidence.release()
    return log_candidate_run(measured, verdict, run)
