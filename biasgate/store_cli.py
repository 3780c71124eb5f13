"""The commands that set up and maintain: `biasgate ui`, `schema`, `doctor` and `clean`."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal
from rich.text import Text

from biasgate.options import DEFAULT_STORE, READ, SET_UP, AsJson, Store, format_example
from biasgate.output import (
    BLOCKED,
    USAGE,
    print_error,
    print_json,
    print_sentence,
    report_errors,
    report_step,
    show_activity,
)
from biasgate.running import open_gateway
from biasgate.tasks.common.console import escape_text, make_console, print_text
from biasgate.tasks.common.printable import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biasgate.tasks.cleaning import CleaningPlan, StoreItem
    from biasgate.tasks.doctor import Diagnosis
    from biasgate.tasks.mlflow_server.runs import Gateway


app = typer.Typer()


@app.command(rich_help_panel=READ, epilog=format_example("ui"))
def ui(
    store: Store = DEFAULT_STORE,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 5000,
) -> None:
    """Start MLflow on the runs of the store.

    Only this machine can reach it. The links to its pages are printed. If MLFLOW_TRACKING_URI
    names a server, nothing is started: the links lead to its pages.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    with report_errors(places={"store": store}):
        gateway = open_gateway(store)
        if gateway.uri.startswith("http"):
            print_sentence("MLFLOW_TRACKING_URI is set: MLflow runs there. Runs of")
            _print_links(gateway.uri.rstrip("/"), gateway)
            return
        if _is_port_used(port):
            with socket.create_server(("127.0.0.1", 0)) as probe:
                free_port = probe.getsockname()[1]
            print_error(
                f"port {port} of 127.0.0.1 must be free; a program uses it, perhaps MLflow on "
                f"another store. Stop that, or choose a port: --port {free_port}"
            )
            raise typer.Exit(USAGE)
        address = f"http://127.0.0.1:{port}"
        print_sentence(
            f"MLflow starts on {address} in about 20 seconds (stop with Ctrl-C). Runs of"
        )
        _print_links(address, gateway)
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--backend-store-uri", gateway.uri, "--workers", "1"]
    if gateway.artifacts:
        command += ["--default-artifact-root", gateway.artifacts]
    # The job runner, which is not used here, would start eight more processes of 250 MB.
    environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"} | os.environ
    # The server replaces this process, so that both end together.
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own command


def _print_links(address: str, gateway: Gateway) -> None:
    """Print the pages of each experiment; an experiment without evaluations has only its runs."""
    from biasgate.tasks.tracking import addresses, view  # noqa: PLC0415

    for name, experiment in gateway.list_experiments().items():
        experiment_id = experiment.experiment_id
        if f"{view.TAG}{view.LATEST}" not in experiment.tags:
            print_sentence(f"  {name}: {address}/{addresses.format_runs_address(experiment_id)}")
            continue
        pages = {
            "candidates": addresses.format_view_address(experiment_id, view.LATEST),
            "charts": addresses.format_view_address(experiment_id, view.LATEST, charts=True),
            "all evaluations": addresses.format_view_address(experiment_id, view.ALL),
            "models": addresses.format_models_address(experiment_id),
        }
        print_sentence(f"  {name}:")
        for title, page in pages.items():
            typer.echo(f"    {title:<16}{address}/{page}")


