"""Measure candidates on evaluation sets, judge them, promote the ones that pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import flow, runtime

from biasgate.flows.judge import judge_candidates
from biasgate.flows.measure import measure_candidates
from biasgate.flows.own_runs import own_run, steps_of
from biasgate.flows.score import score_everyone
from biasgate.flows.stages import stage
from biasgate.flows.states import conclude
from biasgate.tasks.analysing.analyse import check_analyses
from biasgate.tasks.common.own_folders import own_folder, temporary_files
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.gating.policy_check import check_policy, check_waivers
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.reading_evaluation import (
    find_candidates,
    notify_of_crash,
    read_evaluation_file,
    remember_failed_night,
)
from biasgate.tasks.records import Decided, Summary
from biasgate.tasks.records.trend import Trend
from biasgate.tasks.remembering.trend import remember_night
from biasgate.tasks.reporting.notifications import notify_people
from biasgate.tasks.reporting.page.writing import (
    check_texts,
    quote_comments,
    write_evaluation_page,
)
from biasgate.tasks.reporting.publish import (
    check_output,
    check_places,
    summarise_evaluation,
)
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking.log_runs import close_evaluation_run, evaluation_run
from biasgate.tasks.tracking.prefect_pages import report_address, show_results
from biasgate.tasks.tracking.resume import EvaluationRun
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

    Its stages are flows within this one:

    1. `freeze` the evaluation sets; check that they can be measured and analysed, and judged by
       the policy
    2. `score`: find the registered versions that are candidates; train the candidates that are
       trained here; pin registered ones to a version; refuse rows that an earlier night had, where
       nights are pooled; score every candidate, champion and reference on every set (kept scores
       are reused; on a cluster all workers score); the others are judged without a candidate that
       fails
    3. `measure` each identity in its own task, then the aggregates; do further analyses; write
       report, table and figures
    4. `judge`: compare all candidates with the current champion, and decide; log one MLflow run
       per set and candidate; publish `output/<set>/<candidate>/`; move `champion` to the best of
       those that passed on every required set, if the policy lets it replace the champion
    5. `publish` the outcome of all; of a night: what changed since the nights before, and whether
       by more than chance

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
        names = [candidate.name for candidate in evaluation.candidates]
        if with_texts:
            check_texts(evaluation.evaluation_sets)
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
            decided = judge_candidates(judged, watched, evaluation, run, output, withheld)
            summary, trend, page = publish_evaluation(
                measured,
                decided.beside(scored.failed),
                evaluation,
                run,
                output,
                outcome_of=evaluation.outcome_of or names,
                night=night,
                config=config,
                store=store,
            )
        show_results(summary, output, run)
        if with_texts:
            quote_comments(summary, output, frozen, evaluation.language)
        address = report_address(run, page) if night else None
        language, notified = evaluation.language, evaluation.notifications
        notify_people(notified, summary, output, trend, address, language)
        return conclude(summary)


@stage("freeze")
def freeze_sets(evaluation: Evaluation, workplace: Workplace) -> list[str]:
    """Freeze the evaluation sets; check that they can be measured, judged and analysed."""
    frozen = [freeze_evaluation_set(source, workplace) for source in evaluation.evaluation_sets]
    for source, rows in zip(evaluation.evaluation_sets, frozen, strict=True):
        check_policy(evaluation.policy, source, rows)
        check_analyses(evaluation.analyses_of(source.name), source, rows)
    check_waivers(evaluation.policy, evaluation.evaluation_sets, frozen)
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
) -> tuple[Summary, Trend | None, str]:
    """Write summary and page, and close the evaluation's run in MLflow; of a night, compare it.

    Returns
    -------
    tuple
        The summary, how the night compares with those before, and the address of the page.
    """
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
            workplace=run.workplace,
        )
    page = write_evaluation_page(summary, output, evaluation.language)
    close_evaluation_run(run, summary, page)
    return summary, trend, page
