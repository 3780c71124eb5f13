"""An evaluation on Prefect's pages: a summary, a table of identities, a link to its MLflow run.

The MLflow runs name the flow run in turn, so that one finds the other from either side.
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
from biasgate.tasks.reporting.markdown import results_markdown
from biasgate.tasks.reporting.page.grids import MARKS, GridCell, metric_grid
from biasgate.tasks.reporting.results import Results, results_of
from biasgate.tasks.tracking.addresses import artifact_page, run_page
from biasgate.tasks.tracking.resume import EvaluationRun

FLOW_RUN_TAG, FLOW_RUN_PAGE_TAG = "biasgate.prefect_flow_run", "biasgate.prefect_flow_run_page"
# Where `biasgate ui` shows a local store unless it is told another port.
LOCAL_PAGES = "http://127.0.0.1:5000"
# Most rows of a table; Prefect's pages show all of them at once.
_ROWS = 300


def flow_run_tags() -> dict[str, str]:
    """Return the MLflow tags that name the Prefect flow run; none outside of a flow."""
    found = find_flow_run_page()
    if found is None:
        return {}
    run_id, page = found
    return {FLOW_RUN_TAG: run_id} | ({FLOW_RUN_PAGE_TAG: page} if page else {})


def flow_run_link() -> str:
    """Return a Markdown link to the page of the flow run; empty if its address is not known."""
    found = find_flow_run_page()
    return f"[Flow run in Prefect]({found[1]})" if found and found[1] else ""


class MlflowPages:
    """Addresses of MLflow's pages on the runs of an evaluation.

    Those of a local store exist while `biasgate ui` runs; `hint` says so.
    """

    def __init__(self, run: EvaluationRun) -> None:
        gateway = run.workplace.gateway
        is_server = gateway.uri.startswith(("http://", "https://"))
        self._root = gateway.uri.rstrip("/") if is_server else LOCAL_PAGES
        self._experiment_id = gateway.experiment_of(run.run_id)
        self.hint = ""
        if not is_server:
            self.hint = f"The link works while `{gateway.command('ui')}` runs."

    def of_run(self, run_id: str) -> str:
        """Return the address of one run."""
        return f"{self._root}/{run_page(self._experiment_id, run_id)}"


def summary_page(results: Results, pages: MlflowPages, summary: Summary) -> str:
    """Return what people read first, with links to everything else, in Markdown."""
    links = [f"[Numbers, pictures and files in MLflow]({pages.of_run(summary.run_id)})."]
    links += [pages.hint] if pages.hint else []
    links.append(f"Report: {escape_markdown(str(results.page.resolve()))}")
    name, word = (
        escape_markdown(summary.evaluation),
        escape_markdown(get_outcome_words(summary).text),
    )
    return "\n\n".join([f"## {name}: {word}", results_markdown(results), " ".join(links)])


def identity_table(summary: Summary, output: str) -> tuple[list[dict[str, str]], str]:
    """Return the metrics of each candidate's identities, the worst first, and a note.

    Cells are short, and free of Markdown, which not all of Prefect's pages understand.
    """
    verdicts = summary.verdicts
    most = max(_ROWS // max(len(verdicts), 1), 1)
    has_sets = len({one.evaluation_set.name for one in verdicts}) > 1
    rows: list[dict[str, str]] = []
    is_cut = False
    for verdict in verdicts:
        of_candidate = list(_rows(verdict, output, has_sets=has_sets))
        rows += of_candidate[:most]
        is_cut = is_cut or len(of_candidate) > most
    marks = {mark: words for mark, words in MARKS.values() if mark}
    legend = ", ".join(f"{mark} {words}" for mark, words in marks.items())
    note = f"Metrics by identity, the worst first, with 95% intervals. {legend}."
    if is_cut:
        note += f" Only the worst {most} per candidate and set; all are in `bias_metrics.csv`."
    return rows, note


def _rows(verdict: LoggedVerdict, output: str, *, has_sets: bool) -> Iterator[dict[str, str]]:
    name, of_set = verdict.candidate.name, verdict.evaluation_set.name
    path = Path(output) / of_set / name / "report.json"
    report = Report.read(path.read_bytes())
    grid = metric_grid(report, verdict)
    named = {"candidate": escape_markdown(name)} | (
        {"set": escape_markdown(of_set)} if has_sets else {}
    )
    for row in grid.rows:
        numbers = zip(grid.columns, row.cells, strict=True)
        yield {
            **named,
            "identity": escape_markdown(row.name),
            "comments": row.n,
            **{column.title: _text(cell) for column, cell in numbers},
        }


def _text(cell: GridCell) -> str:
    if cell.lack:
        return "no evidence"
    return " ".join(filter(None, [cell.mark, cell.text, cell.interval]))


@task(name="find report")
def report_address(run: EvaluationRun, page: str) -> str:
    """Return where people open the page: on MLflow's server, or else its path. Only reads."""
    gateway = run.workplace.gateway
    if not gateway.uri.startswith(("http://", "https://")):
        return page
    address = artifact_page(gateway.experiment_of(run.run_id), run.run_id, Path(page).name)
    return f"{gateway.uri.rstrip('/')}/{address}"


@task(name="show results")
def show_results(summary: Summary, output: str, run: EvaluationRun) -> None:
    """Publish summary, table and link as artifacts of the flow run.

    A server that cannot be reached does no harm. A retry adds newer versions.
    """
    evaluation, pages = summary.evaluation, MlflowPages(run)
    page = summary_page(results_of(summary, Path(output)), pages, summary)
    rows, note = identity_table(summary, output)
    name = escape_markdown(evaluation)
    try:
        publish_markdown(make_artifact_key("biasgate", evaluation), page, f"Outcome of {name}")
        publish_table(make_artifact_key("biasgate", evaluation, "identities"), rows, note)
        address, text = pages.of_run(summary.run_id), f"MLflow run of {evaluation}"
        publish_link(make_artifact_key("biasgate", evaluation, "mlflow"), address, text, pages.hint)
    except Exception as error:  # noqa: BLE001 - whatever it is, the evaluation is done
        log_message(f"the results are not on Prefect's pages ({type(error).__name__})")


@task(name="show summary")
def show_summary(summary: Summary, output: str) -> None:
    """Publish the summary as a Markdown artifact; a retry adds a newer version.

    The run of `evaluate` below has artifacts of its own.
    """
    name = summary.evaluation
    key = make_artifact_key("biasgate", "nightly", name)
    publish_markdown(
        key, results_markdown(results_of(summary, Path(output))), escape_markdown(name)
    )
