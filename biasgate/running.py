"""What commands share: checks of input before Prefect, the run of a flow, the open registry."""

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

from biasgate.output import BLOCKED, STEPS, print_error, report_errors, say, waiting
from biasgate.tasks.common.errors import InputError, format_column_names
from biasgate.tasks.ending import run_until_stopped
from biasgate.tasks.included import list_included_names

if TYPE_CHECKING:
    from biasgate.tasks.evaluation_file import Evaluation
    from biasgate.tasks.table_evaluation import TableOptions

_TABLES = frozenset({".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".ndjson"})
# Evaluation files never have these names; a table may have any name but theirs.
_NO_EVALUATIONS = frozenset({".txt", ".tab", ".dat", ".xlsx", ".xls", ".ods"})
_EVALUATIONS = frozenset({".yaml", ".yml"})


def read_table_options(config: str, given: Mapping[str, Any]) -> TableOptions | None:
    """Return the options of a table, by option; None for an evaluation file, which has none."""
    named = [option for option, value in given.items() if value not in (None, [])]
    suffixes = {suffix.lower() for suffix in Path(config).suffixes[-2:]}
    may_be_one = not _EVALUATIONS & suffixes and config not in list_included_names()
    if not (_TABLES | _NO_EVALUATIONS) & suffixes and not (named and may_be_one):
        if named:
            msg = f"`{named[0]}` must be given with a table; {config} is an evaluation file."
            raise InputError(msg)
        return None
    from biasgate.tasks.table_evaluation import TableOptions, columns_of_table  # noqa: PLC0415

    lacking = [option for option in ("--label", "--identities") if option not in named]
    lacking += [] if {"--score", "--scores"} & set(named) else ["--score"]
    if lacking:
        *most, last = (f"`{option}`" for option in lacking)
        options = f"{', '.join(most)} and {last}" if most else last
        msg = (
            f"{config} is a table: name its columns with {options}; it has "
            f"{format_column_names(columns_of_table(Path(config)))}."
        )
        raise InputError(msg)
    identities = tuple(filter(None, map(str.strip, given["--identities"].split(","))))
    return TableOptions(
        given["--label"],
        identities,
        tuple(given["--score"] or ()),
        given["--scores"],
        given["--id"],
        given["--threshold"],
    )


def describe_table(config: str, options: TableOptions, store: Path | None = None) -> str:
    """Return the evaluation file of a table; report what was recognised, and check its rows.

    They are frozen in the store. Without one only the set is checked, and nothing is kept.
    """
    say(f"reading {config}")
    with waiting("reading"):
        from biasgate.tasks import table_evaluation  # noqa: PLC0415

        text, notes = table_evaluation.describe_table(Path(config), options)
        for note in notes:
            logging.getLogger(STEPS).info("%s", note)
        with TemporaryDirectory() as folder:
            place = Path(folder) if store is None else store
            table_evaluation.check_rows(text, place, with_scores=store is not None)
    return text


def keep_evaluation_file(config: str, options: TableOptions, store: Path) -> str:
    """Write the evaluation file of a table to the store; return its path."""
    check_places(None, store)
    text = describe_table(config, options, store)
    name = f"{Path(config).name.partition('.')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    path = store / "evaluations" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    logging.getLogger(STEPS).info("evaluation file: %s", path)
    return str(path)


def check_input(
    config: str,
    output: Path | None,
    store: Path,
    outcome_of: list[str] | None = None,
    *,
    overwrite: bool = True,
    sample: int | None = None,
) -> Evaluation:
    """Refuse wrong input and places at once, before the slow start of Prefect; return the rest."""
    included = "the included evaluation " if config in list_included_names() else ""
    say(f"reading {included}{config}")
    with waiting("reading"):
        from biasgate.tasks.mlflow_server import server  # noqa: PLC0415
        from biasgate.tasks.reading_evaluation import read_evaluation  # noqa: PLC0415

        server.read_address(server.TRACKING)
        server.read_address(server.REGISTRY)
        check_places(output, store)
        evaluation = read_evaluation(config, outcome_of, sample)
        if output is not None and not overwrite:
            from biasgate.tasks.reporting.publish import require_own_output  # noqa: PLC0415

            require_own_output(output, evaluation.name, overwrite=overwrite)
    return evaluation


def check_count_file(config: str, output: Path, store: Path) -> None:
    """Refuse a wrong count file and places at once, before the slow start of Prefect."""
    say(f"reading {config}")
    with waiting("reading"):
        from biasgate.tasks.counting.settings import read_count_file  # noqa: PLC0415

        check_places(output, store)
        read_count_file(Path(config))


def check_places(output: Path | None, store: Path) -> None:
    """Refuse places that cannot be written to, or that contain each other."""
    from biasgate.tasks.common.files import require_separate_folders, require_writable  # noqa: PLC0415

    if output is not None:
        require_separate_folders(output, store)
        require_writable(output.absolute(), "output")
    require_writable(store.absolute(), "store")


def check_sets(check: Callable[[], None], store: Path) -> None:
    """Refuse sets that cannot be worked with, before Prefect; a signal ends it within seconds.

    Sets are frozen for it, which the flow does not do again.
    """
    say("checking its sets")
    with waiting("checking"):
        run_until_stopped(check, store)


def flow_called(name: str) -> Any:
    """Return a flow; importing it takes seconds."""
    module = {"train": "score"}.get(name, name)
    return getattr(import_module(f"biasgate.flows.{module}"), name)


def run_flow(name: str, *places: str, store: Path, **options: Any) -> Any:
    """Run the flow of this name; a signal ends it, and everything that it started, within seconds.

    Prefect is imported only here, since that takes seconds; its server starts meanwhile.
    """
    say("loading Prefect")
    with waiting("loading"):
        from biasgate.deployments.temporary_server import start_server  # noqa: PLC0415

        wait_for_server = start_server()
        flow = flow_called(name)
        wait_for_server()
    where = store.resolve()
    with waiting("working"):
        return run_until_stopped(lambda: flow(*places, store=str(where), **options), where)


def run_evaluation(name: str, *places: str, store: Path, **options: Any) -> Any:
    """Run the flow `evaluate` or `nightly`; return its summary, whether it passed or not."""
    state = run_flow(name, *places, store=store, return_state=True, **options)
    from biasgate.flows.states import get_summary  # noqa: PLC0415

    return get_summary(state)


def run_tasks_by(task_runner: str | None, options: str | None) -> None:
    """Set the environment variables that flows read, here and in scheduled processes."""
    os.environ["BIASGATE_TASK_RUNNER"] = task_runner or ""
    os.environ["BIASGATE_TASK_RUNNER_OPTIONS"] = options or ""
    if task_runner:
        from biasgate.tasks.common import prefect_task as orchestration  # noqa: PLC0415

        orchestration.make_task_runner()  # an unknown class fails before any work


@contextmanager
def open_registry(
    store: Path, *, quiet: bool = False, new: bool = False, nor: str = ""
) -> Iterator[Any]:
    """Yield the gateway of an existing store; exit as for a block if verification fails.

    `nor`: the end of the error if there is no store.
    """
    with report_errors(quiet=quiet, places={"store": store}):
        say("opening the registry")
        with waiting("loading"):
            from biasgate.tasks.common.own_folders import redirect_temporary_files  # noqa: PLC0415
            from biasgate.tasks.mlflow_server.local_store import require_store  # noqa: PLC0415
            from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415
            from biasgate.tasks.promoting.verify import NotVerifiedError  # noqa: PLC0415

        if not new and not os.environ.get("MLFLOW_TRACKING_URI"):
            require_store(store, nor)
        try:
            with redirect_temporary_files():
                with waiting("opening the registry"):
                    gateway = Gateway.from_store(store)
                yield gateway
        except NotVerifiedError as error:
            print_error(str(error))
            raise typer.Exit(BLOCKED) from error
