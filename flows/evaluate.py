"""Measure candidates on evaluation sets, judge them, promote the ones that pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import flow, runtime, unmapped

from biasgate.flows.own_runs import own_run, steps_of
from biasgate.flows.score import look_up_rivals, score_everyone, score_rivals
from biasgate.flows.stages import stage, timed_stages
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
from biasgate.tasks.reporting.page.writing import (
    write_candidate_page,
    write_evaluation_page,
)
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
    evaluation_run,
    log_candidate_run,
    log_stage_seconds,
)
from biasgate.tasks.tracking.prefect_pages import report_address, show_results
from biasgate.tasks.tracking.resume import EvaluationRun, find_promotion
from biasgate.tasks.tracking.set_uses import count_set_uses


@flow(
    name="evaluate",
    flow_run_name="evaluate {config}",
    on_running=[own_run],
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

    First it checks that results can be written, and reads and checks the evaluation file, the
    policy and the inputs that they name.

    Its stages are flows within this one:

    1. `freeze` the evaluation sets; check that they can be measured and analysed, and judged by
       the policy
    2. `score`: find the registered versions that are candidates; train the candidates that are
       trained here; pin registered ones to a version; score every candidate, champion and
       reference on every set (kept scores are reused; on a cluster all workers score); the others
       are judged without a candidate that fails
    3. `measure` each identity in its own task, then the aggregates; do further analyses; write
       report, table and figures
    4. `judge`: compare all candidates with the current champion, and decide; log one MLflow run
       per set and candidate; publish `output/<set>/<candidate>/`; move `champion` to the best of
       those that passed on every required set, if the policy lets it replace the champion
    5. `publish` the outcome of all; of a night: what changed since the nights before, and whether
       by more than chance

    At the end it counts which candidates each set has judged, writes `summary.json`, `junit.xml`
    and the page `report.html`, logs the seconds of each stage, shows the results on Prefect's
    pages, and sends notifications (also after a crash).

    Parameters
    ----------
    config : str
        Path of the evaluation file, or the name of an included evaluation.
    output : str
        Folder for the results; nothing is written there unless a candidate was measured.
    store : str
        Folder of frozen sets, scores and, by default, the MLflow store.
    outcome_of : list of str, optional
        Candidates whose outcome counts for the evaluation; default: those that the file names,
        or else all.
    overwrite : bool, default=False
        Replace the results of another evaluation in `output`; otherwise that is refused.
    yes : bool, default=False
        Send comments to services that have a price or limits without asking.
    night : bool, default=False
        Measure the champion, too, if it is no candidate (it keeps the verdict of its
        promotion); compare with the nights before, and remember this one.
    withheld : str, optional
        Why `champion` does not move, whatever passes. Default: the policy decides.
    sample : int, optional
        Use a fixed random part of about this many rows of each set, training sets included, for a
        first look: a champion is not replaced. Default: as the evaluation file says.

    Returns
    -------
    Summary or State
        The flow's state is Completed, named `Passed`, `Blocked`,
        `Undecided`, `Error` or, where the policy only reports, `Reported`.
    """
    with redirect_temporary_files(), steps_of(config, store), timed_stages() as seconds:
        check_places(output, store)
        evaluation = read_evaluation_file(config, outcome_of, sample)
        check_output(output, evaluation.name, overwrite=overwrite)
        workplace = Workplace(Path(store))
        named = {candidate.name for candidate in evaluation.candidates}
        evaluation = find_candidates(evaluation, workplace, watch_champion=night)
        names = [candidate.name for candidate in evaluation.candidates]
        frozen = freeze_sets(evaluation, workplace)
        scored = score_everyone(
            evaluation, frozen, workplace, found=set(names) - named, night=night, yes=yes
        )
        key = f"evaluate-{runtime.flow_run.id}"
        with (
            own_folder(workplace.store / "work") as folder,
            evaluation_run(config, evaluation, scored.scores, key, workplace) as run,
        ):
            everyone = [*scored.candidates, *scored.watched]
            measured = measure_candidates(
                everyone,
                scored.scores,
                evaluation,
                frozen,
                scored.rivals,
                str(folder),
                submission=submission,
            )
            n_candidates = len(scored.candidates)
            judged, watched = measured[:n_candidates], measured[n_candidates:]
            decided = judge_candidates(
                judged,
                watched,
                evaluation,
                run,
                output,
                withheld,
                is_first_look=sample is not None,
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
        address = report_address(run, page) if night else None
        notify_people(evaluation.notifications, summary, output, trend, address)
        return conclude(summary)


@stage("freeze")
def freeze_sets(evaluation: Evaluation, workplace: Workplace) -> list[str]:
    """Freeze the evaluation sets; check that they can be measured, judged and analysed.

    First it reports what will be downloaded.
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
    """Write summary and page, and close the evaluation's run in MLflow; of a night, compare it.

    Returns
    -------
    tuple
        The summary, how the night compares with those before, and the address of the page.
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
    """Measure every candidate, `scored` on every set, in folders within `work`."""
    return [
        [
            measure_candidate(
                source,
                candidate,
                rows,
                scores,
                against,
                work,
                evaluation.list_set_analyses(source.name),
                submission=submission,
            )
            for source, rows, scores, against in zip(
                evaluation.evaluation_sets, frozen, of_candidate, rivals, strict=True
            )
        ]
        for candidate, of_candidate in zip(candidates, scored, strict=True)
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
    """Measure one candidate on one set.

    - gather the rows, the candidate's scores and those of its rivals in one file, from which
      anyone can recompute the verdict; all that follows reads it
    - measure each identity in its own task; more than 32 identities share 32 tasks
    - compute overall and aggregate numbers
    - count the comments that have no score, and those that the model truncated
    - find significantly low AUCs, count errors at thresholds and by term
    - do the analyses that the file asks for, each in its own task
    - write the report and its table, draw the figures
    """
    folder = make_folder(work, RESULTS, source.name, candidate.name)
    evidence = gather_evidence(rows, scores, rivals, source, folder)
    shares = list_identities(evidence)
    what = f"measuring {candidate.name} on {source.name}"
    with show_progress(what, total=len(evidence.identities), unit="identities") as advance:
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
    *,
    is_first_look: bool = False,
) -> Decided:
    """Return every candidate's verdict on every set, and the decision on each candidate.

    `watched` is the champion, if it is measured without being a candidate: the policy says how it
    does now, and nothing is decided about it.

    If this evaluation promoted a candidate already (before it was killed), keep that result.

    - look up the current champion and reference, and score them (kept scores are reused)
    - look up the last entry of the ledger
    - judge each candidate against them, describe its version, publish its results
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
        context = read_ledger_context(model, policy, evaluation.required_sets, run.workplace)
        every = [
            [
                judge_on_set(on_set, rivals, scores, context, evaluation, run, output)
                for on_set, scores in zip(on_sets, against, strict=True)
            ]
            for on_sets in (*measured, *watched)
        ]
        verdicts, of_watched = every[: len(measured)], every[len(measured) :]
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
    decisions += map(decide_watched_champion, of_watched)
    return Decided([verdict for on_sets in every for verdict in on_sets], decisions)


def judge_on_set(
    measured: Measured,
    rivals: Rivals,
    scores: RivalScores,
    context: Context,
    evaluation: Evaluation,
    run: EvaluationRun,
    output: str,
) -> LoggedVerdict:
    """Return the verdict on one set, logged.

    - if a rival is another one by now, gather its scores too
    - decide, write the model card and the page
    - log all of it as one MLflow run
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
