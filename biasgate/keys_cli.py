"""`biasgate keys`: create, list, trust and revoke the keys that verdicts are signed with."""

from __future__ import annotations

import os
import shlex
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from biasgate.options import AsJson, format_example
from biasgate.output import print_json, print_sentence, report_errors
from biasgate.tasks.common.command_lines import format_command
from biasgate.tasks.common.errors import InputError

app = typer.Typer(
    name="keys", help="Create, list, trust and revoke signing keys.", no_args_is_help=True
)
Key = Annotated[str, typer.Argument(help="The key's name, or the start of its id.", metavar="KEY")]


@app.command(epilog=format_example("keys new release.key"))
def new(
    file: Annotated[
        Path, typer.Argument(help="File of the private key; the public key goes to FILE.pub.")
    ] = Path("biasgate.key"),
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Create a key pair. Keep the private key only on machines that run evaluations."""
    with report_errors(quiet=as_json):
        from biasgate.tasks.signing.keys import PRIVATE_KEY, PrivateKey  # noqa: PLC0415

        public = Path(f"{file}.pub")
        key = PrivateKey.generate()
        for path, text, mode in ((file, key.pem, 0o600), (public, key.public.pem, 0o644)):
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            except OSError as error:
                msg = f"{path} must be a new file that can be written; got: {error.strerror}."
                raise InputError(msg) from error
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
        if as_json:
            print_json({"key_id": key.public.key_id, "private": str(file), "public": str(public)})
            return
        print_sentence(f"private key {file}: keep it secret. On machines that run evaluations:")
        typer.echo(f"  export {PRIVATE_KEY}={shlex.quote(str(file.resolve()))}")
        print_sentence(f"public key {public}. On machines that verify verdicts:")
        typer.echo(f"  {format_command('keys', 'trust', public)}")
        typer.echo(f"id {key.public.key_id}")


@app.command("list", epilog=format_example("keys list"))
def show(as_json: AsJson = False) -> None:  # noqa: FBT002
    """List the trusted keys."""
    with report_errors(quiet=as_json):
        from biasgate.tasks.signing.keys import TrustedKeys, get_trust_file  # noqa: PLC0415

        keys = TrustedKeys.from_file(get_trust_file()).keys.values()
        if as_json:
            print_json([key.to_dict() for key in keys])
            return
        print_sentence(f"{get_trust_file()}: {len(keys) or 'no'} trusted keys")
        for key in keys:
            state = f"trusted since {key.trusted_since}"
            if key.revoked_since:
                state = f"revoked since {key.revoked_since} ({key.reason})"
            print_sentence(f"{key.public.key_id[:12]}  {key.name}  {state}")


@app.command(epilog=format_example("keys trust release.pub"))
def trust(
    file: Annotated[Path, typer.Argument(help="File of a public key.", metavar="FILE.pub")],
    name: Annotated[str, typer.Option(help="Name of the key. Default: the file's name.")] = "",
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Trust a public key on this machine: from now on, verdicts must be signed."""
    with report_errors(quiet=as_json):
        from biasgate.tasks.signing import keys  # noqa: PLC0415

        try:
            text = file.read_text("utf-8")
        except (OSError, ValueError) as error:
            msg = f"{file} must be a file with a public key; it cannot be read."
            raise InputError(msg) from error
        public = keys.PublicKey.from_pem(text, str(file))
        trusted = keys.TrustedKeys.from_file(keys.get_trust_file())
        old_key = trusted.keys.get(public.key_id)
        if old_key is not None and old_key.revoked_since:
            msg = (
                f"key {old_key.name!r} is revoked since {old_key.revoked_since} and must stay so: "
                "create a new key with `biasgate keys new`."
            )
            raise InputError(msg)
        key = keys.TrustedKey(public, name or file.stem, keys.get_timestamp())
        trusted.add_key(key).write(keys.get_trust_file())
        if as_json:
            print_json(key.to_dict())
            return
        print_sentence(f"{public.key_id[:12]}  {key.name}  is trusted ({keys.get_trust_file()})")


@app.command(epilog=format_example("keys revoke release --reason 'the laptop was lost'"))
def revoke(
    key: Key,
    reason: Annotated[str, typer.Option(help="The reason; it is shown in the list.")],
    since: Annotated[
        datetime | None,
        typer.Option(help="Start of the revocation in UTC, for example 2026-11-22T08:00:00."),
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Revoke a trusted key, for example one that was stolen.

    Its signatures count only if they are dated before that time, and a key that is still trusted
    signed a later entry of the same ledger: a stolen key can sign any date.
    """
    with report_errors(quiet=as_json):
        from biasgate.tasks.signing import keys  # noqa: PLC0415

        trusted = keys.TrustedKeys.from_file(keys.get_trust_file())
        old_key = trusted.find_key(key)
        now = keys.get_timestamp()
        time = f"{since.isoformat(timespec='seconds')}+00:00" if since else now
        if time > now:
            msg = (
                f"`--since` must not be later than now, {now}: until then the key would count; "
                f"got {time}."
            )
            raise InputError(msg)
        revoked = keys.TrustedKey(old_key.public, old_key.name, old_key.trusted_since, time, reason)
        trusted.add_key(revoked).write(keys.get_trust_file())
        if as_json:
            print_json(revoked.to_dict())
            return
        print_sentence(f"{old_key.public.key_id[:12]}  {old_key.name}  is revoked since {time}")
