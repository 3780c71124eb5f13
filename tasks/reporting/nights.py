"""Extra steps of scheduled runs: a folder named by date, a summary in Prefect."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from biasgate.tasks.common.files import require_writable
from biasgate.tasks.common.markdown import as_text
from biasgate.tasks.common.prefect_artifacts import artifact_key, publish_markdown
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.records import Summary
from biasgate.tasks.reporting.report import summary_markdown


@task(name="name folder")
def folder_of_this_run(output: str) -> str:
    """Create a new folder `output/<UTC date and time>` and return it.

    It is this run's own: one that starts in the same second gets `...-2`.
    """
    require_writable(Path(output).absolute(), "output")
    Path(output).mkdir(parents=True, exist_ok=True)
    name = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    folder = next(one for one in _names(Path(output) / name) if _is_new(one))
    say(f"evaluating into {folder}")
    return str(folder)


def _names(folder: Path) -> Iterator[Path]:
    yield folder
    yield from (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))


def _is_new(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


@task(name="show summary")
def show_summary(summary: Summary) -> None:
    """Publish the summary as a Markdown artifact; a retry adds a newer version.

    The run of `evaluate` below has artifacts of its own.
    """
    name = summary.evaluation
    key = artifact_key("biasgate", "nightly", name)
    publish_markdown(key, summary_markdown(summary), as_text(name))
