"""Whether a promotion still holds: every verdict is recomputed from its evidence.

Digests and recomputation detect a change of any one thing (policy, report, scores, rows, tags,
alias). Someone who rewrites all of them consistently is detected only if verdicts are signed
where evaluations run, and the machine that verifies trusts that key (`biasgate keys`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.chain import Chain
from biasgate.tasks.promoting.champion import objection_to
from biasgate.tasks.promoting.documents import logged_verdict, read_policy_of, read_verdict
from biasgate.tasks.promoting.entries import Entry
from biasgate.tasks.promoting.findings import Finding
from biasgate.tasks.promoting.ledger import CHAMPION, PREVIOUS, Ledger
from biasgate.tasks.promoting.pinned import TAG as POLICY_TAG
from biasgate.tasks.promoting.seen import remember
from biasgate.tasks.promoting.sound import missing_heads
from biasgate.tasks.promoting.succession import Judged, Past, Succession
from biasgate.tasks.promoting.verify_files import VersionFiles
from biasgate.tasks.promoting.verify_version import verify_version
from biasgate.tasks.signing.statement import verdict_digest
from biasgate.tasks.signing.trusted import TrustedKeys

_ACCEPTED = {
    "a later entry": " A trusted key signed a later entry.",
    "a reset": " A reset accepted it.",
}


def require_alias(model: str, gateway: Gateway) -> ModelVersion:
    """Return the version under `champion`.

    Raises
    ------
    InputError
        If there is no champion.
    """
    champion = gateway.alias(model, CHAMPION)
    if champion is None:
        msg = f"model {model} must have a `{CHAMPION}` in {gateway.registry_uri}; it has none."
        raise InputError(msg)
    return champion


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
    findings = [
        *_verify_ledger(ledger, champion),
        *verify_version(champion, gateway, files=files, store=store),
    ]
    chain = ledger.chain
    if all(one.holds for one in verify_chain(ledger, chain)):
        remember(ledger, chain)
    return findings


def _verify_ledger(ledger: Ledger, champion: ModelVersion) -> Iterator[Finding]:
    entries = ledger.entries()
    chain = Chain.of(entries)
    yield from verify_chain(ledger, chain)
    last = _interrupted(entries, ledger, champion) or chain.last_move
    if last is None:
        text = f"{CHAMPION} is version {champion.version}, but no promotion of it is recorded."
        yield Finding("alias", holds=False, sentence=text)
        return
    recorded = str(last.content["version"])
    text = f"{CHAMPION} is version {champion.version}; last promoted: {recorded or 'none'}."
    yield Finding("alias", holds=champion.version == recorded, sentence=text)
    previous = ledger.gateway.alias(ledger.model, PREVIOUS)
    found, kept = (previous.version if previous else ""), str(last.content["replaces"])
    if last.content["action"] != "reset":
        yield Finding(
            "alias",
            holds=found == kept or not kept or last.state == "open",
            sentence=f"{PREVIOUS} is version {found or 'none'}; last replaced: {kept or 'none'}.",
        )
        yield from _verify_record(last, ledger.gateway)
        yield from _verify_succession(last, ledger, chain.before(last.number))


def _interrupted(entries: Sequence[Entry], ledger: Ledger, champion: ModelVersion) -> Entry | None:
    """Return the entry of a promotion that was killed after it moved the alias, if it is sound."""
    return next(
        (
            one
            for one in entries
            if one.state == "open"
            and one.content["version"] == champion.version
            and objection_to(one, ledger) is None
        ),
        None,
    )


def verify_chain(ledger: Ledger, chain: Chain) -> Iterator[Finding]:
    """Check that no entry of a ledger was removed, moved, copied or forged."""
    broken = list(chain.breaks(ledger.model))
    text = f"the {len(chain.links)} entries of {ledger.name} follow each other."
    told = "; ".join(broken[:3])
    yield Finding("ledger", holds=not broken, sentence=f"{text} But {told}." if broken else text)
    for problem in ledger.foreign():
        text = (
            f"each version of {ledger.name} must be an entry of the ledger; one is not, and is "
            f"passed over: {problem} Delete it, unless it was an entry before."
        )
        yield Finding("ledger", holds=False, sentence=text)
    yield from _verify_heads(ledger, chain)
    for entry, signed, accepted in chain.standings(TrustedKeys.here()):
        if entry is chain.last_move or not accepted:
            text = f"entry {entry.number} of {ledger.name} is {signed.words}."
            text += _ACCEPTED.get(accepted, "")
            yield Finding("signature", holds=bool(accepted), sentence=text)


def _verify_heads(ledger: Ledger, chain: Chain) -> Iterator[Finding]:
    """Check that the ledger was not shortened."""
    missing = missing_heads(ledger, chain)
    text = f"{ledger.name} has every entry that verdicts on versions of {ledger.model} name."
    told = f" Missing or changed: {'; '.join(missing[:3])}."
    yield Finding("ledger", holds=not missing, sentence=text + told if missing else text)


def _verify_record(entry: Entry, gateway: Gateway) -> Iterator[Finding]:
    """Check that the verdicts behind a promotion have not changed since."""
    for one in entry.content["verdicts"]:
        try:
            holds = verdict_digest(read_verdict(one["run_id"], gateway)) == one["digest"]
        except InputError:
            holds = False
        text = f"the verdict on {one['set']} is the one behind {entry.content['action']} "
        yield Finding("record", holds=holds, sentence=f"{text}{entry.number}.")


def _verify_succession(entry: Entry, ledger: Ledger, before: Chain) -> Iterator[Finding]:
    """Check that the policy, and its rule, allow the recorded replacement."""
    yield from _verify_pinned(entry, ledger, before)
    rule = entry.content["rule"]
    if rule == "by hand":
        return
    gateway, replaced = ledger.gateway, entry.content["replaces"] or None
    try:
        runs = [one["run_id"] for one in entry.content["verdicts"]]
        verdicts = [logged_verdict(one, gateway) for one in runs]
        policies = [read_policy_of(one, gateway) for one in runs]
        version = gateway.resolve(f"models:/{ledger.model}/{entry.content['version']}")
        objections = [
            Succession(one.promote, allow_first=one.allow_first).objection(
                Judged("", verdicts, version), replaced, Past.of(before.links, replaced)
            )
            for one in policies
        ]
        named = all(rule in {one.promote, "first"} for one in policies)
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
        expected = f"{now['name']} {now['digest']}" if now else None
        text = (
            f"the tag {POLICY_TAG} of {ledger.model} names the policy that the ledger registered."
        )
        yield Finding("policy", holds=tag == expected, sentence=text)
    if pinned is None or entry.content["action"] == "rollback":
        return
    try:
        found = [
            read_verdict(one["run_id"], ledger.gateway).policy.digest
            for one in entry.content["verdicts"]
        ]
        holds = bool(found) and set(found) == {pinned["digest"]}
    except InputError:
        holds = False
    text = f"promotion {entry.number} was decided by the registered policy, {pinned['name']}."
    yield Finding("policy", holds=holds, sentence=text)
