"""Artifacts of an evaluation in Prefect: a summary, a table of identities, a link to MLflow.

The tags of the MLflow runs name the flow run, so that the pages link to each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from biasgate.tasks.common.markdown import escape_markdown
from biasgate.tasks.common.prefect_artifacts import (
    find_flow_run_page,
    make_artifact_key,
    publish_link,
    publish_markdown,
    publish_table,
)
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.outcomes import get_outcome_words
from biasgate.tasks.records import LoggedVerdict, Report, Summary
from biasgate.tasks.reporting.markdown import format_results
from biasgate.tasks.reporting.page.grids import MARKS, GridCell, build_grid
from biasgate.tasks.reporting.results import load_results
from biasgate.tasks.tracking.addresses import format_artifact_address, format_run_address
from biasgate.tasks.tracking.resume import EvaluationRun

FLOW_RUN_TAG, FLOW_RUN_PAGE_TAG = "biasgate.prefect_flow_run", "biasgate.prefect_flow_run_page"
# Address of `biasgate ui` for a local store, unless another port is set.
LOCAL_PAGES = "http://127.0.0.1:5000"
# Most rows of a table, since Prefect renders all rows at once.
_MAX_ROWS = 300


def make_flow_run_tags() -> dict[str, str]:
    """Return the MLflow tags that name the Prefect flow run; empty outside of a flow."""
    flow_run = find_flow_run_page()
    if flow_run is None:
        return {}
    run_id, page = flow_run
    return {FLOW_RUN_TAG: run_id} | ({FLOW_RUN_PAGE_TAG: page} if page else {})


def make_flow_run_link() -> str:
    """Return a Markdown link to the page of the flow run; empty if its address is unknown."""
    flow_run = find_flow_run_page()
    return f"[Flow run in Prefect]({flow_run[1]})" if flow_run and flow_run[1] else ""


def find_run_page(run: EvaluationRun) -> tuple[str, str]:
    """Return the address of an evaluation's run in MLflow, and a hint on it.

    The pages of a local store exist only while `biasgate ui` runs. The hint is empty for a server.
    """
    gateway = run.workplace.gateway
    is_server = gateway.uri.startswith(("http://", "https://"))
    root = gateway.uri.rstrip("/") if is_server else LOCAL_PAGES
    hint = "" if is_server else f"The link works while `{gateway.format_command('ui')}` runs."
    experiment_id = gateway.get_experiment_id(run.run_id)
    return f"{root}/{format_run_address(experiment_id, run.run_id)}", hint


def make_identity_table(summary: Summary, output: str) -> tuple[list[dict[str, str]], str]:
    """Return the metrics by identity of each candidate, the worst first, and a note.

    Cells are short, and have no Markdown, which some of Prefect's pages do not render.
    """
    verdicts = summary.verdicts
    max_rows = max(_MAX_ROWS // max(len(verdicts), 1), 1)
    has_sets = len({verdict.evaluation_set.name for verdict in verdicts}) > 1
    rows: list[dict[str, str]] = []
    is_cut = False
    for verdict in verdicts:
        candidate_rows = list(_list_rows(verdict, output, has_sets=has_sets))
        rows += candidate_rows[:max_rows]
        is_cut = is_cut or len(candidate_rows) > max_rows
    marks = {mark: words for mark, words in MARKS.values() if mark}
    legend = ", ".join(f"{mark} {words}" for mark, words in marks.items())
    note = f"Metrics by identity, the worst first, with 95% intervals. {legend}."
    if is_cut:
        note += f" Only the worst {max_rows} per candidate and set; all are in `bias_metrics.csv`."
    return rows, note


def _list_rows(verdict: LoggedVerdict, output: str, *, has_sets: bool) -> Iterator[dict[str, str]]:
    name, set_name = verdict.candidate.name, verdict.evaluation_set.name
    path = Path(output) / set_name / name / "report.json"
    report = Report.read(path.read_bytes())
    grid = build_grid(report, verdict)
    keys = {"candidate": escape_markdown(name)} | (
        {"set": escape_markdown(set_name)} if has_sets else {}
    )
    for row in grid.rows:
        numbers = zip(grid.columns, row.cells, strict=True)
        yield {
            **keys,
            "identity": escape_markdown(row.name),
            "comments": row.n,
            **{column.title: _format_cell(cell) for column, cell in numbers},
        }


def _format_cell(cell: GridCell) -> str:
    if cell.lack:
        return "no evidence"
    return " ".join(filter(None, [cell.mark, cell.text, cell.interval]))


@task(name="find report")
def find_report_address(run: EvaluationRun, page: str) -> str:
    """Return the address of the page on MLflow's server, or its local path. Safe to retry."""
    gateway = run.workplace.gateway
    if not gateway.uri.startswith(("http://", "https://")):
        return page
    address = format_artifact_address(
        gateway.get_experiment_id(run.run_id), run.run_id, Path(page).name
    )
    return f"{gateway.uri.rstrip('/')}/{address}"


@task(name="show results")
def show_results(summary: Summary, output: str, run: EvaluationRun) -> None:
    """Publish summary, table and link as artifacts of the flow run.

    An error of Prefect's server is reported and not raised. A retry adds newer versions.
    """
    evaluation, results = summary.evaluation, load_results(summary, Path(output))
    name, word = map(escape_markdown, (evaluation, get_outcome_words(summary).text))
    address, hint = find_run_page(run)
    report = f"Report: {escape_markdown(str(results.page.resolve()))}"
    links = [f"[Numbers, pictures and files in MLflow]({address}).", hint, report]
    heading, row = f"## {name}: {word}", " ".join(filter(None, links))
    page = "\n\n".join([heading, format_results(results), row])
    rows, note = make_identity_table(summary, output)
    try:
        publish_markdown(make_artifact_key("biasgate", evaluation), page, f"Outcome of {name}")
        publish_table(make_artifact_key("biasgate", evaluation, "identities"), rows, note)
        text = f"MLflow run of {evaluation}"
        publish_link(make_artifact_key("biasgate", evaluation, "mlflow"), address, text, hint)
    except Exception as error:  # noqa: BLE001 - the evaluation is complete
        log_message(f"the results are not on Prefect's pages ({type(error).__name__})")


@task(name="show summary")
def show_summary(summary: Summary, output: str) -> None:
    """Publish the summary as a Markdown artifact; a retry adds a newer version.

    The nested run of `evaluate` publishes its own artifacts.
    """
    name = summary.evaluation
    key = make_artifact_key("biasgate", "nightly", name)
    publish_markdown(
        key, format_results(load_results(summary, Path(output))), escape_markdown(name)
    )
