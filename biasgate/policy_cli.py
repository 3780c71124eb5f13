"""`biasgate policy`: check a policy, explain it in words, suggest one from a model's numbers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from biasgate.options import DEFAULT_STORE, Store
from biasgate.registry_cli import registry
from biasgate.telling import errors_told

app = typer.Typer(name="policy", help="Check, explain and suggest policies.", no_args_is_help=True)
File = Annotated[
    str,
    typer.Argument(
        help="A policy file, or the name of an included policy such as default or strict.",
        metavar="FILE",
    ),
]


@app.command()
def check(file: File) -> None:
    """Check a policy and print warnings: exit code 0 if it can be used, 2 if not."""
    with errors_told(verbose=False):
        from biasgate.tasks.gating.policy import read_policy  # noqa: PLC0415
        from biasgate.tasks.gating.policy_explained import warn_of_policy  # noqa: PLC0415

        policy = read_policy(file, Path())
        for warning in warn_of_policy(policy, datetime.now(UTC).date()):
            typer.echo(f"warning: {warning}")
        typer.echo(f"policy {policy.name}: {len(policy.rules)} rules, digest {policy.digest}")


@app.command()
def explain(file: File) -> None:
    """Explain in words which rules a policy has."""
    with errors_told(verbose=False):
        from biasgate.tasks.gating.policy import read_policy  # noqa: PLC0415
        from biasgate.tasks.gating.policy_explained import explain_policy  # noqa: PLC0415

        typer.echo("\n".join(explain_policy(read_policy(file, Path()))))


@app.command()
def register(
    file: File,
    model: Annotated[str, typer.Option(help="The registered model.", metavar="MODEL")],
    store: Store = DEFAULT_STORE,
) -> None:
    """Require a policy for a model from now on: no other one can move its champion.

    The ledger keeps its digest, the time and who registered it. Register it before any candidate
    is scored: verdicts say whether that was so.
    """
    with registry(store, new=True) as gateway:
        from biasgate.tasks.promoting.pinned import register_policy  # noqa: PLC0415

        policy, entry = register_policy(file, model, gateway)
        typer.echo(
            f"policy {policy.name} (digest {policy.digest}) is required for {model} from now on: "
            f"entry {entry.number} of its ledger"
        )


@app.command()
def schema() -> None:
    """Print the JSON Schema of policies, for use in editors."""
    with errors_told(verbose=False):
        from biasgate.tasks.gating.policy import policy_schema  # noqa: PLC0415

        typer.echo(json.dumps(policy_schema(), indent=2))


@app.command()
def suggest(
    evidence: Annotated[
        Path, typer.Argument(help="Folder out/<set>/<candidate>, or its evidence.parquet.")
    ],
    name: Annotated[str, typer.Option(help="Name of the policy.")] = "suggested",
) -> None:
    """Print a policy made from a model's own numbers, with the power that the set allows."""
    with errors_told(verbose=False):
        from biasgate.tasks.gating.policy_suggested import advise, suggested_policy  # noqa: PLC0415

        typer.echo(suggested_policy(advise(evidence), name), nl=False)
