"""Verification of a promotion: all verdicts are recomputed from their evidence.

Digests and recomputation detect a change of a single file, tag or alias (policy, report, scores,
rows). A consistent change of all files and tags is detected only if the evaluation signs verdicts,
and the verifying machine trusts that key (`biasgate keys`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry
from biasgate.tasks.ledger.ledger import (
    CHAMPION,
    PREVIOUS,
    Ledger,
    require_alias,
    require_model,
)
from biasgate.tasks.ledger.sound import remember_head
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.pinned import POLICY_TAG
from biasgate.tasks.promoting.succession import JudgedCandidate, PromotionHistory, SuccessionRule
from biasgate.tasks.signing.manifest import Manifest
from biasgate.tasks.verifying.documents import read_logged_verdict, read_run_policy, read_verdict
from biasgate.tasks.verifying.files import (
    Finding,
    VersionFiles,
    describe_failures,
    read_recorded_verdict,
)
from biasgate.tasks.verifying.version import find_entry_objection, verify_chain, verify_version


class NotVerifiedError(InputError):
    """A model version without a verdict, or with a failed check."""

    def __init__(self, version: ModelVersion, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__(describe_failures(version.uri, findings))


def require_champion(model: str, gateway: Gateway, store: Path | None = None) -> ModelVersion:
    """Return the version under `champion`; raise an error if its promotion does not verify.

    `store`: a store with frozen sets to verify as well.
    """
    require_model(model, gateway)
    champion = require_alias(model, gateway)
    require_verified(champion, verify_champion(champion, gateway, store=store))
    return champion


def open_champion(model: str, folder: Path, gateway: Gateway, store: Path | None = None) -> Path:
    """Copy the champion's files to an empty folder, and verify the champion with the copy.

    Users with access to the registry cannot change the copy. So the verified files are the files
    that are loaded from it.

    Returns the path of the files in `folder`.
    """
    require_model(model, gateway)
    champion = require_alias(model, gateway)
    copies: list[Path] = []

    def fetch_manifest() -> Manifest:
        copies.append(gateway.fetch(champion, folder))
        return Manifest.from_path(copies[0])

    files = replace(
        VersionFiles.from_registry(champion, gateway), read=fetch_manifest, required=True
    )
    require_verified(champion, verify_champion(champion, gateway, files, store))
    return copies[0]


def verify_model(model: str, version: str | None, gateway: Gateway, store: Path) -> list[Finding]:
    """Verify the champion and its promotion, or the verdicts of a version, and the ledger."""
    require_model(model, gateway)
    target = find_version(model, version, gateway)
    return verify_resolved(target, gateway, store, is_champion=version is None)


def find_version(model: str, version: str | None, gateway: Gateway) -> ModelVersion:
    """Return a version of a model; without `version`, the version under `champion`."""
    if version is None:
        return require_alias(model, gateway)
    return gateway.resolve(f"models:/{model}/{version}")


def verify_resolved(
    version: ModelVersion,
    gateway: Gateway,
    store: Path | None = None,
    files: VersionFiles | None = None,
    *,
    is_champion: bool,
) -> list[Finding]:
    """Verify a version by its verdicts and the ledger; for the champion, also its promotion.

    Only the ledger records that a version was blocked later, so the ledger is verified as well.
    """
    if is_champion:
        return verify_champion(version, gateway, files, store)
    ledger = Ledger(gateway, version.name)
    return [
        *verify_chain(ledger, ledger.chain),
        *verify_version(version, gateway, files=files, store=store),
    ]


def require_verified(version: ModelVersion, findings: list[Finding]) -> None:
    """Raise an error if a check of a version failed."""
    if not all(finding.holds for finding in findings):
        raise NotVerifiedError(version, findings)


def verify_champion(
    champion: ModelVersion,
    gateway: Gateway,
    files: VersionFiles | None = None,
    store: Path | None = None,
) -> list[Finding]:
    """Verify the version under `champion`, and that the ledger records its promotion.

    The caller looks up the alias once, since it may move meanwhile. `files` and `store` are as in
    `verify_version`. If the ledger and its signatures verify, this machine stores the last entry
    for any verdict. From then on the ledger must have this entry.
    """
    ledger = Ledger(gateway, champion.name)
    entries = ledger.read_entries()
    # A promotion that was killed after it moved the alias counts, if its entry verifies.
    moving = [
        entry
        for entry in entries
        if entry.state == "open" and entry.content.version == champion.version
    ]
    pending = next((entry for entry in moving if find_entry_objection(entry, ledger) is None), None)
    findings = [
        *_verify_ledger(ledger, champion, Chain.from_entries(entries), pending),
        *verify_version(champion, gateway, files=files, store=store, pending=pending),
    ]
    chain = ledger.chain
    if all(finding.holds for finding in verify_chain(ledger, chain)):
        remember_head(ledger, chain)
    return findings


def _verify_ledger(
    ledger: Ledger, champion: ModelVersion, chain: Chain, pending: Entry | None
) -> Iterator[Finding]:
    yield from verify_chain(ledger, chain)
    last = pending or chain.last_move
    if last is None:
        text = f"{CHAMPION} is version {champion.version}, but its promotion is not recorded."
        yield Finding("alias", holds=False, sentence=text)
        return
    promoted = str(last.content.version)
    text = f"{CHAMPION} is version {champion.version}; last promoted: {promoted or 'none'}."
    yield Finding("alias", holds=champion.version == promoted, sentence=text)
    previous = ledger.gateway.get_alias(ledger.model, PREVIOUS)
    current, expected = (previous.version if previous else ""), str(last.content.replaces)
    if last.content.action != "reset":
        text = f"{PREVIOUS} is version {current or 'none'}; last replaced: {expected or 'none'}."
        yield Finding(
            "alias",
            holds=current == expected or not expected or last.state == "open",
            sentence=text,
        )
        for verdict in last.content.verdicts:
            holds = read_recorded_verdict(verdict, ledger.gateway) is not None
            text = f"the verdict on {verdict.set} is unchanged since {last.content.action} "
            yield Finding("record", holds=holds, sentence=f"{text}{last.number}.")
        yield from _verify_succession(last, ledger, chain.get_prefix(last.number))


def _verify_succession(entry: Entry, ledger: Ledger, before: Chain) -> Iterator[Finding]:
    """Check that the registered policy and its rule allow a recorded promotion."""
    yield from _verify_policy(entry, ledger, before)
    rule = entry.content.rule
    if rule == "by hand":
        return
    gateway, replaced = ledger.gateway, entry.content.replaces or None
    try:
        runs = [verdict.run_id for verdict in entry.content.verdicts]
        verdicts = [read_logged_verdict(run, gateway) for run in runs]
        policies = [read_run_policy(run, gateway) for run in runs]
        version = gateway.resolve(f"models:/{ledger.model}/{entry.content.version}")
        objections = [
            SuccessionRule(policy.promote, allow_first=policy.allow_first).find_objection(
                JudgedCandidate("", verdicts, version),
                replaced,
                PromotionHistory.from_entries(before.links, replaced),
            )
            for policy in policies
        ]
        is_known_rule = all(rule in {policy.promote, "first"} for policy in policies)
        holds = is_known_rule and (rule == "first") == (replaced is None) and not any(objections)
    except (ValueError, TypeError):  # of objectives and numbers that others wrote
        holds = False
    text = f"the policy's rule allows promotion {entry.number} ({rule})."
    yield Finding("rule", holds=holds, sentence=text)


def _verify_policy(entry: Entry, ledger: Ledger, before: Chain) -> Iterator[Finding]:
    """Check that the policy behind a promotion was the registered policy at that time."""
    pinned = before.policy
    tag = ledger.gateway.get_model_tags(ledger.model).get(POLICY_TAG)
    registered = ledger.chain.policy
    if tag is not None or registered is not None:
        expected = f"{registered.name} {registered.digest}" if registered else None
        text = (
            f"the tag {POLICY_TAG} of {ledger.model} names the policy that the ledger registered."
        )
        yield Finding("policy", holds=tag == expected, sentence=text)
    if pinned is None or entry.content.action == "rollback":
        return
    try:
        digests = [
            read_verdict(verdict.run_id, ledger.gateway).policy.digest
            for verdict in entry.content.verdicts
        ]
        holds = set(digests) == {pinned.digest}
    except InputError:
        holds = False
    text = f"promotion {entry.number} was decided by the registered policy, {pinned.name}."
    yield Finding("policy", holds=holds, sentence=text)
