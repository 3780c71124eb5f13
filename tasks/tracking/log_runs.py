"""Fifth step: an MLflow run per candidate and set, nested under the run of the evaluation."""

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
from biasgate.tasks.mlflow_server.logged_models import ModelOnSet
from biasgate.tasks.mlflow_server.runs import NOTE, Gateway, make_source_tags
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
from biasgate.tasks.reporting.markdown import format_candidates, format_results
from biasgate.tasks.reporting.page.writing import FILE as PAGE
from biasgate.tasks.reporting.report import build_metric_table
from biasgate.tasks.reporting.results import Published, load_results
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.scoring.scored_set import ScoredSet, ScoresRecord
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking.addresses import (
    format_artifact_address,
    format_comparison_address,
    format_models_address,
    format_tables_address,
    format_view_address,
)
from biasgate.tasks.tracking.prefect_pages import make_flow_run_link, make_flow_run_tags
from biasgate.tasks.tracking.resume import (
    EVALUATION,
    TABLE,
    EvaluationRun,
    make_run_key,
    settle_abandoned_runs,
)
from biasgate.tasks.tracking.view import (
    FOLDER,
    LATEST,
    SHOWN,
    make_saved_views,
    write_grid_pictures,
)
from biasgate.tasks.tracking.worst_numbers import collect_headline_metrics, collect_headline_tags

# Most identities to log as metrics of a run; with more identities, the worst are logged. MLflow
# draws a chart for each metric, and its pages fail at a few thousand metrics.
MAX_IDENTITIES = 500
PARTIAL_METRICS_TAG = "biasgate.metrics_of"


