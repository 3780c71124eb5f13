"""Measure candidates on evaluation sets, judge them, promote the ones that pass."""

from __future__ import annotations

from typing import Any

from prefect import flow, runtime, unmapped

from flows.states import conclude
from flows.train import prepare_candidates
from tasks.data.freezing import freeze_evaluation_set
from tasks.evaluation import read_evaluation_file
from tasks.figures import draw_figures
from tasks.gating import decide_candidate, promote_candidate
from tasks.measuring import lay_out_scores, list_identities, measure_identity, summarise_identities
from tasks.publishing import (
    RESULTS,
    make_folder,
    publish_results,
    summarise_evaluation,
    working_folder,
    write_submission_files,
)
from tasks.reporting import write_report
from tasks.scoring.scored import score_candidate
from tasks.tracking import close_evaluation_run, evaluation_run, log_candidate_run


@flow(name="evaluate", flow_run_name="evaluate {config}")
def evaluate(config: str, output: str, store: str, *, submission: bool = False) -> Any:
    """Measure every candidate of an evaluation file on every set, judge and promote.

    1. read and check the file, the policy and the inputs they name
    2. train the candidates that are trained here; pin registered ones to a version
    3. freeze the evaluation sets
    4. score every candidate on every set (kept scores are reused)
    5. measure each identity in a task of its own, then the aggregates
    6. write report, table and figures; decide; log one MLflow run
    7. publish `output/<set>/<candidate>/`
    8. move `champion` where a candidate passed on every required set; write `summary.json`

    Parameters
    ----------
    config : str
        Path of the evaluation file.
    output : str
        Folder for the results; nothing is written there unless all candidates were measured.
    store : str
        Folder of frozen sets, scores and, by default, the MLflow store.
    submission : bool, default=False
        Also write the scores as a Kaggle submission.

    Returns
    -------
    dict
        The summary; the flow's state is Completed, named `Passed`, `Blocked` or `Insufficient`.
    """
    evaluation = read_evaluation_file(config)
    candidates = prepare_candidates(evaluation, store)
    sources = evaluation["evaluation_sets"]
    frozen = [freeze_evaluation_set(source, store) for source in sources]
    scores = [[score_candidate(one, rows, store) for one in candidates] for rows in frozen]
    key = f"evaluate-{runtime.flow_run.id}"
    with working_folder(store) as work, evaluation_run(evaluation, key, store) as run:
        measured = [
            measure_candidate(source, candidate, rows, kept, evaluation, work)
            for source, rows, of_set in zip(sources, frozen, scores, strict=True)
            for candidate, kept in zip(candidates, of_set, strict=True)
        ]
        verdicts = [log_candidate_run(*result, run, store) for result in measured]
        if submission:
            write_submission_files(sources, candidates, scores, work)
        publish_results(work, output)
        decisions = [promote_candidate(one, verdicts, evaluation, store) for one in candidates]
        summary = summarise_evaluation(evaluation, verdicts, decisions, run, output)
        close_evaluation_run(run, summary, store)
    return conclude(summary)


def measure_candidate(
    source: dict[str, Any],
    candidate: dict[str, Any],
    rows: str,
    scores: str,
    evaluation: dict[str, Any],
    work: str,
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Measure and judge one candidate on one set; return report, verdict and their folder.

    1. join scores to rows, rank them once
    2. measure each identity in a task of its own
    3. compute overall and aggregate numbers
    4. write the report and its table, draw the figures, decide
    """
    folder = make_folder(work, RESULTS, source["name"], candidate["name"])
    arrays = make_folder(work, "arrays", source["name"], candidate["name"])
    layout = lay_out_scores(rows, scores, source, arrays)
    identities = list_identities(layout)
    measured = measure_identity.map(identities, layout=unmapped(layout)).result()
    report = write_report(
        summarise_identities(identities, measured, layout), candidate, rows, scores, layout, folder
    )
    draw_figures(report, layout, folder)
    verdict = decide_candidate(report, evaluation["policy"], evaluation["policy_digest"], folder)
    return report, verdict, folder
