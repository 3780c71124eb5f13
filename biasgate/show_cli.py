"""The commands on results that are there: show them again, compare two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from biasgate.options import AsJson
from biasgate.telling import errors_told

app = typer.Typer()

Folder = Annotated[
    Path,
    typer.Argument(
        help="The `--output` of an evaluation, or a folder SET/CANDIDATE in it.", metavar="DIR"
    ),
]


@app.command()
def show(folder: Folder, as_json: AsJson = False) -> None:  # noqa: FBT002
    """Print the results in a folder again, as `biasgate evaluate` did.

    The exit code is 0 whatever the verdict.
    """
    with errors_told(verbose=False, quiet=as_json):
        from biasgate.first_screen import print_results  # noqa: PLC0415
        from biasgate.tasks.reporting.results import read_results  # noqa: PLC0415

        results = read_results(folder)
        if as_json:
            typer.echo(json.dumps(results.content(), indent=2))
        else:
            print_results(results)