def _is_port_used(port: int) -> bool:
    """Return True if a server on this machine already uses the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


_INDENT = 9
_COLOURS = {"ok": "green", "warning": "yellow", "wrong": "bold red"}


@app.command(rich_help_panel=SET_UP, epilog=format_example("schema table"))
def schema(
    section: Annotated[
        str,
        typer.Argument(
            help="`evaluation`, `policy`, `count`, or a kind such as table.", metavar="SECTION"
        ),
    ] = "evaluation",
    basic: Annotated[  # noqa: FBT002
        bool, typer.Option("--basic", help="Explain only the keys that most files need.")
    ] = False,
    as_json: Annotated[  # noqa: FBT002
        bool, typer.Option("--json", help="Print the JSON Schema of a file, for editors.")
    ] = False,
) -> None:
    """Explain the keys of files, or print their JSON Schema.

    `biasgate schema --json > evaluation.schema.json`, and as first line of an evaluation file
    next to it: `# yaml-language-server: $schema=evaluation.schema.json`
    """
    with report_errors(quiet=as_json):
        from biasgate.tasks.evaluation_file import (  # noqa: PLC0415
            explain_basics,
            explain_section,
            get_file_schema,
        )

        if as_json:
            print_json(get_file_schema(section))
        else:
            out = make_console()
            for line in explain_basics() if basic else explain_section(section):
                print_text(out, Text(line), indent=0 if line[0] == " " else 2, in_pipe=True)


@app.command(rich_help_panel=SET_UP, epilog=format_example("doctor"))
def doctor(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:  # noqa: FBT002
    """Check versions, GPU, disks, servers and keys.

    Exit codes: 0 no errors (warnings are possible), 3 something is wrong.
    """
    with report_errors(quiet=as_json):
        with show_activity("checking"):
            from biasgate.tasks.doctor import run_checks  # noqa: PLC0415

            checks = list(run_checks(store))
        if as_json:
            print_json(checks)
        else:
            _print_checks(checks)
        if any(check.status == "wrong" for check in checks):
            raise typer.Exit(BLOCKED)


def _print_checks(checks: list[Diagnosis]) -> None:
    out = make_console()
    for check in checks:
        status = f"{check.status:<{_INDENT}}", _COLOURS[check.status]
        text = escape_invisible(f"{check.what}: {check.found}")
        print_text(out, Text.assemble(status, text), _INDENT)
        if check.do:
            print_text(out, Text(f"{' ' * _INDENT}{escape_invisible(check.do)}", "dim"), indent=0)
    n_wrong = sum(check.status == "wrong" for check in checks)
    n_warnings = sum(check.status == "warning" for check in checks)
    out.print(f"{n_wrong} wrong, {n_warnings} {'warning' if n_warnings == 1 else 'warnings'}.")


@app.command(rich_help_panel=SET_UP, epilog=format_example("clean --keep 90d"))
def clean(
    keep: Annotated[str, typer.Option(help="Keep what was used within this age (30d, 8w).")],
    store: Store = DEFAULT_STORE,
    yes: Annotated[  # noqa: FBT002
        bool, typer.Option("--yes", help="Remove. Without it, only print what would be removed.")
    ] = False,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Remove data that was not used lately from a store.

    It removes scores, sets, models, downloads, tokens and logs. It keeps MLflow's runs, and the
    sets and scores behind a promotion, a rollback or a reset.
    """
    with report_errors(quiet=as_json, places={"store": store}):
        from biasgate.tasks.cleaning import VerdictReferences, plan_cleaning, read_age, remove_items  # noqa: PLC0415

        age = read_age(keep)
        report_step("reading the ledgers")
        with show_activity("reading the ledgers"):
            referenced = VerdictReferences.from_ledgers(open_gateway(store))
            plan = plan_cleaning(store.resolve(), age, referenced)
        removed = list(remove_items(plan.removed)) if yes else []
        if as_json:
            items_by_key = {
                "to_remove": plan.removed,
                "removed": removed,
                "kept": plan.kept,
                "kept_for_a_ledger": plan.referenced,
            }
            content: dict[str, object] = {"dry_run": not yes}
            for key, items in items_by_key.items():
                content[key] = [
                    {"kind": item.kind, "path": str(item.path), "bytes": item.size}
                    for item in items
                ]
            print_json(content)
        else:
            _print_plan(plan, removed, yes=yes)


def _print_plan(plan: CleaningPlan, removed: Sequence[StoreItem], *, yes: bool) -> None:
    out = make_console()
    for item in plan.removed:
        word = "in use " if yes and item not in removed else "removed" if yes else "remove "
        out.print(f"{word}  {_format_size([item])}  {escape_text(str(item.path))}", soft_wrap=True)
    items = removed if yes else plan.removed
    out.print(f"{'Removed' if yes else 'Would remove'} {len(items)} items, {_format_size(items)}.")
    print_sentence(
        f"Kept {len(plan.kept)} items, {_format_size(plan.kept)}; and {len(plan.referenced)} that "
        f"a ledger refers to, {_format_size(plan.referenced)}."
    )
    if plan.removed and not yes:
        out.print("Run again with --yes to remove them.")


def _format_size(items: Sequence[StoreItem]) -> str:
    return decimal(sum(item.size for item in items))
