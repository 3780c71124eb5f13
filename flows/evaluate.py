"""Measure candidates on evaluation sets, judge them, and promote the best that passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import flow, runtime, unmapped

from biasgate.flows.own_runs import apply_file_settings, record_own_run
from biasgate.flows.score import look_up_rivals, score_all_models, score_rivals
from biasgate.flows.stages import stage, time_stages
from biasgate.flows.states import conclude
from biasgate.tasks.analysing.analyse import analyse_rows, check_analyses
from biasgate.tasks.analysing.analysis import Analysis
from biasgate.tasks.common.own_folders import own_folder, redirect_temporary_files
from biasgate.tasks.common.progress import show_progress
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.evidence.join import gather_evidence
from biasgate.tasks.gating.policy_check import check_policy
from biasgate.tasks.gating.verdict import decide_candidate
from biasgate.tasks.measuring.explaining import explain_bias
from biasgate.tasks.measuring.identities import (
    Measured,
    count_missing,
    count_truncated,
    list_identities,
    measure_identity,
    summarise_identities,
)
from biasgate.tasks.promoting.decisions import promote_best
from biasgate.tasks.promoting.pinned import read_ledger_context
from biasgate.tasks.promoting.rivals import Rivals, RivalScores, decide_watched_champion
from biasgate.tasks.reading_evaluation import (
    find_candidates,
    notify_of_crash,
    plan_downloads,
    read_evaluation_file,
    remember_failed_night,
)
from biasgate.tasks.records import Context, Decided, LoggedVerdict, Summary
from biasgate.tasks.records.trend import Trend
from biasgate.tasks.remembering.trend import remember_night
from biasgate.tasks.reporting.figures import draw_figures
from biasgate.tasks.reporting.model_card import write_model_card
from biasgate.tasks.reporting.notifications import notify_people
from biasgate.tasks.reporting.page.writing import write_candidate_page, write_evaluation_page
from biasgate.tasks.reporting.publish import (
    RESULTS,
    check_output,
    check_places,
    make_folder,
    publish_results,
    summarise_evaluation,
    write_submission_file,
)
from biasgate.tasks.reporting.report import write_report
from biasgate.tasks.reporting.version_tags import describe_version
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking.log_runs import (
    close_evaluation_run,
    log_candidate_run,
    log_stage_seconds,
    track_evaluation_run,
)
from biasgate.tasks.tracking.prefect_pages import find_report_address, show_results
from biasgate.tasks.tracking.resume import EvaluationRun, find_promotion
from biasgate.tasks.tracking.set_uses import count_set_uses


@flow(
    name="evaluate",
    flow_run_name="evaluate {config}",
    on_running=[record_own_run],
    on_failure=[notify_of_crash, remember_failed_night],
    on_crashed=[notify_of_crash, remember_failed_night],
)
def evaluate(
    config: str,
    output: str,
    store: str,
    *,
    submission: bool = False,
    outcome_of: list[str] | None = None,
    overwrite: bool = False,
    yes: bool = False,
    night: bool = False,
    withheld: str | None = None,
    sample: int | None = None,
) -> Any:
    """Measure every candidate of an evaluation file on every set, judge and promote.

    The flow first checks that results can be written, and reads and checks the evaluation file,
    the policy and their inputs. Its stages are nested flows:

    1. `freeze` the evaluation sets; check that they can be measured, analysed and judged by the
       policy
    2. `score`: find the candidates in the registry; train the candidates that the file trains; pin
       registered candidates to a version; score every candidate, champion and reference on every
       set. Kept scores are reused, and on a cluster all workers score. A candidate that fails does
       not stop the others
    3. `measure` each identity in its own task, then the aggregates; run further analyses; write
       report, table and figures
    4. `judge`: compare all candidates with the current champion, and decide; log an MLflow run per
       set and candidate; publish `output/<set>/<candidate>/`; move `champion` to the best
       candidate that passed on every required set, if the policy allows the replacement
    5. `publish` the overall outcome; for a night, also the significant changes since earlier nights

    The stage `publish` counts the candidates that each set has judged, and writes `summary.json`,
    `junit.xml` and the page `report.html`. At the end, the flow logs the seconds of each stage,
    shows the results on Prefect's pages, and sends notifications (also after a crash).

    Parameters
    ----------
    config : str
        Path of the evaluation file, or the name of an included evaluation.
    output : str
        Folder for the results; it stays empty unless a candidate was measured.
    store : str
        Folder of frozen sets, scores and, by default, the MLflow store.
    outcome_of : list of str, optional
        Candidates that decide the outcome of the evaluation. Default: as in the file, or all.
    overwrite : bool, default=False
        Replace the results of another evaluation in `output`; otherwise that is refused.
    yes : bool, default=False
        Send comments to services that have a price or limits without asking.
    night : bool, default=False
        Also measure the champion if it is not a candidate (it keeps the verdict of its
        promotion); compare with earlier nights, and record this night.
    withheld : str, optional
        Reason to keep the champion whatever passes. Default: the policy decides.
    sample : int, optional
        Approximate number of rows of a fixed random sample of each set, including training sets,
        for a first look: a champion is not replaced. Default: as in the evaluation file.

    Returns
    -------
    Summary or State
        The flow's state is Completed, named `Passed`, `Blocked`, `Undecided`, `Error` or, if the
        policy only reports, `Reported`.
    """
    with redirect_temporary_files(), apply_file_settings(config, store), time_stages() as seconds:
        check_places(output, store)
        evaluation = read_evaluation_file(config, outcome_of, sample)
        check_output(output, evaluation.name, overwrite=overwrite)
        workplace = Workplace(Path(store))
        file_names = {candidate.name for candidate in evaluation.candidates}
        evaluation = find_candidates(evaluation, workplace, watch_champion=night)
        names = [candidate.name for candidate in evaluation.candidates]
        frozen = freeze_sets(evaluation, workplace)
        scored = score_all_models(
            evaluation, frozen, workplace, unlisted=set(names) - file_names, night=night, yes=yes
        )
        key = f"evaluate-{runtime.flow_run.id}"
        with (
            own_folder(workplace.store / "work") as folder,
            track_evaluation_run(config, evaluation, scored.scores, key, workplace) as run,
        ):
            all_candidates = [*scored.candidates, *scored.watched]
            measured = measure_candidates(
                all_candidates,
                scored.scores,
                evaluation,
                frozen,
                scored.rivals,
                str(folder),
                submission=submission,
            )
            n_candidates = len(scored.candidates)
            judged, watched = measured[:n_candidates], measured[n_candidates:]
            is_first_look = sample is not None
            decided = judge_candidates(
                judged, watched, evaluation, run, output, withheld, is_first_look=is_first_look
            )
            summary, trend, page = publish_evaluation(
                measured,
                decided.add_failed(scored.failed),
                evaluation,
                run,
                output,
                outcome_of=evaluation.outcome_of or names,
                night=night,
                config=config,
                store=store,
                sample=sample,
            )
            log_stage_seconds(run, seconds)
        show_results(summary, output, run)
        address = find_report_address(run, page) if night else None
        notify_people(evaluation.notifications, summary, output, trend, address)
        return conclude(summary)


@stage("freeze")
def freeze_sets(evaluation: Evaluation, workplace: Workplace) -> list[str]:
    """Freeze the evaluation sets; check that they can be measured, judged and analysed.

    Planned downloads are reported first.
    """
    plan_downloads(evaluation, workplace)
    frozen = [freeze_evaluation_set(source, workplace) for source in evaluation.evaluation_sets]
    for source, rows in zip(evaluation.evaluation_sets, frozen, strict=True):
        check_policy(evaluation.policy, source, rows)
        check_analyses(evaluation.list_set_analyses(source.name), source, rows)
    return frozen


@stage("publish")
def publish_evaluation(
    measured: list[list[Measured]],
    decided: Decided,
    evaluation: Evaluation,
    run: EvaluationRun,
    output: str,
    *,
    outcome_of: Sequence[str],
    night: bool,
    config: str,
    store: str,
    sample: int | None,
) -> tuple[Summary, Trend | None, str]:
    """Write summary and page, close the evaluation's run in MLflow, and compare a night.

    Returns
    -------
    tuple
        The summary, the comparison with earlier nights or None, and the address of the page.
    """
    trend = None
    if night:
        trend = remember_night(
            measured,
            decided,
            run.run_id,
            output,
            evaluation=evaluation.name,
            n_before=evaluation.trend_nights,
            workplace=run.workplace,
        )
    summary = summarise_evaluation(
        decided,
        run.run_id,
        output,
        evaluation=evaluation.name,
        outcome_of=outcome_of,
        report_only=evaluation.policy.report_only,
        sets=count_set_uses(decided.verdicts, run),
        store=store,
        config=config,
        sample=sample,
        moved=() if trend is None else trend.moved,
    )
    page = write_evaluation_page(summary, output)
    close_evaluation_run(run, summary, page)
    return summary, trend, page


@stage("measure", spread=True)
def measure_candidates(
    candidates: Sequence[CandidateSettings],
    scored: Sequence[list[str]],
    evaluation: Evaluation,
    frozen: list[str],
    rivals: list[RivalScores],
    work: str,
    *,
    submission: bool,
) -> list[list[Measured]]:
    """Measure every candidate on every set, in folders within `work`.

    `scored` has the folders of scores of each candidate, per set.
    """
    return [
        [
            measure_candidate(
                source,
                candidate,
                rows,
                scores,
                rival_scores,
                work,
                evaluation.list_set_analyses(source.name),
                submission=submission,
            )
            for source, rows, scores, rival_scores in zip(
                evaluation.evaluation_sets, frozen, candidate_scores, rivals, strict=True
            )
        ]
        for candidate, candidate_scores in zip(candidates, scored, strict=True)
    ]


def measure_candidate(
    source: SourceSettings,
    candidate: CandidateSettings,
    rows: str,
    scores: str,
    rivals: RivalScores,
    work: str,
    analyses: list[Analysis],
    *,
    submission: bool,
) -> Measured:
    """Measure a candidate on a set.

    - gather the rows, the candidate's scores and its rivals' scores in a single file, from which
      anyone can recompute the verdict; all later steps read it
    - measure each identity in its own task; more than 32 identities share 32 tasks
    - compute overall and aggregate numbers
    - count the comments without a score, and the truncated comments
    - find significantly low AUCs; count errors at thresholds and by term
    - run the analyses of the evaluation file, each in its own task
    - write the report and its table, draw the figures
    """
    folder = make_folder(work, RESULTS, source.name, candidate.name)
    evidence = gather_evidence(rows, scores, rivals, source, folder)
    shares = list_identities(evidence)
    description = f"measuring {candidate.name} on {source.name}"
    with show_progress(description, total=len(evidence.identities), unit="identities") as advance:
        futures = measure_identity.map(
            list(shares), list(shares.values()), evidence=unmapped(evidence)
        )
        for future, identities in zip(futures, shares.values(), strict=True):
            future.wait()
            advance(len(identities))
    bias = summarise_identities(futures.result(), evidence)
    missing, truncated = count_missing(evidence, scores), count_truncated(evidence)
    explained = explain_bias(bias, candidate.threshold, evidence, rows)
    analysed = analyse_rows.map(
        analyses,
        evidence=unmapped(evidence),
        set_folder=unmapped(rows),
        source=unmapped(source),
    ).result()
    report = write_report(
        explained, analysed, candidate, rows, scores, evidence, missing, truncated
    )
    draw_figures(report, evidence)
    evidence.release()
    if submission:
        write_submission_file(scores, folder)
    return Measured(source, candidate, rows, scores, folder, report)


ATTEMPTS = 5  # a promotion by another process meanwhile requires another attempt


@stage("judge")
def judge_candidates(
    measured: list[list[Measured]],
    watched: list[list[Measured]],
    evaluation: Evaluation,
    run: EvaluationRun,
    output: str,
    withheld: str | None,
    *,
    is_first_look: bool,
) -> Decided:
    """Return every candidate's verdict on every set, and the decision on each candidate.

    `watched` is the champion, if it is measured but is not a candidate: it gets a current verdict,
    and no decision. If this evaluation promoted a candidate before it was killed, that result is
    kept.

    - look up the current champion and reference, and score them (kept scores are reused)
    - look up the last entry of the ledger
    - judge each candidate against champion and reference, describe its version, publish its results
    - move `champion` to the best candidate that passed, if the policy allows the replacement and
      promotion is not `withheld`; start again if another process moved `champion` meanwhile
    """
    model, policy = evaluation.registered_model, evaluation.policy
    candidates = [on_sets[0].candidate for on_sets in measured]
    for _ in range(ATTEMPTS):
        promoted = find_promotion(measured, model, policy, run)
        if promoted is not None:
            publish_results(measured, output)
            return promoted
        rivals = look_up_rivals(evaluation, candidates, run.workplace)
        rival_scores = [
            score_rivals(rivals, on_set.rows, run.workplace) for on_set in (*measured, *watched)[0]
        ]
        context = read_ledger_context(model, policy, evaluation.required_sets, run.workplace)
        all_verdicts = [
            [
                judge_on_set(on_set, rivals, scores, context, evaluation, run, output)
                for on_set, scores in zip(on_sets, rival_scores, strict=True)
            ]
            for on_sets in (*measured, *watched)
        ]
        verdicts, watched_verdicts = all_verdicts[: len(measured)], all_verdicts[len(measured) :]
        for candidate, on_sets in zip(candidates, measured, strict=True):
            describe_version(candidate, on_sets, model, policy, run.workplace)
        publish_results([*measured, *watched], output)
        decisions = promote_best(
            candidates,
            verdicts,
            model,
            policy,
            run.workplace,
            withheld,
            is_first_look=is_first_look,
        )
        if not any(decision.champion_moved for decision in decisions):
            break
    decisions += map(decide_watched_champion, watched_verdicts)
    return Decided([verdict for on_sets in all_verdicts for verdict in on_sets], decisions)


def judge_on_set(
    measured: Measured,
    rivals: Rivals,
    scores: RivalScores,
    context: Context,
    evaluation: Evaluation,
    run: EvaluationRun,
    output: str,
) -> LoggedVerdict:
    """Return the logged verdict on a set.

    - gather the scores again if a rival has changed
    - decide; write the model card and the page
    - log all results as an MLflow run
    """
    policy, n_candidates = evaluation.policy, max(1, len(evaluation.candidates))
    evidence = gather_evidence(
        measured.rows, measured.scores, scores, measured.source, measured.folder
    )
    verdict = decide_candidate(measured, evidence, rivals, policy, n_candidates, context)
    write_model_card(measured, verdict, evaluation.model_card, policy.promote)
    write_candidate_page(measured, verdict, evidence, output, str(run.workplace.store))
    evidence.release()
    return log_candidate_run(measured, verdict, run)
