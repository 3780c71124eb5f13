"""The commands on the registry: promote, roll back, show the history, verify."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from biasgate.options import DEFAULT_STORE, PROMOTE, AsJson, Store, format_example
from biasgate.output import (
    BLOCKED,
    print_findings,
    print_history,
    print_json,
    print_sentence,
    report_errors,
    show_activity,
)
from biasgate.running import open_registry
from biasgate.tasks.common.command_lines import format_command, format_path, is_path
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.outcomes import get_outcome_words

if TYPE_CHECKING:
    from biasgate.tasks.records import Decision
    from biasgate.tasks.verifying.files import Finding

app = typer.Typer()

Model = Annotated[str, typer.Argument(help="Registered model.", metavar="MODEL")]
Reason = Annotated[str, typer.Option(help="The reason; it is kept in the history.")]
_SHORT_DIGEST = 12


@app.command(rich_help_panel=PROMOTE, epilog=format_example("promote toxicity 4"))
def promote(
    model: Model,
    version: Annotated[
        str | None,
        typer.Argument(
            help="Version of the model. With --reset, leave it out for no champion; with --from, "
            "for the newest copy.",
            metavar="VERSION",
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="The reason, for the history; required with --reset.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who decides, for the history; required by a policy with `promote: manual`.",
        ),
    ] = None,
    reject: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--reject", help="Reject VERSION instead, with --by and --reason: it is not proposed."
        ),
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="NAME/VERSION",
            help="Promote the copy of this version of another model, by its verdicts. VERSION: the "
            "copy. Default: the newest.",
        ),
    ] = None,
    reset: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--reset",
            help="Set the champion without verifying it, and accept a damaged or unsigned ledger.",
        ),
    ] = False,
    accept: Annotated[
        str | None,
        typer.Option(
            help="With --reset: digest of what is accepted. Default: ask.",
            metavar="DIGEST",
        ),
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Verify the verdicts of a version, and make it champion; or reject it.

    With --reset, accept the ledger as it is, and set the champion to VERSION or none. Use it for a
    ledger that was damaged or is older than its signatures, or for a champion that must no longer
    be compared with. It lists the checks that fail, and asks you to accept them.
    """
    with open_registry(store, quiet=as_json) as gateway:
        from biasgate.tasks.promoting import by_hand  # noqa: PLC0415

        if reset:
            if by is not None or reject or source is not None:
                msg = "`--by`, `--from` and `--reject` must be given without `--reset`."
                raise InputError(msg)
            if reason is None:
                msg = "`--reason` must be given with `--reset`; the history keeps it."
                raise InputError(msg)
            agree = partial(_confirm_reset, accept=accept, as_json=as_json)
            decision = by_hand.reset_ledger(model, version, reason, gateway, agree)
        else:
            if accept is not None or (version is None and source is None):
                msg = "VERSION must be given, and `--accept` only with `--reset`."
                raise InputError(msg)
            if reject:
                if source is not None or version is None:
                    msg = "VERSION must be given with `--reject`, without `--from`."
                    raise InputError(msg)
                if not by or not reason:
                    msg = "`--by` and `--reason` must be given with `--reject`."
                    raise InputError(msg)
                decision = by_hand.reject_version(model, version, reason, by, gateway)
            elif source is not None:
                from biasgate.tasks.promoting.copies import promote_copy  # noqa: PLC0415

                with show_activity("verifying and promoting"):
                    decision = promote_copy(
                        model, version, source, gateway, reason=reason, by=by, store=store
                    )
            elif version is not None:
                with show_activity("verifying and promoting"):
                    decision = by_hand.promote_version(model, version, reason, gateway, by)
        _print_decision(decision, as_json=as_json)


