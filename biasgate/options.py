"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
        help="Send comments to services that have a price or limits without asking; where is in "
        "`sends_text_to` of CONFIG.",
    ),
]
DEFAULT_STORE = Path(".biasgate")
