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


def format_example(command: str) -> str:
    """Return the last line of a page of help: a typical call of the command."""
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


def _make_option(metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """Return an option of a table; without `names`, it is named after its parameter."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel="Table", **settings)


def _parse_number(text: str | float) -> float:
    try:
        return float(text)
    except ValueError:
        msg = f"must be a number, as in 0.5; got {text!r}."
        if "," in str(text):
            msg += " Write decimals with a point."
        raise typer.BadParameter(msg) from None


Label = Annotated[
    str | None,
    _make_option(
        "COLUMN", "Label: a fraction, 0 and 1, or values, as in verdict=yes/no if yes means toxic."
    ),
]
Identities = Annotated[
    str | None,
    _make_option("COLUMNS", "Identities, separated by commas; or one column of their names."),
]
Score = Annotated[
    list[str] | None, _make_option("COLUMN", "Scores of a candidate; once for each candidate.")
]
ScoresFile = Annotated[
    Path | None,
    _make_option("FILE", "File of ids and scores, if they are not in the table.", "--scores"),
]
Id = Annotated[
    str | None,
    _make_option(
        "COLUMN",
        "Ids, as in id=comment_id if the scores name them so. Default: id, or the row's number.",
        "--id",
    ),
]
Threshold = Annotated[
    float | None,
    _make_option("SCORE", "Score from which comments are flagged.", parser=_parse_number),
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
# On a narrower terminal, the boxes around options cut their names.
_MIN_BOX_COLUMNS = 80
MARKUP: Literal["rich"] | None = (
    "rich" if shutil.get_terminal_size().columns >= _MIN_BOX_COLUMNS else None
)
"""Layout of help: boxes, or plain lines on a narrow terminal."""
