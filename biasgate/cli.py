"""The commands that run flows; each exits with the code of the outcome."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from biasgate import keys_cli, policy_cli, registry_cli, show_cli, store_cli
from biasgate.options import (
    DEFAULT_STORE,
    EVALUATE,
    MARKUP,
    SET_UP,
    AsJson,
    Config,
    ConfigOrTable,
    Id,
    Identities,
    Label,
    Output,
    Quiet,
    Sample,
    Score,
    ScoresFile,
    Store,
    TaskRunner,
    TaskRunnerOptions,
    Threshold,
    Verbose,
    Yes,
    format_example,
)
from biasgate.output import (
    CRASH,
    print_error,
    print_json,
    print_next_steps,
    print_sentence,
    report_errors,
    report_step,
)
from biasgate.running import (
    build_evaluation_file,
    check_count_file,
    check_folders,
    check_sets,
    keep_evaluation_file,
    load_evaluation,
    read_table_options,
    run_evaluation,
    run_flow,
    set_task_runner,
)
from biasgate.tasks.common.command_lines import format_command
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.included import is_count_file, save_included, shorten_argument, write_new_file
from biasgate.tasks.outcomes import get_outcome_words

if TYPE_CHECKING:
    from biasgate.tasks.records import Summary


class Commands(TyperGroup):
    """All commands. Options for shell completion are not listed, so that help fits a screen."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, with those for shell completion hidden."""
        params: list[Any] = super().get_params(ctx)
        for param in params:
            param.hidden = str(param.name).endswith("_completion")
        return params


app = typer.Typer(
    name="biasgate",
    cls=Commands,
    help="Measure identity bias of text classifiers, and gate their promotion on it.",
    no_args_is_help=True,
    rich_markup_mode=MARKUP,
    pretty_exceptions_enable=False,
)

app.add_typer(show_cli.app)
app.add_typer(registry_cli.app)
app.add_typer(policy_cli.app, rich_help_panel=SET_UP)
app.add_typer(keys_cli.app, rich_help_panel=SET_UP)
app.add_typer(store_cli.app)

OutcomeOf = Annotated[
    list[str] | None,
    typer.Option(
        "--candidate",
        metavar="NAME",
        help="Candidate that decides the exit code; may be given more than once. "
        "Default: `outcome_of` in CONFIG, or else all.",
    ),
]


@app.callback(invoke_without_command=True)
def start(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,  # noqa: FBT002
) -> None:
    """Exit codes: 0 passed, 3 blocked, 4 undecided, 1 error or crash, 2 wrong input.

    With several candidates the worst outcome counts: error, then blocked, then not enough
    evidence, then passed.
    """
    if version:
        from biasgate import __version__  # noqa: PLC0415

        typer.echo(f"biasgate {__version__}")
        raise typer.Exit


@app.command(rich_help_panel=EVALUATE, epilog=format_example("evaluate toxicity.yaml --output out"))
def evaluate(
    config: ConfigOrTable,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder for reports, verdicts and figures; required. Default for a table: out."
        ),
    ] = None,
    label: Label = None,
    identities: Identities = None,
    score: Score = None,
    scores: ScoresFile = None,
    id_column: Id = None,
    threshold: Threshold = None,
    store: Store = DEFAULT_STORE,
    sample: Sample = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Only write the evaluation file of a table, or a copy of an included one.",
        ),
    ] = None,
    submission: Annotated[  # noqa: FBT002
        bool, typer.Option("--submission", help="Also write scores as a Kaggle submission.")
    ] = False,
    outcome_of: OutcomeOf = None,
    overwrite: Annotated[  # noqa: FBT002
        bool,
        typer.Option("--overwrite", help="Replace the results of another evaluation in --output."),
    ] = False,
    yes: Yes = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
    quiet: Quiet = False,  # noqa: FBT002
    task_runner: TaskRunner = None,
    task_runner_options: TaskRunnerOptions = None,
    verbose: Verbose = False,  # noqa: FBT002
) -> None:
    """Measure models, judge them by a policy, promote the best.

    Every candidate is measured on every evaluation set; the policy judges it, and the best version
    that passes becomes champion.

    A table needs no evaluation file: name its columns with the options below. The file that was
    run is in the store, and --save writes it.

    A file with `source: shards` is judged by counts of its scores, shard by shard, and promotes
    nothing. OUTPUT/counts keeps the counts of each shard, which are not made again.
    """
    places = {"store": store} | ({} if output is None else {"output": output})
    columns = {
        "--label": label,
        "--identities": identities,
        "--score": score,
        "--scores": scores,
        "--id": id_column,
        "--threshold": threshold,
    }
    with report_errors(verbose=verbose, quiet=as_json or quiet, places=places):
        table = read_table_options(config, columns)
        if save is not None:
            if output is not None or sample is not None:
                msg = "`--save` only writes a copy: give it without `--output` and `--sample`."
                raise InputError(msg)
            if table is None:
                save_included(config, save)
            else:
                write_new_file(save, build_evaluation_file(config, table))
            argument = shorten_argument(str(save.absolute()))
            command = format_command("evaluate", argument, "--output", "out")
            print_sentence(f"saved {save}: change it, then run `{command}`")
            return
        keep_hint = ""
        if table is not None:
            verb = "add" if output is None else "replace `--output` by"
            config, output = keep_evaluation_file(config, table, store), output or Path("out")
            keep_hint = (
                f"To keep this evaluation: copy {config}, or {verb} `--save my_evaluation.yaml`."
            )
        if output is None:
            msg = "`--output` must be given: the folder for reports, verdicts and figures."
            raise InputError(msg)
        if is_count_file(config):
            refused = {
                "--sample": sample,
                "--submission": submission,
                "--candidate": outcome_of,
                "--overwrite": overwrite,
            }
            for option in (name for name, value in refused.items() if value):
                msg = f"`{option}` must not be given with a file that counts shards ({config})."
                raise InputError(msg)
            check_count_file(config, output, store)
            set_task_runner(task_runner, task_runner_options)
            _evaluate_counts(config, output, store, as_json=as_json)
        load_evaluation(config, output, store, outcome_of, overwrite=overwrite, sample=sample)
        set_task_runner(task_runner, task_runner_options)
        summary = run_evaluation(
            "evaluate",
            config,
            str(output),
            store=store,
            sample=sample,
            submission=submission,
            outcome_of=outcome_of,
            overwrite=overwrite,
            yes=yes,
        )
        _conclude(summary, output, store, as_json=as_json, hint="" if quiet else keep_hint)


