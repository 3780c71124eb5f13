"""What a scheduled run does besides evaluating: a folder by date, a summary to look at."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.orchestration import publish_markdown, task
from tasks.reporting import summary_markdown


@task(name="name folder")
def folder_of_this_run(output: str) -> str:
    """Return `output/<UTC date and time>`, not used yet."""
    return str(Path(output) / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ"))


@task(name="show summary")
def show_summary(summary: dict[str, Any]) -> None:
    """Publish the summary as a Markdown artifact; a retry adds a newer version of it."""
    publish_markdown("biasgate-nightly", summary_markdown(summary), summary["evaluation"])
