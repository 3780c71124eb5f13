"""`biasgate policy`: check, register and plan policies."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from biasgate.options import DEFAULT_STORE, AsJson, Store, format_example
from biasgate.output import print_json, print_sentence, report_errors, show_activity
from biasgate.running import open_registry
from biasgate.tasks.common.errors import InputError

app = typer.Typer(name="policy", help="Check, register and plan policies.", no_args_is_help=True)
File = Annotated[
    str,
    typer.Argument(
        help="A policy file, or the name of an included policy such as default or strict.",
        metavar="FILE",
    ),
]


@app.command(epilog=format_example("policy check policy.yaml"))
def check(file: File, as_json: AsJson = False) -> None:  # noqa: FBT002
    """Check a policy; print its rules in words, and warnings.

    Exit codes: 0 it can be used, 2 it cannot.
    """
    with report_errors(quiet=as_json):
        from bias_metrics.parts import format_count  # noqa: PLC0415
        from biasgate.tasks.gating.policy import read_policy  # noqa: PLC0415
        from biasgate.tasks.gating.policy_explained import (  # noqa: PLC0415
            explain_policy,
            list_policy_warnings,
        )

        policy = read_policy(file, Path())
        warnings = list(list_policy_warnings(policy, datetime.now(UTC).date()))
        lines = list(explain_policy(policy))
        if as_json:
            content = {"policy": policy.name, "rules": len(policy.rules), "digest": policy.digest}
            print_json(content | {"lines": lines, "warnings": warnings})
            return
        for line in [*lines, *(f"warning: {warning}" for warning in warnings)]:
            print_sentence(line)
        rules = format_count(len(policy.rules), "rule")
        print_sentence(f"policy {policy.name}: {rules}, digest {policy.digest}")


@app.command(epilog=format_example("policy show no-worse"))
def show(
    name: Annotated[
        str,
        typer.Argument(help="The name of an included policy, such as no-worse.", metavar="NAME"),
    ],
) -> None:
    """Print an included policy as YAML, to change a copy of it."""
    with report_errors():
        from bias_metrics.suggestion import did_you_mean  # noqa: PLC0415
        from biasgate.tasks.gating.policy import list_shipped_policies  # noqa: PLC0415

        files = list_shipped_policies()
        if name not in files:
            msg = f"NAME must be one of {', '.join(files)}; got {name!r}."
            raise InputError(msg + did_you_mean(name, files))
        typer.echo(files[name].read_text("utf-8"), nl=False)


@app.command(epilog=format_example("policy register policy.yaml --model toxicity"))
def register(
    file: File,
    model: Annotated[str, typer.Option(help="The registered model.", metavar="MODEL")],
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Require a policy for a model from now on: no other policy can move its champion.

    The ledger keeps its digest, the time and the user. Register it before any candidate is
    scored: verdicts record whether that was so.
    """
    with open_registry(store, quiet=as_json, is_new=True) as gateway:
        from biasgate.tasks.promoting.pinned import register_policy  # noqa: PLC0415

        policy, entry = register_policy(file, model, gateway)
        if as_json:
            content = {"policy": policy.name, "digest": policy.digest}
            print_json(content | {"model": model, "entry": entry.number})
            return
        print_sentence(
            f"policy {policy.name} (digest {policy.digest}) is required for {model} from now on: "
            f"entry {entry.number} of its ledger"
        )


@app.command(epilog=format_example("policy plan no-worse out/news/words"))
def plan(
    file: File,
    evidence: Annotated[
        Path | None,
        typer.Argument(help="Folder out/<set>/<candidate>, or its evidence.parquet."),
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(
            help="Before labelling: YAML file with the shares of identities and of toxic "
            "comments, or civil_comments."
        ),
    ] = None,
    power: Annotated[
        float, typer.Option(min=0.5, max=0.99, help="Power: the wanted probability of a pass.")
    ] = 0.8,
    auc: Annotated[
        float, typer.Option(min=0.51, max=0.999, help="Assumed AUC if it was not measured.")
    ] = 0.9,
    correlation: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.999,
            help="Assumed correlation of the two models' AUCs if it was not measured.",
        ),
    ] = 0.8,
    design_effect: Annotated[
        float,
        typer.Option(min=1, help="With --shares: factor by which clusters inflate variances."),
    ] = 1.0,
    per_night: Annotated[
        int | None, typer.Option(min=1, help="Comments labelled per night.")
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Plan how many comments a policy needs: in total, and per identity and class."""
    with report_errors(quiet=as_json):
        from biasgate.tasks.gating.plan import describe_plan  # noqa: PLC0415
        from biasgate.tasks.gating.policy import read_policy  # noqa: PLC0415
        from biasgate.tasks.gating.policy_planned import (  # noqa: PLC0415
            measure_comments,
            plan_policy,
            read_comment_shares,
        )

        policy = read_policy(file, Path())
        if (evidence is None) == (shares is None):
            msg = "give either the folder of an evaluation, or `--shares`; got both or neither."
            raise InputError(msg)
        if evidence is not None:
            comments = measure_comments(evidence, policy, correlation=correlation, auc=auc)
        elif shares is not None:
            comments = read_comment_shares(
                shares, policy, auc=auc, correlation=correlation, design_effect=design_effect
            )
        with show_activity("planning"):
            planned = plan_policy(policy, comments, power=power, per_night=per_night)
        if as_json:
            print_json(planned)
        else:
            for line in describe_plan(planned):
                print_sentence(line)