@app.command(rich_help_panel=EVALUATE, epilog=format_example("train toxicity.yaml"))
def train(
    config: Config,
    store: Store = DEFAULT_STORE,
    sample: Sample = None,
    as_json: AsJson = False,  # noqa: FBT002
    quiet: Quiet = False,  # noqa: FBT002
    verbose: Verbose = False,  # noqa: FBT002
) -> None:
    """Train and register the models of an evaluation file."""
    with report_errors(verbose=verbose, quiet=as_json or quiet, places={"store": store}):
        load_evaluation(config, None, store, sample=sample)
        candidates = run_flow("train", config, store=store, sample=sample)
        if as_json:
            print_json([{"candidate": each.name, "version": each.uri} for each in candidates])
            return
        for candidate in candidates:
            print_sentence(f"{candidate.name}: {candidate.uri or 'not trained here'}")


@app.command(
    rich_help_panel=EVALUATE,
    epilog=format_example("nightly toxicity.yaml --output nights --cron '0 2 * * *'"),
)
def nightly(
    config: Config,
    output: Output,
    store: Store = DEFAULT_STORE,
    sample: Sample = None,
    cron: Annotated[
        str | None, typer.Option(help="Keep running on this schedule, for example '0 2 * * *'.")
    ] = None,
    fail_when_blocked: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--fail-when-blocked", help="End the run as Failed if the outcome is not a pass."
        ),
    ] = False,
    outcome_of: OutcomeOf = None,
    yes: Yes = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
    quiet: Quiet = False,  # noqa: FBT002
    task_runner: TaskRunner = None,
    task_runner_options: TaskRunnerOptions = None,
    verbose: Verbose = False,  # noqa: FBT002
) -> None:
    """Evaluate into a dated folder, once or on a schedule."""
    places = {"store": store, "output": output}
    with report_errors(verbose=verbose or cron is not None, quiet=as_json or quiet, places=places):
        if as_json and cron is not None:
            msg = "`--json` must be given without `--cron`, which keeps the command running."
            raise InputError(msg)
        load_evaluation(config, output, store, outcome_of, sample=sample)
        set_task_runner(task_runner, task_runner_options)
        if cron is not None:
            from biasgate.deployments.nightly import serve  # noqa: PLC0415

            report_step(f"scheduling {config} with Prefect")
            options = {
                "outcome_of": outcome_of,
                "fail_when_blocked": fail_when_blocked,
                "yes": yes,
                "sample": sample,
            }
            serve(config, output, store.resolve(), cron, options)
            return
        summary = run_evaluation(
            "nightly",
            config,
            str(output),
            store=store,
            sample=sample,
            outcome_of=outcome_of,
            fail_when_blocked=fail_when_blocked,
            yes=yes,
        )
        _conclude(summary, Path(summary.output), store, as_json=as_json)


