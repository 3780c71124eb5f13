"""Fifth step: one MLflow run per candidate and set, nested under one run per evaluation."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from bias_metrics import BiasTable, Key
from bias_metrics.gate import WORST_FIRST
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.report import sort_worst_first
from bias_metrics.table import Estimate
from biasgate.tasks.common.files import hold_lock, json_digest
from biasgate.tasks.common.markdown import escape_markdown
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.data.identity_names import sanitize_name
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.included import find_evaluation_file
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.mlflow_server.logged_models import Judged
from biasgate.tasks.mlflow_server.runs import NOTE, Gateway, source_tags
from biasgate.tasks.records import (
    AtThreshold,
    LoggedVerdict,
    MarkedComments,
    Report,
    Summary,
    Value,
    Verdict,
    get_champion_uri,
)
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.markdown import candidates_markdown, results_markdown
from biasgate.tasks.reporting.page.writing import FILE as PAGE
from biasgate.tasks.reporting.report import metric_table
from biasgate.tasks.reporting.results import Published, results_of
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.scoring.scored_set import ScoredSet, ScoresRecord
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking.addresses import (
    artifact_page,
    comparison_page,
    models_page,
    tables_page,
    view_page,
)
from biasgate.tasks.tracking.prefect_pages import flow_run_link, flow_run_tags
from biasgate.tasks.tracking.resume import (
    EVALUATION,
    TABLE,
    EvaluationRun,
    run_key,
    settle_abandoned,
)
from biasgate.tasks.tracking.view import FOLDER, LATEST, SHOWN, saved_views, write_grid_pictures
from biasgate.tasks.tracking.worst_numbers import headline_metrics, headline_tags

# Most identities whose numbers become metrics of a run: if there are more, the worst. MLflow draws
# a chart for each metric, and its pages fail at some thousands.
LOGGED = 500
LOGGED_TAG = "biasgate.metrics_of"


def metric_keys(
    table: BiasTable,
    thresholds: Mapping[str, AtThreshold] = MappingProxyType({}),
    marked: Mapping[str, MarkedComments] = MappingProxyType({}),
) -> dict[str, float]:
    """Return the defined numbers under their MLflow keys, such as `bpsn_auc/muslim`.

    Errors at a threshold are included only for all identities together: the rates of each are
    in the report and its table.

    MLflow groups its charts by the part before the slash. Undefined numbers are left out,
    because NaN breaks the run page.

    Raises
    ------
    ValueError
        If two numbers would share a key, or a subgroup's name has characters that MLflow
        does not store.
    """
    cells: list[tuple[str, Estimate | Value]] = [
        (_mlflow_key(key), number) for key, number in table.items() if key.threshold is None
    ]
    for kind, errors in thresholds.items():
        if errors.equal_error_rate is not None:
            cells.append((f"equal_error_rate/{kind}", errors.equal_error_rate))
        cells.append((f"fped/{kind}", errors.fped))
        cells.append((f"fned/{kind}", errors.fned))
        cells.append((f"threshold/{kind}", Value(value=errors.threshold)))
    for kind, comments in marked.items():
        cells.append((f"{kind}_rate/overall", comments.overall.rate))
        for group, share in comments.subgroups.items():
            if group in table.subgroups:
                cells.append((f"{kind}_rate/{sanitize_name(group)}", share.rate))
                if share.gap is not None:
                    cells.append((f"{kind}_gap/{sanitize_name(group)}", share.gap))
    counts = Counter(key for key, _ in cells)
    twice = sorted(key for key, count in counts.items() if count > 1)
    if twice:
        msg = f"subgroup names must give different MLflow keys; {', '.join(twice)} occurs twice."
        raise ValueError(msg)
    return {key: cell.value for key, cell in cells if cell.value is not None}


def _mlflow_key(key: Key) -> str:
    if key.group is not None:
        return f"{key.metric}/{sanitize_name(key.group)}"
    if key.metric in FINAL_SCORE_PARTS:
        return f"power_mean/{key.metric}"
    return "auc/overall" if key.metric == "auc" else key.metric


def logged_metrics(report: Report) -> tuple[dict[str, float], dict[str, str]]:
    """Return the metrics of a run, and a tag that says so if only the worst are included.

    Raises
    ------
    ValueError
        As in `metric_keys`, for all identities.
    """
    table, of_report = report.bias, (report.thresholds, report.marked)
    metrics = metric_keys(table, *of_report)
    if len(table.subgroups) <= LOGGED:
        return metrics | count_keys(table), {}
    shown = table.select_groups(sort_worst_first(table.subgroups)[:LOGGED])
    tag = f"the worst {LOGGED} of {len(table.subgroups):,} identities; all are in bias_metrics.csv"
    return metric_keys(shown, *of_report) | count_keys(shown), {LOGGED_TAG: tag}


def cost_metrics(scores: ScoresRecord) -> dict[str, float]:
    """Return how fast scores were made, and the seconds of the whole set at this rate.

    So candidates can be compared although an earlier process, which was killed, made a part.
    """
    rate = scores.rows_per_second
    if rate is None:
        return {}
    return {"comments_per_second": rate, "seconds/score": scores.n_rows / rate}


@task(name="open evaluation run")
def open_evaluation_run(
    config: str, evaluation: Evaluation, scores: list[list[str]], key: str, workplace: Workplace
) -> EvaluationRun:
    """Find the parent run, or create it. Safe to retry.

    It is found by its key, or as the killed run of the same evaluation with the same scores.
    """
    log_message("opening the evaluation's run in MLflow")
    gateway = workplace.gateway
    experiment_id = gateway.experiment(evaluation.name)
    digest = json_digest([evaluation.content(), scores])
    with hold_lock(workplace.store / "evaluations"):
        settle_abandoned(gateway, experiment_id, key, digest)
        name, tags = f"evaluate {evaluation.name}", {EVALUATION: digest}
        run_id = gateway.run(experiment_id, key, name, tags=tags)
    params: dict[str, object] = {
        "policy": evaluation.policy.name,
        "candidates": ", ".join(candidate.name for candidate in evaluation.candidates),
        "evaluation_sets": ", ".join(one.name for one in evaluation.evaluation_sets),
    }
    source = source_tags(find_evaluation_file(config))
    tags = source | {"biasgate.policy_digest": evaluation.policy.digest} | flow_run_tags()
    gateway.log(run_id, params=params, tags=tags)
    return EvaluationRun(run_id, workplace, source)


@contextmanager
def evaluation_run(
    config: str, evaluation: Evaluation, scores: list[list[str]], key: str, workplace: Workplace
) -> Iterator[EvaluationRun]:
    """Yield the parent run; if the body fails, end it as FAILED."""
    run = open_evaluation_run(config, evaluation, scores, key, workplace)
    with workplace.gateway.failing(run.run_id):
        yield run


@task(name="log candidate run", task_run_name="log {measured.folder!m}")
def log_candidate_run(measured: Measured, verdict: Verdict, parent: EvaluationRun) -> LoggedVerdict:
    """Log one candidate on one set; return the verdict with its `run_id`.

    Safe to retry: the run is found by its key, and logging again overwrites.
    """
    gateway, report = parent.workplace.gateway, measured.report
    names = measured.candidate.name, measured.source.name
    key, name = run_key(parent.run_id, *names), " on ".join(names)
    experiment_id = gateway.experiment_of(parent.run_id)
    run_id = gateway.run(experiment_id, key, name, parent=parent.run_id)
    with gateway.failing(run_id):
        judged = _log_inputs(gateway, experiment_id, run_id, report)
        metrics, tags = logged_metrics(report)
        cost = cost_metrics(ScoredSet.open(measured.scores).record)
        metrics = headline_metrics(report, verdict) | metrics | cost
        gateway.log(run_id, metrics=metrics, judged=judged)
        story = Published(Path(measured.folder), report, verdict).story
        note = candidate_note(story, experiment_id, run_id)
        gateway.log(
            run_id,
            params=_params(report, verdict),
            tags=headline_tags(story, report)
            | parent.source
            | tags
            | flow_run_tags()
            | {NOTE: note},
        )
        gateway.log_folder(run_id, Path(measured.folder))
        gateway.log_table(run_id, metric_table(report), TABLE)
        _log_pictures(gateway, run_id, Path(measured.folder))
        gateway.finish(run_id)
    return LoggedVerdict.from_verdict(verdict, run_id)


def _log_inputs(gateway: Gateway, experiment_id: str, run_id: str, report: Report) -> Judged:
    """Log set and candidate as the run's inputs; return them, for its metrics."""
    candidate, evaluation_set = report.candidate, report.evaluation_set
    uri = candidate.model
    model_id = gateway.logged_model(
        experiment_id,
        json_digest([candidate.name, uri or candidate.digest]),
        candidate.name,
        kind=candidate.kind,
        tags={"biasgate.candidate_digest": candidate.digest},
        version=gateway.resolve(uri) if uri else None,
    )
    judged = Judged.on(model_id, evaluation_set.name, evaluation_set.digest)
    choices = evaluation_set.choices
    gateway.log_inputs(
        run_id,
        judged,
        source=str(choices.source.get("source")),
        profile=f'{{"num_rows": {choices.n_rows}}}',
    )
    return judged