def collect_metrics(
    table: BiasTable,
    thresholds: Mapping[str, AtThreshold] = MappingProxyType({}),
    marked: Mapping[str, MarkedComments] = MappingProxyType({}),
) -> dict[str, float]:
    """Return the defined numbers under their MLflow keys, such as `bpsn_auc/muslim`.

    Errors at a threshold are included only for all identities together: rates by identity are in
    the report and its table. MLflow groups its charts by the part of the key before the slash.
    Undefined numbers are left out, because NaN breaks the run page.

    Raises
    ------
    ValueError
        If two numbers have the same key, or the name of a subgroup has characters that MLflow
        does not store.
    """
    cells: list[tuple[str, Estimate | Value]] = [
        (_format_mlflow_key(key), number) for key, number in table.items() if key.threshold is None
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
    duplicates = sorted(key for key, count in counts.items() if count > 1)
    if duplicates:
        msg = (
            f"subgroup names must give different MLflow keys; {', '.join(duplicates)} occurs twice."
        )
        raise ValueError(msg)
    return {key: cell.value for key, cell in cells if cell.value is not None}


def _format_mlflow_key(key: Key) -> str:
    if key.group is not None:
        return f"{key.metric}/{sanitize_name(key.group)}"
    if key.metric in FINAL_SCORE_PARTS:
        return f"power_mean/{key.metric}"
    return "auc/overall" if key.metric == "auc" else key.metric


def select_logged_metrics(report: Report) -> tuple[dict[str, float], dict[str, str]]:
    """Return the metrics of a run, and a tag if they cover only the worst identities.

    Raises
    ------
    ValueError
        As in `collect_metrics`, also for identities that are not logged.
    """
    table, decision_numbers = report.bias, (report.thresholds, report.marked)
    metrics = collect_metrics(table, *decision_numbers)
    if len(table.subgroups) <= MAX_IDENTITIES:
        return metrics | collect_counts(table), {}
    worst = table.select_groups(sort_worst_first(table.subgroups)[:MAX_IDENTITIES])
    n = len(table.subgroups)
    tag = f"the worst {MAX_IDENTITIES} of {n:,} identities; all are in bias_metrics.csv"
    return collect_metrics(worst, *decision_numbers) | collect_counts(worst), {
        PARTIAL_METRICS_TAG: tag
    }


def compute_cost_metrics(scores: ScoresRecord) -> dict[str, float]:
    """Return the scoring rate, and the seconds to score the whole set at this rate.

    The rate is comparable across candidates even if a killed process scored a part of the set.
    """
    rate = scores.rows_per_second
    if rate is None:
        return {}
    return {"comments_per_second": rate, "seconds/score": scores.n_rows / rate}


@task(name="open evaluation run")
def open_evaluation_run(
    config: str, evaluation: Evaluation, scores: list[list[str]], key: str, workplace: Workplace
) -> EvaluationRun:
    """Find or create the parent run. Safe to retry.

    An existing run has the same key, or is a killed run of the same evaluation and scores.
    """
    log_message("opening the evaluation's run in MLflow")
    gateway = workplace.gateway
    experiment_id = gateway.ensure_experiment(evaluation.name)
    digest = json_digest([evaluation.content(), scores])
    with hold_lock(workplace.store / "evaluations"):
        settle_abandoned_runs(gateway, experiment_id, key, digest)
        name, tags = f"evaluate {evaluation.name}", {EVALUATION: digest}
        run_id = gateway.ensure_run(experiment_id, key, name, tags=tags)
    params: dict[str, object] = {
        "policy": evaluation.policy.name,
        "candidates": ", ".join(candidate.name for candidate in evaluation.candidates),
        "evaluation_sets": ", ".join(source.name for source in evaluation.evaluation_sets),
    }
    source = make_source_tags(find_evaluation_file(config))
    tags = source | {"biasgate.policy_digest": evaluation.policy.digest} | make_flow_run_tags()
    gateway.log(run_id, params=params, tags=tags)
    return EvaluationRun(run_id, workplace, source)


@contextmanager
def track_evaluation_run(
    config: str, evaluation: Evaluation, scores: list[list[str]], key: str, workplace: Workplace
) -> Iterator[EvaluationRun]:
    """Yield the parent run, and end it as FAILED if the body raises an error."""
    run = open_evaluation_run(config, evaluation, scores, key, workplace)
    with workplace.gateway.fail_on_error(run.run_id):
        yield run


@task(name="log candidate run", task_run_name="log {measured.folder!m}")
def log_candidate_run(measured: Measured, verdict: Verdict, parent: EvaluationRun) -> LoggedVerdict:
    """Log a candidate on a set, and return the verdict with its `run_id`.

    Safe to retry: the run is found by its key, and its values are overwritten.
    """
    gateway, report = parent.workplace.gateway, measured.report
    names = measured.candidate.name, measured.source.name
    key, name = make_run_key(parent.run_id, *names), " on ".join(names)
    experiment_id = gateway.get_experiment_id(parent.run_id)
    run_id = gateway.ensure_run(experiment_id, key, name, parent=parent.run_id)
    with gateway.fail_on_error(run_id):
        judged = _log_inputs(gateway, experiment_id, run_id, report)
        metrics, tags = select_logged_metrics(report)
        cost = compute_cost_metrics(ScoredSet.open(measured.scores).record)
        metrics = collect_headline_metrics(report, verdict) | metrics | cost
        gateway.log(run_id, metrics=metrics, judged=judged)
        story = Published(Path(measured.folder), report, verdict).story
        note = write_candidate_note(story, experiment_id, run_id)
        gateway.log(
            run_id,
            params=_collect_params(report, verdict),
            tags=collect_headline_tags(story, report)
            | parent.source
            | tags
            | make_flow_run_tags()
            | {NOTE: note},
        )
        gateway.log_folder(run_id, Path(measured.folder))
        gateway.log_table(run_id, build_metric_table(report), TABLE)
        _log_pictures(gateway, run_id, Path(measured.folder))
        gateway.end_run(run_id)
    return LoggedVerdict.from_verdict(verdict, run_id)


def _log_inputs(gateway: Gateway, experiment_id: str, run_id: str, report: Report) -> ModelOnSet:
    """Log set and candidate as inputs of the run; return the model and set of its metrics."""
    candidate, evaluation_set = report.candidate, report.evaluation_set
    uri = candidate.model
    model_id = gateway.ensure_logged_model(
        experiment_id,
        json_digest([candidate.name, uri or candidate.digest]),
        candidate.name,
        kind=candidate.kind,
        tags={"biasgate.candidate_digest": candidate.digest},
        version=gateway.resolve(uri) if uri else None,
    )
    judged = ModelOnSet.from_digest(model_id, evaluation_set.name, evaluation_set.digest)
    choices = evaluation_set.choices
    gateway.log_inputs(
        run_id,
        judged,
        source=str(choices.source.get("source")),
        profile=f'{{"num_rows": {choices.n_rows}}}',
    )
    return judged


def _log_pictures(gateway: Gateway, run_id: str, results: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        if write_grid_pictures(results, Path(temporary)):
            gateway.log_folder(run_id, Path(temporary), FOLDER)
            gateway.log(run_id, tags=SHOWN)


@task(name="log seconds of stages")
def log_stage_seconds(run: EvaluationRun, seconds: Mapping[str, float]) -> None:
    """Log the seconds that this process spent in each stage. Safe to retry."""
    metrics = {f"seconds/{name}": elapsed for name, elapsed in seconds.items()}
    run.workplace.gateway.log(run.run_id, metrics=metrics)


@task(name="close evaluation run")
def close_evaluation_run(run: EvaluationRun, summary: Summary, page: str) -> None:
    """Log outcome, summary and page in the parent run, and end it. Safe to retry.

    Also points the saved views of the experiment at the candidates of this evaluation.
    """
    gateway, run_id = run.workplace.gateway, run.run_id
    experiment_id = gateway.get_experiment_id(run_id)
    results = load_results(summary, Path(page).parent)
    text = format_results(results)
    note = write_evaluation_note(summary, text, experiment_id, make_flow_run_link())
    gateway.log(run_id, tags={"biasgate.outcome": summary.outcome, NOTE: note})
    gateway.log_file(run_id, Path(page))
    if results.worst is not None:
        _log_pictures(gateway, run_id, results.worst.folder)
    metric_names, now = gateway.list_child_metrics(run_id), int(time.time() * 1000)
    views = make_saved_views(run_id, find_best_run(summary), metric_names, now)
    gateway.tag_experiment(experiment_id, views)
    gateway.end_run(run_id, "FAILED" if summary.outcome == "error" else "FINISHED")


def find_best_run(summary: Summary) -> str:
    """Return the run id of the champion if it is a candidate, else of the best verdict."""
    best = max(
        summary.verdicts,
        key=lambda verdict: (
            get_champion_uri(verdict) is not None
            and get_champion_uri(verdict) == verdict.candidate.model,
            WORST_FIRST.index(verdict.outcome),
        ),
    )
    return best.run_id


def _collect_params(report: Report, verdict: Verdict) -> dict[str, object]:
    """Return the parameters of a run, without digests: MLflow draws an axis for each."""
    candidate, evaluation_set = report.candidate, report.evaluation_set
    params: dict[str, object] = {
        f"candidate.{key}": value for key, value in candidate.to_dict().items() if key != "digest"
    }
    params |= {"set.name": evaluation_set.name, "policy": verdict.policy.name}
    choices = evaluation_set.choices
    return params | {
        f"set.{key}": value for key, value in choices.to_dict().items() if key != "source"
    }


def collect_counts(table: BiasTable) -> dict[str, float]:
    """Return the numbers of rows under their MLflow keys, such as `n_rows/muslim`."""
    metrics: dict[str, float] = {}
    for group, rows in table.counts.items():
        name = "overall" if group is None else sanitize_name(group)
        metrics |= {f"n_rows/{name}": rows.n, f"n_positive/{name}": rows.n_positive}
    return metrics


MAX_NOTE_LENGTH = 8000
"""Most characters of a tag in MLflow, which cuts longer text even in the middle of a link."""
MAX_COMPARED_RUNS = 50
"""Most runs in a link to a comparison. With more, the link would fill the note."""
_TRUNCATION_NOTE = "\n\nThe rest is in the report."


def write_candidate_note(story: Story, experiment_id: str, run_id: str) -> str:
    """Return the note on a candidate's run: links, the summary, and its reasons."""
    links = {
        "Report": format_artifact_address(experiment_id, run_id, PAGE),
        "Table": format_artifact_address(experiment_id, run_id, TABLE),
        "All candidates": format_view_address(experiment_id, LATEST),
        "Charts and differences": format_view_address(experiment_id, LATEST, charts=True),
        "Tables of candidates": format_tables_address(experiment_id, LATEST),
    }
    explained = [f"- {escape_markdown(text)}" for text in (story.look_first, *story.analyses)]
    parts = [
        _format_links(links),
        "",
        *format_candidates([CandidateStory.from_story(story)]),
        *explained,
    ]
    return shorten_note("\n".join(parts))


def write_evaluation_note(summary: Summary, text: str, experiment_id: str, flow_run: str) -> str:
    """Return the note on an evaluation's run: links, also to Prefect, and the summary."""
    runs = [verdict.run_id for verdict in summary.verdicts]
    can_compare = len(runs) <= MAX_COMPARED_RUNS
    links = {
        "Report": format_artifact_address(experiment_id, summary.run_id, PAGE),
        "All candidates": format_view_address(experiment_id, LATEST),
        "Charts and differences": format_view_address(experiment_id, LATEST, charts=True),
        **(
            {"Compare the runs": format_comparison_address(experiment_id, runs)}
            if can_compare
            else {}
        ),
        "Tables of candidates": format_tables_address(experiment_id, LATEST),
        "Models": format_models_address(experiment_id),
    }
    row = " · ".join(filter(None, [_format_links(links), flow_run]))
    return shorten_note(f"{row}\n\n{text}")


def shorten_note(note: str) -> str:
    """Truncate a note to whole lines that fit into a tag, with a reference to the report."""
    if len(note) <= MAX_NOTE_LENGTH:
        return note
    whole_lines = note[: MAX_NOTE_LENGTH - len(_TRUNCATION_NOTE) + 1].rpartition("\n")[0]
    return whole_lines.rstrip() + _TRUNCATION_NOTE


def _format_links(links: dict[str, str]) -> str:
    return " · ".join(f"[{name}]({address})" for name, address in links.items())
