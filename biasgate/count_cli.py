"""`biasgate count`: a verdict on more rows than fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from biasgate.options import (
    DEFAULT_STORE,
    EVALUATE,
    AsJson,
    Output,
    Store,
    TaskRunner,
    TaskRunnerOptions,
    Verbose,
    example,
)
from biasgate.printing import print_json
from biasgate.running import run_flow, run_tasks_by
from biasgate.telling import errors_told, say, waiting

app = typer.Typer()


@app.command(rich_help_panel=EVALUATE, epilog=example("count chats.yaml --output counted"))
def count(
    config: Annotated[Path, typer.Argument(help="Count file (YAML).", metavar="CONFIG")],
    output: Output,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
    task_runner: TaskRunner = None,
    task_runner_options: TaskRunnerOptions = None,
    verbose: Verbose = False,  # noqa: FBT002
) -> None:
    """Judge a candidate by counts of its scores: shard by shard, in the memory of one.

    Scores are columns of the shards. What was counted is kept in OUTPUT/counts, and is not counted
    again. Nothing is promoted.
    """
    with errors_told(verbose=verbose, quiet=as_json, places={"store": store, "output": output}):
        say(f"reading {config}")
        with waiting("reading"):
            from biasgate.tasks.common.files import require_writable  # noqa: PLC0415
            from biasgate.tasks.counting.settings import read_count_file  # noqa: PLC0415

            for what, folder in (("output", output), ("store", store)):
                require_writable(folder.absolute(), what)
            read_count_file(config)
        run_tasks_by(task_runner, task_runner_options)
        verdict = run_flow("count", str(config), str(output), store=store)
        from biasgate.tasks.reporting.results import read_results  # noqa: PLC0415
        from biasgate.tasks.reporting.terminal import print_results  # noqa: PLC0415
        from biasgate.tasks.wording import word_of_verdict  # noqa: PLC0415

        if as_json:
            print_json(verdict)
        else:
            print_results(read_results(output))
        raise typer.Exit(word_of_verdict(verdict).exit_code)
