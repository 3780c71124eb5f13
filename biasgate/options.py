"""Options that commands share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Literal

import typer

from biasgate.tasks.included import included_names

# The groups of commands in `biasgate --help`.
EVALUATE, READ, PROMOTE = "Evaluate", "Read results", "Promote"
SET_UP = "Set up and maintain"

EXAMPLE = "Example: "


def example(command: str) -> str:
    """Return the last line of a page of help: the command as it is typed most often."""
    return f"{EXAMPLE}biasgate {command}"


Config = Annotated[
    str,
    typer.Argument(
        help="Evaluation file (YAML), or the name of an included evaluation: "
        f"{', '.join(included_names())}.",
        metavar="CONFIG",
    ),
]
Output = Annotated[Path, typer.Option(help="Folder for reports, verdicts and figures.")]
Sample = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Use a fixed random part of about N rows of each set, training sets included, for a "
        "first look; downloads stay whole. It replaces no champion.",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show Prefect's log and tracebacks.")
]
Store = Annotated[
    Path,
    typer.Option(
        envvar="BIASGATE_STORE",
        help="Folder for frozen sets, scores and (unless MLFLOW_TRACKING_URI is set) MLflow data.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Send comments to services that have a price or limits without asking; "
        "`sends_text_to` in CONFIG names their hosts.",
    ),
]
TaskRunner = Annotated[
    str | None,
    typer.Option(
        envvar="BIASGATE_TASK_RUNNER",
        metavar="MODULE:CLASS",
        help="Prefect task runner, for example prefect_dask:DaskTaskRunner. Default: threads.",
    ),
]
TaskRunnerOptions = Annotated[
    str | None,
    typer.Option(
        envvar="BIASGATE_TASK_RUNNER_OPTIONS",
        metavar="JSON",
        help="""Options of the task runner, for example '{"address": "tcp://host:8786"}'.""",
    ),
]
DEFAULT_STORE = Path(".biasgate")
# Below this width the boxes around options cut their names.
_BOXES = 80
MARKUP: Literal["rich"] | None = "rich" if shutil.get_terminal_size().columns >= _BOXES else None
"""How help is printed: in boxes, or on a narrow terminal in plain lines."""
