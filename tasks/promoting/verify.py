"""Verification of a promotion: every verdict is recomputed from its evidence.

Digests and recomputation detect a change of any one thing (policy, report, scores, rows, tags,
alias). Someone who rewrites all of them consistently is detected only if verdicts are signed
where evaluations run, and the machine that verifies trusts that key (`biasgate keys`).
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
    require_known,
)
from biasgate.tasks.ledger.sound import remember
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.pinned import TAG as POLICY_TAG
from biasgate.tasks.promoting.succession import Judged, Past, Succession
from biasgate.tasks.signing.manifest import Manifest
from biasgate.tasks.verifying.documents import logged_verdict, read_policy_of, read_verdict
from biasgate.tasks.verifying.files import Finding, VersionFiles, not_deployable, read_recorded
from biasgate.tasks.verifying.version import objection_to, verify_chain, verify_version


class NotVerifiedError(InputError):
    """A model version whose verdict is missing or does not hold."""

    def __init__(self, version: ModelVersion, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__(not_deployable(version.uri, findings))


def require_champion(model: str, gateway: Gateway, store: Path | None = None) -> ModelVersion:
    """Return the version under `champion` if its promotion holds; else raise an error.

    `store`: a store whose frozen sets are verified too.
    """
    require_known(model, gateway)
    champion = require_alias(model, gateway)
    require_held(champion, verify_champion(champion, gateway, store=store))
    return champion


def open_champion(model: str, folder: Path, gateway: Gateway, store: Path | None = None) -> Path:
    """Copy the champion's files to an empty folder, and check the copy as `require_champion` does.

    Others cannot write to the copy, so what was checked is what is loaded from it.

    Returns where the files are, in `folder`.
    """
    require_known(model, gateway)
    champion = require_alias(model, gateway)
    copies: list[Path] = []

    def copied() -> Manifest:
        copies.append(gateway.fetch(champion, folder))
        return Manifest.of(copies[0])

    files = replace(VersionFiles.of(champion, gateway), read=copied, required=True)
    require_held(champion, verify_champion(champion, gateway, files, store))
    return copies[0]


def verify(model: str, version: str | None, gateway: Gateway, store: Path) -> list[Finding]:
    """Verify the champion with its promotion, or the verdicts of one version, with the ledger."""
    require_known(model, gateway)
    found = find_version(model, version, gateway)
    return verify_found(found, gateway, store, is_champion=version is None)


def find_version(model: str, version: str | None, gateway: Gateway) -> ModelVersion:
    """Return a version of a model; the one under `champion` if none is named."""
    if version is None:
        return require_alias(model, gateway)
    return gateway.resolve(f"models:/{model}/{version}")


def verify_found(
    version: ModelVersion,
    gateway: Gateway,
    store: Path | None = None,
    files: VersionFiles | None = None,
    *,
    is_champion: bool,
) -> list[Finding]:
    """Verify a version, as the champion with its promotion or only by its verdicts.

    Only the ledger says if it was blocked later, so the ledger must be unchanged as well.
    """
    if is_champion:
        return verify_champion(version, gateway, files, store)
    ledger = Ledger(gateway, version.name)
    return [
        *verify_chain(ledger, ledger.chain),
        *verify_version(version, gateway, files=files, store=store),
    ]


def require_held(version: ModelVersion, findings: list[Finding]) -> None:
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

    The alias is looked up once, by the caller: it may move meanwhile. `files` and `store` are as in
    `verify_version`. If the ledger is whole and its signatures hold, its last entry is kept on
    this machine, whatever the verdict: from then on the ledger must have it.
    """
    ledger = Ledger(gateway, champion.name)
    entries = ledger.entries()
    # A promotion that was killed after it moved the alias counts, if its entry is sound.
    moving = [
        entry
        for entry in entries
        if entry.state == "open" and entry.content.version == champion.version
    ]
    pending = next((one for one in moving if objection_to(one, ledger) is None), None)
    findings = [
        *_verify_ledger(ledger, champion, Chain.of(entries), pending),
        *verify_version(champion, gateway, files=files, store=store, pending=pending),
    ]
    chain = ledger.chain
    if all(finding.holds for finding in verify_chain(ledger, chain)):
        remember(ledger, chain)
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
    recorded = str(last.content.version)
    text = f"{CHAMPION} is version {champion.version}; last promoted: {recorded or 'none'}."
    yield Finding("alias", holds=champion.version == recorded, sentence=text)
    previous = ledger.gateway.alias(ledger.model, PREVIOUS)
    found, kept = (previous.version if previous else ""), str(last.content.replaces)
    if last.content.action != "reset":
        yield Finding(
            "alias",
            holds=found == kept or not kept or last.state == "open",
            sentence=f"{PREVIOUS} is version {found or 'none'}; last replaced: {kept or 'none'}.",
        )
        for verdict in last.content.verdicts:
            holds = read_recorded(verdict, ledger.gateway) is not None
            text = f"the verdict on {verdict.set} is unchanged since {last.content.action} "
            yield Finding("record", holds=holds, sentence=f"{text}{last.number}.")
        yield from _verify_succession(last, ledger, chain.before(last.number))


def _verify_succession(entry: Entry, ledger: Ledger, before: Chain) -> Iterator[Finding]:
    """Check that the policy, and its rule, allow the recorded replacement."""
    yield from _verify_pinned(entry, ledger, before)
    rule = entry.content.rule
    if rule == "by hand":
        return
    gateway, replaced = ledger.gateway, entry.content.replaces or None
    try:
        runs = [verdict.run_id for verdict in entry.content.verdicts]
        verdicts = [logged_verdict(run, gateway) for run in runs]
        policies = [read_policy_of(run, gateway) for run in runs]
        version = gateway.resolve(f"models:/{ledger.model}/{entry.content.version}")
        objections = [
            Succession(policy.promote, allow_first=policy.allow_first).objection(
                Judged("", verdicts, version), replaced, Past.of(before.links, replaced)
            )
            for policy in policies
        ]
        named = all(rule in {policy.promote, "first"} for policy in policies)
        holds = named and (rule == "first") == (replaced is None) and not any(objections)
    except (ValueError, TypeError):  # of objectives and numbers that others wrote
        holds = False
    text = f"the policy's rule allows promotion {entry.number} ({rule})."
    yield Finding("rule", holds=holds, sentence=text)


def _verify_pinned(entry: Entry, ledger: Ledger, before: Chain) -> Iterator[Finding]:
    """Check that a promotion was decided by the policy that was registered then."""
    pinned = before.policy
    tag = ledger.gateway.model_tags(ledger.model).get(POLICY_TAG)
    now = ledger.chain.policy
    if tag is not None or now is not None:
        expected = f"{now.name} {now.digest}" if now else None
        text = (
            f"the tag {POLICY_TAG} of {ledger.model} names the policy that the ledger registered."
        )
        yield Finding("policy", holds=tag == expected, sentence=text)
    if pinned is None or entry.content.action == "rollback":
        return
    try:
        found = [
            read_verdict(verdict.run_id, ledger.gateway).policy.digest
            for verdict in entry.content.verdicts
        ]
        holds = set(found) == {pinned.digest}
    except InputError:
        holds = False
    text = f"promotion {entry.number} was decided by the registered policy, {pinned.name}."
    yield Finding("policy", holds=holds, sentence=text)
