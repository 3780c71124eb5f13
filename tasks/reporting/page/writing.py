"""The steps that write pages: one for each candidate and set, and one for the evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.records import Report, Summary, Verdict
from biasgate.tasks.remembering.reading import read_trend
from biasgate.tasks.reporting.figures import draw_judged
from biasgate.tasks.reporting.page.details import measure_details, read_details, write_details
from biasgate.tasks.reporting.page.page import Judged, Page, candidate_page, evaluation_page
from biasgate.tasks.reporting.page.rendering import render
from biasgate.tasks.reporting.page.texts import quotes_of, require_texts

FILE = "report.html"


def write_page(page: Page, path: Path) -> None:
    """Write a page atomically."""
    with whole_file(path) as temporary:
        temporary.write_bytes(render(page))


def read_judged(output: Path, verdict: Verdict) -> Judged:
    """Read what was written about a candidate on a set."""
    folder = output / verdict.evaluation_set.name / verdict.candidate.name
    report = Report.read((folder / "report.json").read_bytes())
    return report, verdict, read_details(folder, report)


@task(name="write page", task_run_name="write page of {measured.folder!m}")
def write_candidate_page(measured: Measured, verdict: Verdict, evidence: EvidenceFile) -> None:
    """Write `details.json`, `report.html`, and the figures of what was judged. Safe to retry."""
    folder, report = Path(measured.folder), measured.report
    details = measure_details(report, evidence)
    write_details(details, folder)
    write_page(candidate_page(report, verdict, details), folder / FILE)
    draw_judged(report, verdict, details.differences, folder)


@task(name="write evaluation page")
def write_evaluation_page(summary: Summary, output: str) -> str:
    """Write `report.html` for all candidates and sets; return its path. Safe to retry.

    It is made from the published files, also from those of an evaluation that promoted a
    candidate before it was killed.
    """
    path = Path(output) / FILE
    trend = read_trend(Path(output))
    write_page(evaluation_page(summary, _judged(summary, output), {}, trend, output), path)
    say(f"wrote {path}, which any browser opens", aside=True)
    return str(path)


@task(name="check texts")
def check_texts(sources: Sequence[SourceSettings]) -> None:
    """Refuse sets whose comments cannot be quoted. Safe to retry."""
    require_texts(sources)


@task(name="quote comments")
def quote_comments(summary: Summary, output: str, frozen: Sequence[str]) -> None:
    """Write `report.html` again, with comments. Safe to retry.

    Call it last: what was logged in MLflow before has none.
    """
    judged = _judged(summary, output)
    loaded = [EvaluationSet.load(Path(one)) for one in frozen]
    shown = {place: list(details.scores.subgroups) for place, (_, _, details) in judged.items()}
    quotes = quotes_of(Path(output), {one.name: one for one in loaded}, shown)
    path = Path(output) / FILE
    trend = read_trend(Path(output))
    write_page(evaluation_page(summary, judged, dict(quotes), trend, output), path)
    say(f"{path} quotes comments, behind a warning; the page in MLflow has none", aside=True)


def _judged(summary: Summary, output: str) -> dict[tuple[str, str], Judged]:
    return {
        (one.evaluation_set.name, one.candidate.name): read_judged(Path(output), one)
        for one in summary.verdicts
    }