def _log_pictures(gateway: Gateway, run_id: str, results: Path) -> None:
    """Log the pictures that MLflow shows side by side."""
    with tempfile.TemporaryDirectory() as temporary:
        if write_grid_pictures(results, Path(temporary)):
            gateway.log_folder(run_id, Path(temporary), FOLDER)
            gateway.log(run_id, tags=SHOWN)


@task(name="log seconds of stages")
def log_stage_seconds(run: EvaluationRun, seconds: Mapping[str, float]) -> None:
    """Log the seconds of each stage in the parent run, of this process alone. Safe to retry."""
    metrics = {f"seconds/{name}": elapsed for name, elapsed in seconds.items()}
    run.workplace.gateway.log(run.run_id, metrics=metrics)


@task(name="close evaluation run")
def close_evaluation_run(run: EvaluationRun, summary: Summary, page: str) -> None:
    """Log outcome, summary and page in the parent run, and end it. Safe to retry.

    The experiment's saved views show its candidates from then on.
    """
    gateway, run_id = run.workplace.gateway, run.run_id
    experiment_id = gateway.experiment_of(run_id)
    results = results_of(summary, Path(page).parent)
    told = results_markdown(results)
    note = evaluation_note(summary, told, experiment_id, flow_run_link())
    gateway.log(run_id, tags={"biasgate.outcome": summary.outcome, NOTE: note})
    gateway.log_file(run_id, Path(page))
    if results.first is not None:
        _log_pictures(gateway, run_id, results.first.folder)
    keys, now = gateway.metric_keys_below(run_id), int(time.time() * 1000)
    views = saved_views(run_id, best_run(summary), keys, now)
    gateway.tag_experiment(experiment_id, views)
    gateway.finish(run_id, "FAILED" if summary.outcome == "error" else "FINISHED")


