"""Promotion of a copy: a version that MLflow copied from another registered model.

The copy has the verdicts of its source. The entry in the ledger of the copy's model names the
source. So the copy can be verified by that entry, even if the source is deleted later.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.entry import CopySource
from biasgate.tasks.ledger.ledger import CHAMPION, find_champion, require_model
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.by_hand import (
    read_tagged_verdicts,
    read_verdict_policy,
    require_allowed,
    settle_ledger,
    withdraw_challenger,
)
from biasgate.tasks.promoting.champion import (
    Transition,
    make_decision,
    move_champion,
)
from biasgate.tasks.promoting.succession import JudgedCandidate
from biasgate.tasks.promoting.verify import require_verified, verify_champion, verify_resolved
from biasgate.tasks.records import Decision, LoggedVerdict, get_champion_uri
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.manifest import Manifest, join_differences
from biasgate.tasks.signing.statement import compute_verdict_digest
from biasgate.tasks.verifying.documents import complete_tags, write_verdict_tags
from biasgate.tasks.verifying.files import VersionFiles
from biasgate.tasks.verifying.own_verdicts import has_trusted_signature
from biasgate.tasks.verifying.version import verify_source


def promote_copy(
    model: str,
    version: str | None,
    source_name: str,
    gateway: Gateway,
    *,
    reason: str | None = None,
    by: str | None = None,
    store: Path | None = None,
) -> Decision:
    """Make a copy champion of its model, based on the verdicts of its source.

    `source_name`: the source, as `dev.toxicity/3` or `dev.toxicity@champion`. `version`: the copy.
    Default: the newest version that MLflow copied from the source. `reason`, `by`: as in
    `promote_version`. `store`: a store with frozen rows to compare with those of the verdicts.

    The source must verify and have the same files as the copy.
    """
    ledger = settle_ledger(model, gateway)
    origin = complete_tags(_find_source(source_name, model, gateway), gateway)
    copy = _find_copy(model, version, origin, gateway)
    files = VersionFiles.from_registry(origin, gateway)
    source_champion = gateway.get_alias(origin.name, CHAMPION)
    if source_champion is not None and source_champion.version == origin.version:
        findings = verify_champion(origin, gateway, files, store)
    else:
        findings = verify_resolved(origin, gateway, store, files=files, is_champion=False)
    require_verified(origin, findings)
    judged = JudgedCandidate(origin.uri, read_tagged_verdicts(origin, gateway), copy)
    source = CopySource(
        model=origin.uri,
        judged=str(judged.verdicts[0].candidate.model),
        digest=_require_same_files(files, copy, gateway).digest,
    )
    for finding in verify_source(source, judged.verdicts, gateway, is_new=True):
        if not finding.holds:
            msg = f"{copy.uri} must not become {CHAMPION}: {finding.sentence}"
            raise InputError(msg)
    _require_signed(origin, judged.verdicts, gateway)
    chain = ledger.chain
    champion = find_champion(ledger, chain)
    last_move = chain.last_move  # None if the alias was set manually
    if champion is not None and last_move is not None and champion.version == copy.version:
        gateway.set_alias(model, CHAMPION, copy.version)
        return make_decision("pass", f"{copy.uri} is {CHAMPION}.")
    policies = [read_verdict_policy(verdict, origin, gateway) for verdict in judged.verdicts]
    rivals = {get_champion_uri(verdict) for verdict in judged.verdicts}
    if None in rivals and not all(policy.allow_first for policy in policies):
        msg = (
            f"{origin.uri} must have been compared with a {CHAMPION}, since its policy does not "
            "have `allow_first: true`: evaluate it again."
        )
        raise InputError(msg)
    require_allowed(judged, champion, chain, policies, model, has_person=bool(by and reason))
    compared = ", ".join(sorted(uri or f"no {CHAMPION}" for uri in rivals))
    basis = f"{reason or 'by hand'}; copy of {origin.uri}, which was compared with {compared}"
    transition = Transition(
        "promotion",
        copy,
        champion.version if champion else None,
        judged.verdicts,
        judged.extend_reason(basis),
        by=by,
        source=source,
    )
    write_verdict_tags(copy, judged.verdicts, gateway)
    result = replace(judged, candidate=copy.uri).complete_decision(
        move_champion(transition, gateway)
    )
    if result.promoted:
        withdraw_challenger(model, copy.version, gateway)
    return result


def _find_source(source_name: str, model: str, gateway: Gateway) -> ModelVersion:
    """Return the source of a copy, a version of another model in this registry."""
    path = source_name.removeprefix("models:/")
    name = path.rpartition("@" if "@" in path and "/" not in path else "/")[0]
    try:
        require_model(name, gateway)
        source = gateway.resolve(f"models:/{path}")
    except InputError as error:
        msg = (
            f"`--from` must be NAME/VERSION of this registry; got {source_name!r}: {error} A "
            f"version of another server must be evaluated here, with `registered_model: {model}`."
        )
        raise InputError(msg) from error
    if source.name == model:
        arguments = "promote", model, source.version
        msg = (
            f"`--from` must name a version of another registered model; got {source_name!r}. To "
            f"promote it: {gateway.format_command(*arguments)}"
        )
        raise InputError(msg)
    return source


def _find_copy(
    model: str, version: str | None, source: ModelVersion, gateway: Gateway
) -> ModelVersion:
    """Return a version of a model; without `version`, its newest copy of the source."""
    if version is not None:
        return gateway.resolve(f"models:/{model}/{version}")
    copies = [
        version_ for version_ in gateway.list_versions(model) if version_.source == source.uri
    ]
    if not copies:
        msg = (
            f"{model} must have a copy of {source.uri}; it has none. Copy it: "
            f"MlflowClient().copy_model_version({source.uri!r}, {model!r}). If a version has the "
            "same files, name it: VERSION."
        )
        raise InputError(msg)
    return copies[-1]


def _require_same_files(files: VersionFiles, copy: ModelVersion, gateway: Gateway) -> Manifest:
    """Return the manifest of a source's files; raise an error if the copy's files differ."""
    manifest = files.manifest
    if isinstance(manifest, InputError):
        raise manifest
    if files.place() == gateway.find_files_uri(copy):
        return manifest
    # Files of other names or sizes are not read: they may be of any size.
    differences = manifest.list_size_differences(
        gateway.list_file_sizes(copy)
    ) or manifest.list_differences(gateway.read_manifest(copy))
    if differences:
        msg = (
            f"{copy.uri} must have the files of {files.version.uri}; different: "
            f"{join_differences(differences)}. Copy the version again, or evaluate {copy.uri}."
        )
        raise InputError(msg)
    return manifest


def _require_signed(
    source: ModelVersion, verdicts: Sequence[LoggedVerdict], gateway: Gateway
) -> None:
    """Raise an error for verdicts without a trusted signature, if this machine trusts keys.

    A reset of the source's ledger, or a revocation date, accepts verdicts only in that ledger. The
    copy has another ledger.
    """
    trusted = TrustedKeys.load()
    for verdict in verdicts if trusted else ():
        is_signed = False
        with suppress(OSError, ValueError):  # without an attestation
            is_signed = has_trusted_signature(
                verdict.run_id, compute_verdict_digest(verdict), trusted, gateway
            )
        if not is_signed:
            msg = (
                f"{source.uri} must have a verdict that a trusted key signed; a reset or a revoked "
                f"key's date accepts it in the ledger of {source.name} only: evaluate it again."
            )
            raise InputError(msg)
