"""Options that commands share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from biasgate.tasks.included import list_included_names

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
        f"{', '.join(list_included_names())}.",
        metavar="CONFIG",
    ),
]
ConfigOrTable = Annotated[
    str,
    typer.Argument(
        help="Evaluation file (YAML); an included evaluation: "
        f"{', '.join(list_included_names())}; or a table (CSV, JSON lines, Parquet) with --label, "
        "--identities and --score.",
        metavar="CONFIG",
    ),
]


def _column(metavar: str, text: str, *names: str, **more: Any) -> Any:
    """Return an option of a table; the name of its parameter names it unless `names` do."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel="Table", **more)


def _number(text: str | float) -> float:
    """Return a number; refuse a decimal comma with its remedy."""
    try:
        return float(text)
    except ValueError:
        msg = f"must be a number, as in 0.5; got {text!r}."
        if "," in str(text):
            msg += " Write decimals with a point."
        raise typer.BadParameter(msg) from None


Label = Annotated[
    str | None,
    _column(
        "COLUMN", "Label: a fraction, 0 and 1, or values, as in verdict=yes/no if yes means toxic."
    ),
]
Identities = Annotated[
    str | None, _column("COLUMNS", "Identities, separated by commas; or one column of their names.")
]
Score = Annotated[
    list[str] | None, _column("COLUMN", "Scores of a candidate; once for each candidate.")
]
ScoresFile = Annotated[
    Path | None,
    _column("FILE", "File of ids and scores, if they are not in the table.", "--scores"),
]
Id = Annotated[
    str | None,
    _column(
        "COLUMN",
        "Ids, as in id=comment_id if the scores name them so. Default: id, or the row's number.",
        "--id",
    ),
]
Threshold = Annotated[
    float | None, _column("SCORE", "Score from which comments are flagged.", parser=_number)
]
Output = Annotated[Path, typer.Option(help="Folder for reports, verdicts and figures.")]
Sample = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="For a first look, use a fixed random sample of about N rows per set, training sets "
        "included; downloads stay whole. It never replaces a champion.",
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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors.")]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Do not ask before sending comments to services with a price or limits; "
        "`sends_text_to` in CONFIG lists their hosts.",
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
