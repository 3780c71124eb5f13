"""The steps that write pages: by candidate and set, and of the evaluation."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.records import Report, Summary, Verdict
from biasgate.tasks.remembering.reading import read_trend
from biasgate.tasks.reporting.decisions import CHANGED_FILE, format_changes_csv
from biasgate.tasks.reporting.figures import draw_verdict
from biasgate.tasks.reporting.page.details import measure_details, read_details, write_details
from biasgate.tasks.reporting.page.page import (
    Judged,
    Page,
    build_candidate_page,
    build_evaluation_page,
)

FILE = "report.html"
_TEMPLATES = Path(__file__).parent / "templates"


def write_page(page: Page, path: Path) -> None:
    """Write a page atomically."""
    with whole_file(path) as temporary:
        temporary.write_bytes(render_page(page))


def read_judged(output: Path, verdict: Verdict) -> Judged:
    """Read the published results of a candidate on a set."""
    folder = output / verdict.evaluation_set.name / verdict.candidate.name
    report = Report.read((folder / "report.json").read_bytes())
    return report, verdict, read_details(folder, report, verdict)


@task(name="write page", task_run_name="write page of {measured.folder!m}")
def write_candidate_page(
    measured: Measured, verdict: Verdict, evidence: EvidenceFile, output: str, store: str
) -> None:
    """Write `details.json`, `report.html` and the figures of a verdict. Safe to retry.

    They will be published in a folder of `output`.
    """
    folder, report = Path(measured.folder), measured.report
    details = measure_details(report, verdict, evidence)
    write_details(details, folder)
    if verdict.changed is not None:
        (folder / CHANGED_FILE).write_text(format_changes_csv(verdict.changed), "utf-8")
    place = f"{output}/{measured.source.name}/{measured.candidate.name}"
    write_page(build_candidate_page(report, verdict, details, place, store), folder / FILE)
    draw_verdict(report, verdict, details, folder)


@task(name="write evaluation page")
def write_evaluation_page(summary: Summary, output: str) -> str:
    """Write `report.html` for all candidates and sets; return its path. Safe to retry.

    It is made from the published files, also from those of an evaluation that promoted a
    candidate before it was killed.
    """
    path = Path(output) / FILE
    judged = {
        (verdict.evaluation_set.name, verdict.candidate.name): read_judged(Path(output), verdict)
        for verdict in summary.verdicts
    }
    write_page(build_evaluation_page(summary, judged, read_trend(Path(output)), output), path)
    log_message(f"wrote {path}, which any browser opens", aside=True)
    return str(path)


def render_page(page: Page) -> bytes:
    """Return a page as HTML in UTF-8."""
    style, script = ((_TEMPLATES / name).read_text("utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; script-src '{_hash_text(script)}'; style-src '{_hash_text(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    html = (
        _make_environment()
        .get_template("page.html")
        .render(
            page=page,
            to_html=lambda sentence: _format_sentence(sentence, page.names),
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            policy=policy,
        )
    )
    return html.encode("utf-8")


def _format_sentence(sentence: str, names: frozenset[str]) -> Markup:
    """Return a sentence as HTML, with code for words in backticks.

    Each name of another script, or with backticks of its own, is isolated from its surroundings.
    """
    others = [name for name in names if not name.isascii() or "`" in name]
    if not any(name in sentence for name in others):
        return _mark_code(sentence)
    longest_first = sorted(others, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", sentence)
    return Markup().join(
        Markup("<bdi>{}</bdi>").format(escape_invisible(part)) if number % 2 else _mark_code(part)
        for number, part in enumerate(parts)
    )


def _mark_code(text: str) -> Markup:
    """Return a text as HTML, with code for words in backticks."""
    parts = re.split("`([^`]+)`", escape_invisible(text))
    return Markup().join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def _escape_value(value: Any) -> Any:
    """Escape characters that would reorder the line, before autoescaping."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_invisible(value, keep="\n")
    return value


def _format_name(name: str) -> Markup:
    """Return a name isolated from its surroundings, with places where its line may break."""
    text = str(escape(escape_invisible(name))).replace("_", "_<wbr>")
    return Markup(f"<bdi>{text}</bdi>")  # noqa: S704 - escaped above


@cache
def _make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_escape_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["named"] = _format_name
    return environment


def _hash_text(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
