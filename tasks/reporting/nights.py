"""Extra steps of scheduled runs: a folder named by date, a summary in Prefect."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from biasgate.tasks.common.prefect_task import publish_markdown, say, task
from biasgate.tasks.records import Summary
from biasgate.tasks.reporting.report import summary_markdown


@task(name="name folder")
def folder_of_this_run(output: str) -> str:
    """Return a new folder `output/<UTC date and time>`."""
    folder = Path(output) / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    say(f"evaluating into {folder}")
    return str(folder)


@task(name="show summary")
def show_summary(summary: Summary) -> None:
    """Publish the summary as a Markdown artifact; a retry adds a newer version."""
    key = re.sub(r"[^a-z0-9]+", "-", f"biasgate {summary['evaluation']}".lower()).strip("-")
    publish_markdown(key, summary_markdown(summary), summary["evaluation"])
