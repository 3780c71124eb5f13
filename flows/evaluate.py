"""Measure candidates on evaluation sets, judge them, promote the ones that pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, runtime, unmapped

from biasgate.flows.judge import judge_candidates, look_up_rivals, score_rivals
from biasgate.flows.own_runs import own_run
from biasgate.flows.score import score_candidates
from biasgate.flows.states import conclude
from biasgate.flows.time_limits import steps_of
from biasgate.flows.train import prepare_candidates
from biasgate.tasks.analysing.analyse import analyse_rows, check_analyses
from biasgate.tasks.analysing.analysis import Analysis
from biasgate.tasks.common.own_folders import own_folder, temporary_files
from biasgate.tasks.common.prefect_task import task_runner
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.join import gather_evidence
from biasgate.tasks.finding_candidates import find_candidates
from biasgate.tasks.gating.policy_check import check_policy
from biasgate.tasks.measuring.diagnosis import explain_bias
from biasgate.tasks.measuring.identities import (
    list_identities,
    measure_identity,
    summarise_identities,
)
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.measuring.missing import count_missing
from biasgate.tasks.promoting.earlier_nights import check_nights
from biasgate.tasks.promoting.rivals import champion_to_watch
from biasgate.tasks.promoting.spending import RivalScores
from biasgate.tasks.reading_evaluation import notify_of_crash, read_evaluation_file
from biasgate.tasks.remembering.trend import remember_night
from biasgate.tasks.reporting.figures import draw_figures
from biasgate.tasks.reporting.notifications import notify_people
from biasgate.tasks.reporting.page.writing import (
    check_texts,
    quote_comments,
    write_evaluation_page,
)
from biasgate.tasks.reporting.publish import (
    RESULTS,
    check_output,
    check_places,
    make_folder,
    summarise_evaluation,
    write_submission_file,
)
from biasgate.tasks.reporting.report import write_report
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored import score_candidate
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking.log_runs import close_evaluation_run, evaluation_run
from biasgate.tasks.tracking.prefect_pages import report_address, show_results
from biasgate.tasks.tracking.set_uses import count_set_uses


@flow(
    name="evaluate",
    flow_run_name="evaluate {config}",
    task_runner=task_runner(),
    on_running=[own_run],
    on_failure=[notify_of_crash],
    on_crashed=[notify_of_crash],
)
def evaluate(
    config: str,
    output: str,
    store: str,
    *,
    submission: bool = False,
    with_texts: bool = False,
    outcome_of: list[str] | None = None,
    overwrite: bool = False,
    yes: bool = False,
    night: bool = False,
    withheld: str | None = None,
) -> Any:
    """Measure every candidate of an evaluation file on every set, judge and promote.

    First it checks that results can be written, and reads and checks the evaluation file, the
    policy and the inputs that they name.

    1. freeze the evaluation sets; check that they can be measured and analysed, and judged by
       the policy
    2. find the registered versions that are candidates; train the candidates that are trained
       here; pin registered ones to a version; refuse rows
       that an earlier night had, where nights are pooled; score every candidate, champion and
       reference on every set (kept scores are reused; on a cluster all workers score); the
       others are judged without a candidate that fails
    3. measure each identity in its own task, then the aggregates; do further analyses
    4. write report, table and figures
    5. compare all candidates with the current champion, and decide
    6. log one MLflow run per set and candidate; publish `output/<set>/<candidate>/`
    7. move `champion` to the best of those that passed on every required set, if the policy
       lets it replace the champion
    8. of a night: what changed since the nights before, and whether by more than chance

    At the end it counts which candidates each set has judged, writes `summary.json`, `junit.xml`
    and the page `report.html`, shows the results on Prefect's pages, and sends notifications
    (also after a crash).

    Parameters
    ----------
    output : str
        Folder for the results; nothing is written there unless a candidate was measured.
    store : str
        Folder of frozen sets, scores and, by default, the MLflow store.
    with_texts : bool, default=False
        Quote the comments that tell most in `output/report.html`, and nowhere else.
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

    Returns
    -------
    Summary or State
        The flow's state is Completed, named `Passed`, `Blocked`,
        `Insufficient`, `Error` or, where the policy only reports, `Reported`.
    """
    with temporary_files(), steps_of(config, store):
        check_places(output, store)
        evaluation = read_evaluation_file(config, outcome_of)
        check_output(output, evaluation.name, overwrite=overwrite)
        workplace = Workplace(Path(store))
        named = {candidate.name for candidate in evaluation.candidates}
        evaluation = find_candidates(evaluation, workplace, watch_champion=night)
        sources, policy = evaluation.evaluation_sets, evaluation.policy
        if with_texts:
            check_texts(sources)
        frozen = [freeze_evaluation_set(source, workplace) for source in sources]
        for source, rows in zip(sources, frozen, strict=True):
            check_policy(policy, source, rows)
            check_analyses(evaluation.analyses_of(source.name), source, rows)
        candidates = prepare_candidates(evaluation, workplace)
        rivals = look_up_rivals(evaluation, candidates, workplace)
        watched = champion_to_watch(rivals, candidates) if night else []
        for source, rows in zip(sources, frozen, strict=True):
            check_nights([*candidates, *watched], source, rows, rivals, policy, workplace)
        names = [candidate.name for candidate in candidates]
        scored = score_candidates(
            candidates,
            rivals,
            frozen,
            workplace,
            found=set(names) - named,
            watched=bool(watched),
            yes=yes,
        )
        candidates = scored.candidates
        against = [score_rivals(rivals, rows, workplace) for rows in frozen]
        key = f"evaluate-{runtime.flow_run.id}"
        with (
            own_folder(workplace.store / "work") as folder,
            evaluation_run(config, evaluation, scored.scores, key, workplace) as run,
        ):
            work = str(folder)
            measured = [
                [
                    measure_candidate(
                        source,
                        candidate,
                        rows,
                        scores,
                        workplace,
                        work,
                        evaluation.analyses_of(source.name),
                        submission=submission,
                    )
                    for source, rows, scores in zip(sources, frozen, against, strict=True)
                ]
                for candidate in (*candidates, *watched)
            ]
            decided = judge_candidates(
                measured[: len(candidates)],
                measured[len(candidates) :],
                evaluation,
                run,
                output,
                withheld,
            ).beside(scored.failed)
            summary = summarise_evaluation(
                decided,
                run.run_id,
                output,
                evaluation=evaluation.name,
                outcome_of=evaluation.outcome_of or names,
                report_only=policy.report_only,
                sets=count_set_uses(decided.verdicts, run),
                store=store,
                config=config,
            )
            trend = None
            if night:
                trend = remember_night(
                    measured,
                    decided,
                    run.run_id,
                    output,
                    evaluation=evaluation.name,
                    settings=evaluation.drift,
                    workplace=workplace,
                )
            page = write_evaluation_page(summary, output)
            close_evaluation_run(run, summary, page)
        show_results(summary, output, run)
        if with_texts:
            quote_comments(summary, output, frozen)
        report = report_address(run, page) if night else None
        notify_people(evaluation.notifications, summary, trend, report)
        return conclude(summary)


def measure_candidate(
    source: SourceSettings,
    candidate: CandidateSettings,
    rows: str,
    rivals: RivalScores,
    workplace: Workplace,
    work: str,
    analyses: list[Analysis],
    *,
    submission: bool,
) -> Measured:
    """Measure one candidate on one set.

    Step 3 of the pipeline:

    - gather the rows, the candidate's scores and those of its rivals in one file, from which
      anyone can recompute the verdict; all that follows reads it
    - measure each identity in its own task; more than 32 identities share 32 tasks
    - compute overall and aggregate numbers
    - count the comments that have no score
    - name each identity's pattern of bias, count errors at thresholds
    - do the analyses that the file asks for, each in its own task

    Step 4: write the report and its table, draw the figures.
    """
    scores = score_candidate(candidate, rows, workplace)
    folder = make_folder(work, RESULTS, source.name, candidate.name)
    evidence = gather_evidence(rows, scores, rivals, source, folder)
    shares = list_identities(evidence)
    measured = measure_identity.map(
        list(shares), list(shares.values()), evidence=unmapped(evidence)
    ).result()
    bias = summarise_identities(measured, evidence)
    missing = count_missing(evidence, scores)
    explained = explain_bias(bias, candidate.threshold, evidence)
    analysed = analyse_rows.map(
        analyses,
        evidence=unmapped(evidence),
        set_folder=unmapped(rows),
        source=unmapped(source),
    ).result()
    report = write_report(bias, explained, analysed, candidate, rows, scores, evidence, missing)
    draw_figures(report, evidence)
    if submission:
        write_submission_file(scores, folder)
    return Measured(source, candidate, rows, scores, folder, report)
