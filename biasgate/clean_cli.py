"""`biasgate clean`: remove what is old or too much, and nothing that a ledger rests on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from biasgate.options import DEFAULT_STORE, KEEP, AsJson, Store, example
from biasgate.printing import print_json
from biasgate.tasks.common.console import console, shown
from biasgate.tasks.common.errors import InputError
from biasgate.telling import errors_told, say, waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biasgate.tasks.upkeep import Plan, StoreItem

app = typer.Typer()


@app.command(rich_help_panel=KEEP, epilog=example("clean --keep 90d --keep 20GB"))
def clean(
    keep: Annotated[
        list[str],
        typer.Option(
            "--keep",
            help="What is kept: an age since the last use (30d, 8w), a size (20GB), or both.",
        ),
    ],
    store: Store = DEFAULT_STORE,
    nights: Annotated[
        Path | None, typer.Option(help="The `--output` of `biasgate nightly`: old nights, too.")
    ] = None,
    yes: Annotated[  # noqa: FBT002
        bool, typer.Option("--yes", help="Remove. Without it, only say what would be removed.")
    ] = False,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Remove scores, sets, models, downloads and old nights that were not used lately.

    What an entry of a ledger rests on is kept, and so are MLflow's runs.
    """
    with errors_told(verbose=False, quiet=as_json, places={"store": store}):
        from biasgate.tasks.upkeep import Keep  # noqa: PLC0415

        wanted = Keep.of(keep)
        if nights is not None and not nights.is_dir():
            msg = f"`--nights` must be a folder; {nights} is none."
            raise InputError(msg)
        say("reading the ledgers")
        with waiting("reading the ledgers"):
            from biasgate.tasks.mlflow_server.local_store import require_store  # noqa: PLC0415
            from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415
            from biasgate.tasks.upkeep import Referenced, plan_cleaning, remove  # noqa: PLC0415

            if not os.environ.get("MLFLOW_TRACKING_URI"):
                require_store(store)
            referenced = Referenced.here(Gateway.of_store(store))
            plan = plan_cleaning(store.resolve(), wanted, referenced, nights)
        removed = list(remove(plan.removed)) if yes else []
        if as_json:
            print_json(_as_json(plan, removed, yes=yes))
        else:
            _print(plan, removed, yes=yes)


def _as_json(plan: Plan, removed: Sequence[StoreItem], *, yes: bool) -> dict[str, Any]:
    def listed(items: Sequence[StoreItem]) -> list[dict[str, Any]]:
        return [{"kind": one.kind, "path": str(one.path), "bytes": one.size} for one in items]

    return {
        "dry_run": not yes,
        "to_remove": listed(plan.removed),
        "removed": listed(removed),
        "kept": listed(plan.kept),
        "kept_for_a_ledger": listed(plan.referenced),
    }


def _print(plan: Plan, removed: Sequence[StoreItem], *, yes: bool) -> None:
    out = console()
    for one in plan.removed:
        word = "in use " if yes and one not in removed else "removed" if yes else "remove "
        out.print(f"{word}  {_told([one])}  {shown(str(one.path))}", soft_wrap=True)
    gone = removed if yes else plan.removed
    out.print(f"{'Removed' if yes else 'Would remove'} {len(gone)} things, {_told(gone)}.")
    out.print(
        f"Kept {len(plan.kept)} things, {_told(plan.kept)}; and {len(plan.referenced)} that a "
        f"ledger rests on, {_told(plan.referenced)}.",
        soft_wrap=True,
    )
    if plan.removed and not yes:
        out.print("Nothing was removed yet: run the same with --yes.")


def _told(items: Sequence[StoreItem]) -> str:
    return decimal(sum(one.size for one in items))
