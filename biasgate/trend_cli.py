"""`biasgate trend`: tonight beside the nights before."""

from __future__ import annotations

from typing import Annotated

import typer

from biasgate.options import DEFAULT_STORE, READ, AsJson, Store
from biasgate.printing import print_json
from biasgate.registry_cli import registry
from biasgate.telling import waiting

app = typer.Typer()


@app.command(rich_help_panel=READ)
def trend(
    evaluation: Annotated[
        str, typer.Argument(help="Name of the evaluation, as in its file.", metavar="NAME")
    ],
    nights: Annotated[
        int, typer.Option(min=1, max=365, help="So many nights, with the last one.")
    ] = 8,
    metric: Annotated[
        str | None, typer.Option(help="Only this number, for example bpsn_auc.")
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Print the last night of an evaluation beside the nights before: what changed, and why."""
    with registry(store, quiet=as_json) as gateway:
        with waiting("reading"):
            from bias_metrics.parts import Table  # noqa: PLC0415
            from biasgate.tasks.common.errors import InputError  # noqa: PLC0415
            from biasgate.tasks.common.printable import printable  # noqa: PLC0415
            from biasgate.tasks.remembering.memory import Memory, require_nights  # noqa: PLC0415
            from biasgate.tasks.remembering.rows import lines_of  # noqa: PLC0415

            found = require_nights(Memory(gateway, evaluation), nights)
        known = sorted({key.partition("/")[0] for one in found[-1].models for key in one.numbers})
        if metric is not None and metric not in known:
            msg = f"`--metric` must be one of {', '.join(known)}; got {metric!r}."
            raise InputError(msg)
        if as_json:
            print_json(found)
            return
        for night in found:
            news = night.news or ["nothing changed."]
            for number, sentence in enumerate(news):
                head = f"night {night.number}, {night.at[:10]}: " if number == 0 else "  "
                typer.echo(f"{head}{printable(sentence)}")
        for line in lines_of(found):
            rows = [
                {
                    "metric": row.metric,
                    "identity": row.group,
                    "earlier": " ".join(row.earlier),
                    "lowest": row.lowest,
                    "highest": row.highest,
                    "tonight": row.tonight,
                    "interval": row.interval,
                }
                for row in line.rows
                if metric in {None, row.metric}
            ]
            title = f"{line.candidate} ({line.model}) on {line.evaluation_set}"
            typer.echo(f"\n{Table.of(rows, title).text()}")
