"""The commands on data and models: `biasgate diagnose-data` and `mitigate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biasgate.options import (
    DEFAULT_STORE,
    EVALUATE,
    AsJson,
    Config,
    Output,
    Store,
    Verbose,
    example,
)
from biasgate.printing import print_json, print_sentence
from biasgate.running import check_input, check_sets, run_flow
from biasgate.telling import errors_told

if TYPE_CHECKING:
    from biasgate.tasks.mitigating.diagnosis import TrainingDiagnosis
    from biasgate.tasks.mitigating.mitigation_report import MitigationReport


app = typer.Typer()

Candidate = Annotated[
    str | None,
    typer.Option("--candidate", metavar="NAME", help="Candidate with `train_on`."),
]
# The exit code if nothing passed; that of a blocked candidate.
BLOCKED = 3


@app.command(
    "diagnose-data",
    rich_help_panel=EVALUATE,
    epilog=example("diagnose-data toxicity.yaml --output diagnosis"),
)
def diagnose_data(
    config: Config,
    output: Output,
    store: Store = DEFAULT_STORE,
    candidate: Candidate = None,
    as_json: AsJson = False,  # noqa: FBT002
    verbose: Verbose = False,  # noqa: FBT002
) -> None:
    """Say which identities the labels of training data are out of line for, and where."""
    with errors_told(verbose=verbose, quiet=as_json, places={"store": store, "output": output}):
        evaluation = check_input(config, output, store)
        from biasgate.tasks.mitigation import check_diagnosis  # noqa: PLC0415

        check_sets(lambda: check_diagnosis(evaluation, candidate, store), store)
        found: list[TrainingDiagnosis] = run_flow(
            "diagnose_data", config, str(output), store=store, candidate=candidate
        )
        if as_json:
            print_json(found)
            return
        for training_diagnosis in found:
            print_sentence(f"{training_diagnosis.training_set}:")
            for sentence in training_diagnosis.sentences:
                print_sentence(f"  {sentence}")
            print_sentence(
                f"Look at: {output / training_diagnosis.training_set / 'diagnosis.html'}"
            )


@app.command(rich_help_panel=EVALUATE, epilog=example("mitigate toxicity.yaml --output mitigated"))
def mitigate(
    output: Output,
    config: Annotated[
        Path | None,
        typer.Argument(
            help="Evaluation file (YAML). Default: that of the results in `--from`.",
            metavar="[CONFIG]",
            show_default=False,
        ),
    ] = None,
    store: Store = DEFAULT_STORE,
    candidate: Candidate = None,
    blocked: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OUTPUT/SET/CANDIDATE",
            help="Results of a candidate that did not pass: the identities that failed are "
            "balanced, and costs are compared with it.",
        ),
    ] = None,
    promote: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--promote", help="Let the policy promote what passes. Without it no alias moves."
        ),
    ] = False,
    as_json: AsJson = False,  # noqa: FBT002
    verbose: Verbose = False,  # noqa: FBT002
) -> None:
    """Train a model again to mitigate its bias, and judge it.

    It is an experiment: `champion` does not move, unless you give --promote.

    Exits with 0 if one of them passes, else with 3.
    """
    with errors_told(verbose=verbose, quiet=as_json, places={"store": store, "output": output}):
        from biasgate.tasks.mitigating.blocked import blocked_of, file_of  # noqa: PLC0415
        from biasgate.tasks.mitigation import check_mitigation  # noqa: PLC0415

        verdict = blocked_of(blocked, output)
        named = str(config or file_of(blocked))
        evaluation = check_input(named, output, store)
        check_sets(lambda: check_mitigation(evaluation, candidate, store, verdict), store)
        found: MitigationReport = run_flow(
            "mitigate",
            named,
            str(output),
            store=store,
            candidate=candidate,
            blocked=None if blocked is None else str(blocked),
            promote=promote,
        )
        if as_json:
            print_json(found)
        else:
            for sentence in found.sentences:
                print_sentence(sentence)
            print_sentence(f"Look at: {output / 'mitigation.html'}")
        if not found.passed:
            raise typer.Exit(BLOCKED)
