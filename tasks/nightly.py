"""What a scheduled run does besides evaluating: a folder by date, a summary to look at."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.orchestration import publish_markdown, task


@task(name="name folder")
def folder_of_this_run(output: str) -> str:
    """Return `output/<UTC date and time>`, not used yet."""
    return str(Path(output) / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ"))


def summary_markdown(summary: Mapping[str, Any]) -> str:
    """Return a summary as Markdown: a table of verdicts, then every demand that is not met."""
    lines = ["| candidate | set | verdict | demands not met |", "|---|---|---|--:|"]
    missed = []
    for verdict in summary["verdicts"]:
        against = [one["sentence"] for one in verdict["results"] if one["outcome"] != "pass"]
        names = verdict["candidate"]["name"], verdict["evaluation_set"]["name"]
        lines.append(f"| {names[0]} | {names[1]} | {verdict['outcome']} | {len(against)} |")
        missed += [f"- {names[0]} on {names[1]}: {sentence}" for sentence in against]
    decisions = [f"- {sentence}" for sentence in summary["sentences"]]
    return "\n".join([*lines, "", *decisions, *([""] if missed else []), *missed])


@task(name="show summary")
def show_summary(summary: dict[str, Any]) -> None:
    """Publish the summary as a Markdown artifact; a retry adds a newer version of it."""
    publish_markdown("biasgate-nightly", summary_markdown(summary), summary["evaluation"])
