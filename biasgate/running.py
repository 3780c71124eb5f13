"""Shared parts of commands: checks of input before Prefect, the run of a flow, the registry."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from biasgate.output import BLOCKED, STEPS, print_error, report_errors, report_step, show_activity
from biasgate.tasks.common.errors import InputError, format_column_names
from biasgate.tasks.ending import run_until_stopped
from biasgate.tasks.included import list_included_names

if TYPE_CHECKING:
    from biasgate.tasks.evaluation_file import Evaluation
    from biasgate.tasks.mlflow_server.runs import Gateway
    from biasgate.tasks.table_evaluation import TableOptions

# A file with such a suffix is read as a table; some formats are refused later.
_TABLE_SUFFIXES = {".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".ndjson"}
_TABLE_SUFFIXES |= {".txt", ".tab", ".dat", ".xlsx", ".xls", ".ods"}


def read_table_options(config: str, values: Mapping[str, Any]) -> TableOptions | None:
    """Return the settings of a table from the values of options; None for an evaluation file.

    A file with an unknown suffix counts as a table if any of the options is given.
    """
    given = [option for option, value in values.items() if value not in (None, [])]
    suffixes = [suffix.lower() for suffix in Path(config).suffixes[-2:]]  # as in table.csv.gz
    is_evaluation = suffixes[-1:] in [[".yaml"], [".yml"]] or config in list_included_names()
    if is_evaluation or not (given or _TABLE_SUFFIXES.intersection(suffixes)):
        if given:
            msg = f"`{given[0]}` must be given with a table; {config} is an evaluation file."
            raise InputError(msg)
        return None
    from biasgate.tasks.table_evaluation import TableOptions, columns_of_table  # noqa: PLC0415

    missing = [option for option in ("--label", "--identities") if option not in given]
    missing += [] if {"--score", "--scores"} & set(given) else ["--score"]
    if missing:
        *others, last = (f"`{option}`" for option in missing)
        options = f"{', '.join(others)} and {last}" if others else last
        msg = (
            f"{config} is a table: name its columns with {options}; it has "
            f"{format_column_names(columns_of_table(Path(config)))}."
        )
        raise InputError(msg)
    return TableOptions(
        values["--label"],
        tuple(filter(None, map(str.strip, values["--identities"].split(",")))),
        tuple(values["--score"] or ()),
        values["--scores"],
        values["--id"],
        values["--threshold"],
    )


def build_evaluation_file(config: str, options: TableOptions, store: Path | None = None) -> str:
    """Return the evaluation file of a table; report the recognised columns, and check the rows.

    With a store, the rows are frozen in it, and the scores are checked as well.
    """
    report_step(f"reading {config}")
    with show_activity("reading"):
        from biasgate.tasks import table_evaluation  # noqa: PLC0415

        text, notes = table_evaluation.describe_table(Path(config), options)
        for note in notes:
            logging.getLogger(STEPS).info("%s", note)
        with TemporaryDirectory() as temporary:
            folder = store or Path(temporary)
            table_evaluation.check_rows(text, folder, with_scores=store is not None)
    return text


def keep_evaluation_file(config: str, options: TableOptions, store: Path) -> str:
    """Write the evaluation file of a table to the store; return its path."""
    check_folders(None, store)
    text = build_evaluation_file(config, options, store)
    name = f"{Path(config).name.partition('.')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    path = store / "evaluations" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    logging.getLogger(STEPS).info("evaluation file: %s", path)
    return str(path)


def load_evaluation(
    config: str,
    output: Path | None,
    store: Path,
    outcome_of: list[str] | None = None,
    *,
    overwrite: bool = True,
    sample: int | None = None,
) -> Evaluation:
    """Return the evaluation; refuse wrong input and folders before the slow start of Prefect."""
    included = "the included evaluation " if config in list_included_names() else ""
    report_step(f"reading {included}{config}")
    with show_activity("reading"):
        from biasgate.tasks.mlflow_server import server  # noqa: PLC0415
        from biasgate.tasks.reading_evaluation import read_evaluation  # noqa: PLC0415

        server.read_address(server.TRACKING)
        server.read_address(server.REGISTRY)
        check_folders(output, store)
        evaluation = read_evaluation(config, outcome_of, sample)
        if output is not None and not overwrite:
            from biasgate.tasks.reporting.publish import require_own_output  # noqa: PLC0415

            require_own_output(output, evaluation.name, overwrite=overwrite)
    return evaluation


def check_count_file(config: str, output: Path, store: Path) -> None:
    """Refuse a wrong count file and wrong folders before the slow start of Prefect."""
    report_step(f"reading {config}")
    with show_activity("reading"):
        from biasgate.tasks.counting.settings import read_count_file  # noqa: PLC0415

        check_folders(output, store)
        read_count_file(Path(config))


def check_folders(output: Path | None, store: Path) -> None:
    """Refuse folders that cannot be written to, or that contain each other."""
    from biasgate.tasks.common.files import require_separate_folders, require_writable  # noqa: PLC0415

    if output is not None:
        require_separate_folders(output, store)
        require_writable(output.absolute(), "output")
    require_writable(store.absolute(), "store")


def check_sets(check: Callable[[], None], store: Path) -> None:
    """Freeze and check the sets before the start of Prefect; a signal ends this within seconds."""
    report_step("checking its sets")
    with show_activity("checking"):
        run_until_stopped(check, store)


def import_flow(name: str) -> Any:
    """Import and return a flow, which takes seconds."""
    module = "score" if name == "train" else name
    return getattr(import_module(f"biasgate.flows.{module}"), name)


def run_flow(name: str, *places: str, store: Path, **options: Any) -> Any:
    """Run a flow; a signal ends it, and everything that it started, within seconds.

    Prefect is imported only here, since that takes seconds; its server starts meanwhile.
    """
    report_step("loading Prefect")
    with show_activity("loading"):
        from biasgate.deployments.temporary_server import start_server  # noqa: PLC0415

        wait_for_server = start_server()
        flow = import_flow(name)
        wait_for_server()
    folder = store.resolve()
    with show_activity("working"):
        return run_until_stopped(lambda: flow(*places, store=str(folder), **options), folder)


def run_evaluation(name: str, *places: str, store: Path, **options: Any) -> Any:
    """Run a flow that evaluates, and return its summary, also if it did not pass."""
    state = run_flow(name, *places, store=store, return_state=True, **options)
    from biasgate.flows.states import get_summary  # noqa: PLC0415

    return get_summary(state)


def set_task_runner(task_runner: str | None, options: str | None) -> None:
    """Set the environment variables of the task runner, also for scheduled processes.

    An unknown class is refused at once.
    """
    os.environ["BIASGATE_TASK_RUNNER"] = task_runner or ""
    os.environ["BIASGATE_TASK_RUNNER_OPTIONS"] = options or ""
    if task_runner:
        from biasgate.tasks.common.prefect_task import make_task_runner  # noqa: PLC0415

        make_task_runner()


def open_gateway(store: Path, *, is_new: bool = False, hint: str = "") -> Gateway:
    """Return the gateway to the server in MLFLOW_TRACKING_URI, or else to a store.

    A missing store is refused unless it may be new (`is_new`). `hint`: the end of that error.
    """
    from biasgate.tasks.mlflow_server.local_store import require_store  # noqa: PLC0415
    from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415

    if not is_new and not os.environ.get("MLFLOW_TRACKING_URI"):
        require_store(store, hint)
    return Gateway.from_store(store)


@contextmanager
def open_registry(
    store: Path, *, quiet: bool, is_new: bool = False, hint: str = ""
) -> Iterator[Gateway]:
    """Yield the gateway of a registry; exit with BLOCKED if verification fails in the body."""
    with report_errors(quiet=quiet, places={"store": store}):
        report_step("opening the registry")
        with show_activity("loading"):
            from biasgate.tasks.common.own_folders import redirect_temporary_files  # noqa: PLC0415
            from biasgate.tasks.promoting.verify import NotVerifiedError  # noqa: PLC0415

        try:
            with redirect_temporary_files():
                with show_activity("opening the registry"):
                    gateway = open_gateway(store, is_new=is_new, hint=hint)
                yield gateway
        except NotVerifiedError as error:
            print_error(str(error))
            raise typer.Exit(BLOCKED) from error