@app.command(
    rich_help_panel=EVALUATE, epilog=format_example("mitigate toxicity.yaml --output mitigated")
)
def mitigate(
    output: Output,
    config: Annotated[
        Path | None,
        typer.Argument(
            help="Evaluation file (YAML). Default: that of the results in `--from`.",
            metavar="CONFIG",
            show_default=False,
        ),
    ] = None,
    store: Store = DEFAULT_STORE,
    candidate: Annotated[
        str | None,
        typer.Option("--candidate", metavar="NAME", help="Candidate with `train_on`."),
    ] = None,
    blocked: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OUTPUT/SET/CANDIDATE",
            help="Results of a candidate that did not pass: its failed identities are balanced.",
        ),
    ] = None,
    promote: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--promote",
            help="Let the policy promote a version that passes. Default: no alias moves.",
        ),
    ] = False,
    as_json: AsJson = False,  # noqa: FBT002
    quiet: Quiet = False,  # noqa: FBT002
    verbose: Verbose = False,  # noqa: FBT002
) -> None:
    """Train a model again to mitigate its bias, and judge it.

    It is an experiment: `champion` does not move, unless you give --promote.
    """
    with report_errors(
        verbose=verbose, quiet=as_json or quiet, places={"store": store, "output": output}
    ):
        from biasgate.tasks.mitigating.blocked import find_results_config, load_blocked  # noqa: PLC0415
        from biasgate.tasks.mitigation import check_mitigation  # noqa: PLC0415

        verdict = load_blocked(blocked, output)
        file = str(config or find_results_config(blocked))
        evaluation = load_evaluation(file, output, store)
        check_sets(lambda: check_mitigation(evaluation, candidate, store, verdict), store)
        summary = run_evaluation(
            "mitigate",
            file,
            str(output),
            store=store,
            candidate=candidate,
            blocked=None if blocked is None else str(blocked),
            promote=promote,
        )
        _conclude(summary, output, store, as_json=as_json)


@app.command(rich_help_panel=EVALUATE, epilog=format_example("demo"))
def demo(
    output: Output = Path("demo-output"),
    as_json: AsJson = False,  # noqa: FBT002
    quiet: Quiet = False,  # noqa: FBT002
    verbose: Verbose = False,  # noqa: FBT002
) -> None:
    """Evaluate a biased model and its twin on generated phrases.

    The biased model is blocked, and its twin passes. The phrases contain insults; the store with
    them is OUTPUT-store.
    """
    store = Path(f"{output if output.name else output.resolve()}-store")
    with report_errors(verbose=verbose, quiet=as_json or quiet, places={"output": output}):
        check_folders(output, store)
        summary = run_evaluation("evaluate", "demo", str(output), store=store)
        if as_json:
            print_json(summary)
        else:
            _print_results(summary, output, store)
            print_next_steps(output, store)
        problem = describe_unexpected_verdicts(summary)
        if problem:
            print_error(f"the demo did not go as expected: {problem}")
            raise typer.Exit(CRASH)


_BIASED, _BALANCED = "biased_labels", "balanced_labels"
_PLANTED_IDENTITIES = {"gay", "muslim"}


def describe_unexpected_verdicts(summary: Summary) -> str | None:
    """Return the first verdict of the demo that is not as expected, or None.

    The balanced candidate must pass. The biased candidate must be blocked for the identities with
    planted bias, and for no other.
    """
    outcomes = {decision.candidate: decision.outcome for decision in summary.decisions}
    if outcomes[_BALANCED] != "pass":
        return f"{_BALANCED} should pass; its verdict is {outcomes[_BALANCED]}."
    if outcomes[_BIASED] != "fail":
        return f"{_BIASED} should be blocked; its verdict is {outcomes[_BIASED]}."
    failed = {
        result.group
        for verdict in summary.verdicts
        if verdict.candidate.name == _BIASED
        for result in verdict.results
        if result.outcome == "fail" and result.group is not None
    }
    if failed == _PLANTED_IDENTITIES:
        return None
    expected = sorted(_PLANTED_IDENTITIES)
    return f"{_BIASED} should be blocked for {expected}; it is blocked for {sorted(failed)}."


def _evaluate_counts(config: str, output: Path, store: Path, *, as_json: bool) -> None:
    """Judge a candidate by counts of its scores, without a promotion."""
    verdict = run_flow("count", config, str(output), store=store)
    from biasgate.tasks.reporting.results import read_results  # noqa: PLC0415
    from biasgate.tasks.reporting.terminal import print_results  # noqa: PLC0415
    from biasgate.tasks.wording import get_verdict_words  # noqa: PLC0415

    if as_json:
        print_json(verdict)
    else:
        print_results(read_results(output))
    raise typer.Exit(get_verdict_words(verdict).exit_code)


def _conclude(
    summary: Summary, output: Path, store: Path, *, as_json: bool, hint: str = ""
) -> None:
    if as_json:
        print_json(summary)
    else:
        _print_results(summary, output, store)
        if hint:
            print_sentence(hint)
    raise typer.Exit(get_outcome_words(summary).exit_code)


def _print_results(summary: Summary, output: Path, store: Path) -> None:
    from biasgate.tasks.reporting.results import load_results  # noqa: PLC0415
    from biasgate.tasks.reporting.terminal import print_results  # noqa: PLC0415

    print_results(load_results(summary, output), store)