def _confirm_reset(
    problems: Sequence[str], digest: str, *, accept: str | None, as_json: bool
) -> None:
    """Print the problems that a reset accepts; refuse unless the user confirms or `accept` does."""
    digest = digest[:_SHORT_DIGEST]
    if (accept is None and not problems) or digest == accept:
        return
    for sentence in problems or ["the ledger as it is"]:
        print_sentence(f"accepts: {sentence}", stderr=as_json)
    can_ask = accept is None and not as_json and sys.stdin.isatty()
    if can_ask and typer.confirm("Accept all of this?"):
        return
    if accept is None:
        msg = f"`--accept` must confirm this: --accept {digest}"
    else:
        msg = f"`--accept` must be the digest of what is accepted, {digest}; got {accept!r}."
    raise InputError(msg)


@app.command(
    rich_help_panel=PROMOTE, epilog=format_example("rollback toxicity --reason 'worse at night'")
)
def rollback(
    model: Model,
    reason: Reason,
    to: Annotated[
        str | None,
        typer.Option(
            help="The version to restore. Default: the version that the last promotion replaced.",
            metavar="VERSION",
        ),
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Make the previous champion the champion again.

    It is safe to repeat.
    """
    with open_registry(store, quiet=as_json) as gateway:
        from biasgate.tasks.promoting.by_hand import roll_back  # noqa: PLC0415

        with show_activity("verifying and rolling back"):
            decision = roll_back(model, reason, gateway, to)
        _print_decision(decision, as_json=as_json)


@app.command(rich_help_panel=PROMOTE, epilog=format_example("history toxicity"))
def history(
    model: Model,
    everything: Annotated[  # noqa: FBT002
        bool, typer.Option("--all", help="Also list entries of blocked versions.")
    ] = False,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """List the promotions and rollbacks of a model.

    The latest is first. As JSON, all entries of the ledger.
    """
    with open_registry(store, quiet=as_json) as gateway:
        from biasgate.tasks.promoting.by_hand import read_history  # noqa: PLC0415

        with show_activity("reading the ledger"):
            entries = read_history(model, gateway)
        if as_json:
            print_json(entries)
        else:
            print_history(model, entries, everything=everything)


@app.command(
    rich_help_panel=PROMOTE, epilog=format_example("attest toxicity --output toxicity.intoto.jsonl")
)
def attest(
    model: Model,
    output: Annotated[Path, typer.Option(help="The file to write, such as model.intoto.jsonl.")],
    version: Annotated[
        str | None, typer.Argument(help="A version. Default: the champion.", metavar="VERSION")
    ] = None,
    model_signature: Annotated[
        Path | None,
        typer.Option(
            help="Also sign the files, for tools that verify OpenSSF model signatures: the file to "
            "write, such as model.sig. BIASGATE_MODEL_KEY names the key."
        ),
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Write the signed attestations of a version to a file.

    `biasgate verify --attestation` checks it without a registry.
    """
    with open_registry(store, quiet=as_json) as gateway:
        from biasgate.tasks.promoting.attest import write_attestation  # noqa: PLC0415

        with show_activity("writing attestations"):
            attested, results = write_attestation(model, version, output, gateway, model_signature)
        if as_json:
            print_json({"file": str(output), "version": attested.uri, "attestations": results})
            return
        listed = ", ".join(f"{result} on {name}" for name, result in results.items())
        noun = "attestation" if len(results) == 1 else "attestations"
        print_sentence(f"{output}: {len(results)} signed {noun} of {attested.uri}: {listed}")


@app.command(rich_help_panel=PROMOTE, epilog=format_example("verify toxicity"))
def verify(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Registered model; with a slash, as in ./out, the folder of an evaluation, which "
            "needs no registry.",
            metavar="MODEL",
        ),
    ] = None,
    version: Annotated[
        str | None, typer.Argument(help="A version. Default: the champion.", metavar="VERSION")
    ] = None,
    attestation: Annotated[
        Path | None,
        typer.Option(help="A file of `biasgate attest`, instead of MODEL: needs no registry."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--model", help="With --attestation: the folder of the model's files."),
    ] = None,
    policy_digest: Annotated[
        str | None,
        typer.Option(
            help="With --attestation or a folder: digest of the required policy, as "
            "`biasgate policy check` prints it.",
            metavar="DIGEST",
        ),
    ] = None,
    evaluation_set: Annotated[
        list[str] | None,
        typer.Option(
            help="With --attestation or a folder: a required set, optionally with the digest of "
            "its rows; once per set. Other sets are refused.",
            metavar="NAME[=DIGEST]",
        ),
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Recompute the verdicts of a version from their evidence.

    With --attestation and --model: check the files of a folder against signed attestations, with
    only the public keys that are trusted here. Pin MODEL, VERSION, --policy-digest and
    --evaluation-set: a value that is not pinned may be anything that a trusted key signed.

    With the folder of an evaluation, which has the evidence: recompute its verdicts, whatever
    they are. A name without a slash is a registered model, even if a folder has that name.

    Exit codes: 0 all checks hold, 3 a check fails.
    """
    with report_errors(quiet=as_json):
        sets = _parse_sets(evaluation_set or [])
        if model is not None and is_path(model):
            if any(value is not None for value in (version, attestation, folder)):
                msg = (
                    f"{Path(model)} must be given with --policy-digest and --evaluation-set only: "
                    "it has its own verdicts."
                )
                raise InputError(msg)
            findings = _verify_folder(Path(model), policy_digest, sets)
        elif model is None or any((attestation, folder, policy_digest is not None, sets)):
            if attestation is None or folder is None:
                msg = (
                    "`biasgate verify` must be given MODEL, or --attestation FILE and --model "
                    "FOLDER; --policy-digest and --evaluation-set are for an attestation."
                )
                raise InputError(msg)
            from biasgate.tasks.verifying.attestation import Pins, verify_attestation  # noqa: PLC0415

            pins = Pins(model, version, policy_digest, sets)
            findings = verify_attestation(attestation, folder, pins)
        else:
            command = format_command("verify", format_path(model))
            hint = f" To verify a folder, write it with a slash: {command}"
            with open_registry(store, quiet=as_json, hint=hint) as gateway:
                from biasgate.tasks.ledger.ledger import require_model  # noqa: PLC0415
                from biasgate.tasks.promoting.verify import verify_model  # noqa: PLC0415

                require_model(model, gateway, hint)
                with show_activity("verifying"):
                    findings = verify_model(model, version, gateway, store)
    if as_json:
        print_json(findings)
    else:
        print_findings(findings)
    raise typer.Exit(0 if all(finding.holds for finding in findings) else BLOCKED)


def _print_decision(decision: Decision, *, as_json: bool) -> NoReturn:
    """Print a decision, and exit with the code of its outcome."""
    if as_json:
        print_json(decision)
    else:
        print_sentence(decision.sentence)
    raise typer.Exit(get_outcome_words(decision).exit_code)


def _parse_sets(options: list[str]) -> dict[str, str] | None:
    """Return the required sets, each with a digest or an empty text; None without an option."""
    for option in options:
        if option.endswith("="):
            msg = (
                f"`--evaluation-set` must be NAME, or NAME=DIGEST; got {option!r} without a "
                "digest. Is a variable empty?"
            )
            raise InputError(msg)
    sets = {name: digest for name, _, digest in (option.partition("=") for option in options)}
    return sets or None


def _verify_folder(
    path: Path, policy_digest: str | None, sets: dict[str, str] | None
) -> list[Finding]:
    """Verify the folder of an evaluation or of counts."""
    from biasgate.tasks.evidence.counted import FILE  # noqa: PLC0415
    from biasgate.tasks.reporting.results import SUMMARY, read_results  # noqa: PLC0415
    from biasgate.tasks.verifying.attestation import Pins  # noqa: PLC0415
    from biasgate.tasks.verifying.counted import verify_counts  # noqa: PLC0415
    from biasgate.tasks.verifying.published import verify_results  # noqa: PLC0415

    pins = Pins(policy_digest=policy_digest, sets=sets)
    with show_activity("verifying"):
        # A summary has priority over counts, as for `show`.
        if (path / FILE).is_file() and not (path / SUMMARY).exists():
            return verify_counts(path, pins)
        return verify_results(read_results(path), pins)
