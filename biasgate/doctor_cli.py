"""`biasgate doctor`: whether evaluations can work here, and what to do where they cannot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biasgate.options import DEFAULT_STORE, KEEP, AsJson, Store, example
from biasgate.printing import print_json
from biasgate.tasks.common.console import console, shown
from biasgate.tasks.outcomes import WORDS
from biasgate.telling import errors_told, waiting

if TYPE_CHECKING:
    from biasgate.tasks.doctor import Check

app = typer.Typer()
WRONG = WORDS["fail"].exit_code
_COLOURS = {"ok": "green", "warning": "yellow", "wrong": "bold red"}


@app.command(rich_help_panel=KEEP, epilog=example("doctor toxicity.yaml"))
def doctor(
    config: Annotated[
        Path | None, typer.Argument(help="Evaluation file to check, too.", metavar="CONFIG")
    ] = None,
    store: Store = DEFAULT_STORE,
    read_only: Annotated[  # noqa: FBT002
        bool,
        typer.Option("--read-only", help="Do not try in the registry whether an alias can be set."),
    ] = False,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Look at versions, servers, GPU, disks, keys and data; say what to do.

    Exit codes: 0 nothing is wrong (there may be warnings), 3 something is.
    """
    with errors_told(verbose=False, quiet=as_json):
        with waiting("looking"):
            from biasgate.tasks.doctor import examine  # noqa: PLC0415

            found = list(examine(store, config, may_write=not read_only))
        if as_json:
            print_json(found)
        else:
            _print(found)
        if any(one.status == "wrong" for one in found):
            raise typer.Exit(WRONG)


def _print(found: list[Check]) -> None:
    out = console()
    for one in found:
        colour = _COLOURS[one.status]
        out.print(
            f"[{colour}]{one.status:<8}[/] {shown(one.what)}: {shown(one.found)}", soft_wrap=True
        )
        if one.do:
            out.print(f"         [dim]{shown(one.do)}[/]", soft_wrap=True)
    wrong = sum(one.status == "wrong" for one in found)
    warned = sum(one.status == "warning" for one in found)
    out.print(f"{wrong} wrong, {warned} {'warning' if warned == 1 else 'warnings'}.")
