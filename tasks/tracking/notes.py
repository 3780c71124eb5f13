"""The notes on MLflow's pages of runs: links, the verdict, and what to look at first."""

from __future__ import annotations

from biasgate.tasks.common.markdown import as_text
from biasgate.tasks.records import Summary
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.markdown import candidates_markdown
from biasgate.tasks.reporting.page.writing import FILE as PAGE
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.tracking.addresses import (
    artifact_page,
    comparison_page,
    models_page,
    tables_page,
    view_page,
)
from biasgate.tasks.tracking.resume import TABLE
from biasgate.tasks.tracking.view import LATEST

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
    explained = [f"- {as_text(text)}" for text in (story.look_first, *story.analyses)]
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