def best_run(summary: Summary) -> str:
    """Return the run of the champion if it is a candidate; else of the best verdict."""
    best = max(
        summary.verdicts,
        key=lambda verdict: (
            get_champion_uri(verdict) is not None
            and get_champion_uri(verdict) == verdict.candidate.model,
            WORST_FIRST.index(verdict.outcome),
        ),
    )
    return best.run_id


def _params(report: Report, verdict: Verdict) -> dict[str, object]:
    """Return the parameters that distinguish runs; no digests, as MLflow draws each as an axis."""
    candidate, evaluation_set = report.candidate, report.evaluation_set
    params: dict[str, object] = {
        f"candidate.{key}": value for key, value in candidate.to_dict().items() if key != "digest"
    }
    params |= {"set.name": evaluation_set.name, "policy": verdict.policy.name}
    choices = evaluation_set.choices
    return params | {
        f"set.{key}": value for key, value in choices.to_dict().items() if key != "source"
    }


def count_keys(table: BiasTable) -> dict[str, float]:
    """Return the numbers of rows under their MLflow keys, such as `n_rows/muslim`."""
    found: dict[str, float] = {}
    for group, rows in table.counts.items():
        name = "overall" if group is None else sanitize_name(group)
        found |= {f"n_rows/{name}": rows.n, f"n_positive/{name}": rows.n_positive}
    return found


LONGEST = 8000
"""Characters of a tag that MLflow keeps; it cuts the rest, also in the middle of a link."""
MOST_COMPARED = 50
"""Runs that one link compares. Beyond, the link alone would fill the note."""
_REST = "\n\nThe rest is in the report."


def candidate_note(story: Story, experiment_id: str, run_id: str) -> str:
    """Return the note on a candidate's run: links, what people read first, and why."""
    links = {
        "Report": artifact_page(experiment_id, run_id, PAGE),
        "Table": artifact_page(experiment_id, run_id, TABLE),
        "All candidates": view_page(experiment_id, LATEST),
        "Charts and differences": view_page(experiment_id, LATEST, charts=True),
        "Tables of candidates": tables_page(experiment_id, LATEST),
    }
    explained = [f"- {escape_markdown(text)}" for text in (story.look_first, *story.analyses)]
    parts = [_row(links), "", *candidates_markdown([CandidateStory.of(story)]), *explained]
    return shortened("\n".join(parts))


def evaluation_note(summary: Summary, told: str, experiment_id: str, flow_run: str) -> str:
    """Return the note on an evaluation's run: links, also to Prefect; what people read first."""
    runs = [verdict.run_id for verdict in summary.verdicts]
    few = len(runs) <= MOST_COMPARED
    links = {
        "Report": artifact_page(experiment_id, summary.run_id, PAGE),
        "All candidates": view_page(experiment_id, LATEST),
        "Charts and differences": view_page(experiment_id, LATEST, charts=True),
        **({"Compare the runs": comparison_page(experiment_id, runs)} if few else {}),
        "Tables of candidates": tables_page(experiment_id, LATEST),
        "Models": models_page(experiment_id),
    }
    row = " · ".join(filter(None, [_row(links), flow_run]))
    return shortened(f"{row}\n\n{told}")


def shortened(note: str) -> str:
    """Return the first lines of a note, as many as MLflow keeps, and where the rest is."""
    if len(note) <= LONGEST:
        return note
    whole_lines = note[: LONGEST - len(_REST) + 1].rpartition("\n")[0]
    return whole_lines.rstrip() + _REST


def _row(links: dict[str, str]) -> str:
    return " · ".join(f"[{name}]({address})" for name, address in links.items())
