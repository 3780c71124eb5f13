"""Promotion of a copy: a version that MLflow copied from another registered model.

Its verdicts stay those of the source. The entry in the ledger of the copy's model names the source,
so the copy verifies by that entry, even if the source is deleted later.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.entry import Source
from biasgate.tasks.ledger.ledger import CHAMPION, champion_of_model, require_known
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.by_hand import (
    policy_of,
    recorded,
    require_allowed,
    settled_ledger,
    withdraw_challenger,
)
from biasgate.tasks.promoting.champion import (
    Transition,
    decision,
    move_champion,
)
from biasgate.tasks.promoting.succession import Judged
from biasgate.tasks.promoting.verify import require_held, verify_champion, verify_found
from biasgate.tasks.records import Decision, LoggedVerdict, champion_of
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.manifest import Manifest, first_few
from biasgate.tasks.signing.statement import verdict_digest
from biasgate.tasks.verifying.documents import with_whole_tags, write_verdicts
from biasgate.tasks.verifying.files import VersionFiles
from biasgate.tasks.verifying.own_verdicts import is_signed
from biasgate.tasks.verifying.version import verify_source


def promote_copy(
    model: str,
    version: str | None,
    named: str,
    gateway: Gateway,
    *,
    reason: str | None = None,
    by: str | None = None,
    store: Path | None = None,
) -> Decision:
    """Make a copy champion of its model, based on the verdicts of the version it was copied from.

    `named`: the source, as `dev.toxicity/3` or `dev.toxicity@champion`. `version`: the copy.
    Default: the newest version that MLflow copied from the source. `reason`, `by`: as in
    `promote_version`. `store`: a store whose frozen rows are compared with those of the verdicts.

    The source must verify, and have the same files. The alias moves as in every promotion.
    """
    ledger = settled_ledger(model, gateway)
    origin = with_whole_tags(_find_source(named, model, gateway), gateway)
    found = _find_copy(model, version, origin, gateway)
    files = VersionFiles.of(origin, gateway)
    champion_there = gateway.alias(origin.name, CHAMPION)
    if champion_there is not None and champion_there.version == origin.version:
        findings = verify_champion(origin, gateway, files, store)
    else:
        findings = verify_found(origin, gateway, store, files=files, is_champion=False)
    require_held(origin, findings)
    judged = Judged(origin.uri, recorded(origin, gateway), found)
    source = Source(
        model=origin.uri,
        judged=str(judged.verdicts[0].candidate.model),
        digest=_same_files(files, found, gateway).digest,
    )
    for finding in verify_source(source, judged.verdicts, gateway, is_new=True):
        if not finding.holds:
            msg = f"{found.uri} must not become {CHAMPION}: {finding.sentence}"
            raise InputError(msg)
    _require_signed(origin, judged.verdicts, gateway)
    chain = ledger.chain
    champion = champion_of_model(ledger, chain)
    last = chain.last_move  # without one, the alias was set by hand
    if champion is not None and last is not None and champion.version == found.version:
        gateway.set_alias(model, CHAMPION, found.version)
        return decision("pass", f"{found.uri} is {CHAMPION}.")
    policies = [policy_of(one, origin, gateway) for one in judged.verdicts]
    rivals = {champion_of(verdict) for verdict in judged.verdicts}
    if None in rivals and not all(policy.allow_first for policy in policies):
        msg = (
            f"{origin.uri} must have been compared with a {CHAMPION}, since its policy does not "
            "have `allow_first: true`: evaluate it again."
        )
        raise InputError(msg)
    require_allowed(judged, champion, chain, policies, model, given=bool(by and reason))
    compared = ", ".join(sorted(one or f"no {CHAMPION}" for one in rivals))
    because = f"{reason or 'by hand'}; copy of {origin.uri}, which was compared with {compared}"
    transition = Transition(
        "promotion",
        found,
        champion.version if champion else None,
        judged.verdicts,
        judged.because(because),
        by=by,
        source=source,
    )
    write_verdicts(found, judged.verdicts, gateway)
    decided = replace(judged, candidate=found.uri).named(move_champion(transition, gateway))
    if decided.promoted:
        withdraw_challenger(model, found.version, gateway)
    return decided


def _find_source(named: str, model: str, gateway: Gateway) -> ModelVersion:
    """Return the version that a copy is of, in another registered model of this registry."""
    path = named.removeprefix("models:/")
    name = path.rpartition("@" if "@" in path and "/" not in path else "/")[0]
    try:
        require_known(name, gateway)
        found = gateway.resolve(f"models:/{path}")
    except InputError as error:
        msg = (
            f"`--from` must be NAME/VERSION of this registry; got {named!r}: {error} A version of "
            f"another server must be evaluated here, with `registered_model: {model}`."
        )
        raise InputError(msg) from error
    if found.name == model:
        words = "promote", model, found.version
        msg = (
            f"`--from` must name a version of another registered model; got {named!r}. To promote "
            f"it: {gateway.command(*words)}"
        )
        raise InputError(msg)
    return found


def _find_copy(
    model: str, version: str | None, source: ModelVersion, gateway: Gateway
) -> ModelVersion:
    """Return a version of a model; the newest copy of the source if none is named."""
    if version is not None:
        return gateway.resolve(f"models:/{model}/{version}")
    copies = [one for one in gateway.versions(model) if one.source == source.uri]
    if not copies:
        msg = (
            f"{model} must have a copy of {source.uri}; it has none. Copy it: "
            f"MlflowClient().copy_model_version({source.uri!r}, {model!r}). If a version has the "
            "same files, name it: VERSION."
        )
        raise InputError(msg)
    return copies[-1]


def _same_files(files: VersionFiles, copy: ModelVersion, gateway: Gateway) -> Manifest:
    """Return the manifest of a source's files, which must be those of its copy."""
    manifest = files.manifest
    if isinstance(manifest, InputError):
        raise manifest
    if files.place() == gateway.place_of(copy):
        return manifest
    # Files of other names or sizes are not read: they may be of any size.
    differ = manifest.other_sizes(gateway.sizes(copy)) or manifest.differences(
        gateway.manifest(copy)
    )
    if differ:
        msg = (
            f"{copy.uri} must have the files of {files.version.uri}; different: "
            f"{first_few(differ)}. Copy the version again, or evaluate {copy.uri}."
        )
        raise InputError(msg)
    return manifest


def _require_signed(
    source: ModelVersion, verdicts: Sequence[LoggedVerdict], gateway: Gateway
) -> None:
    """Refuse verdicts that only a reset of the source's ledger accepts: the copy has another."""
    trusted = TrustedKeys.here()
    for verdict in verdicts if trusted else ():
        signed = False
        with suppress(OSError, ValueError):  # without an attestation
            signed = is_signed(verdict.run_id, verdict_digest(verdict), trusted, gateway)
        if not signed:
            msg = (
                f"{source.uri} must have a verdict that a trusted key signed; a reset or a revoked "
                f"key's date accepts it in the ledger of {source.name} only: evaluate it again."
            )
            raise InputError(msg)
