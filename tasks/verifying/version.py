"""Verification of a version: its verdicts on all required sets, and the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import printable
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry, Source
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.ledger.sound import missing_heads
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Verdict
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import Statement, verdict_digest
from biasgate.tasks.verifying.attestation import verify_passes
from biasgate.tasks.verifying.documents import WRITING, with_whole_tags
from biasgate.tasks.verifying.files import Finding, VersionFiles, champion_files
from biasgate.tasks.verifying.verdict import verify_on_set

_MOST_SETS = 1000


def verify_version(
    version: ModelVersion,
    gateway: Gateway,
    *,
    files: VersionFiles | None = None,
    store: Path | None = None,
    pending: Entry | None = None,
) -> list[Finding]:
    """Recompute a version's verdicts and compare them with the recorded ones.

    The sets on which a pass is required are those that the verdicts themselves name; a tag only
    says where to find them.

    `files`: the version's files. Default: those in the registry. `store`: a store whose frozen rows
    are compared with those of the verdicts. `pending`: an open entry that promotes it.

    The version may be promoted today if all findings hold.
    """
    version = with_whole_tags(version, gateway)
    tagged = [one for one in version.tags.get("biasgate.required_sets", "").split(",") if one]
    if not tagged:
        text = f"{version.uri} must have a verdict: evaluate it first."
        return [Finding("verdict", holds=False, sentence=text)]
    now = files or VersionFiles.of(version, gateway)
    chain = Ledger(gateway, version.name).chain
    vouched = chain.vouched_verdicts(TrustedKeys.here())
    chain = chain if pending is None else Chain([*chain.links, pending])
    findings: list[Finding] = []
    if WRITING in version.tags:
        text = (
            f"an evaluation was stopped while it wrote the tags of {version.uri}, or is writing "
            "them now; its verdicts count. Run `biasgate evaluate` again to complete the tags."
        )
        findings.append(Finding("tags", holds=True, sentence=text))
    left_by = chain.rolled_away.get(version.version)
    if left_by is not None:  # which its verdicts do not say
        text = (
            f"entry {left_by.number} of the ledger rolled back from {version.uri} "
            f"({printable(left_by.content.reason)}): it is not promoted automatically again."
        )
        findings.append(Finding("ledger", holds=True, sentence=text))
    verdicts, statements = list[Verdict](), list[Statement]()
    left, seen = tagged[::-1], set[str]()
    while left:
        name = left.pop()
        if name in seen:
            continue
        if len(seen) == _MOST_SETS:
            text = f"promotion must require at most {_MOST_SETS:,} sets; more are named."
            findings.append(Finding("tags", holds=False, sentence=text))
            break
        seen.add(name)
        found, judged = verify_on_set(version, name, gateway, now, vouched, chain, store)
        findings += found
        if judged is not None:
            verdict, statement = judged
            if chain.source_of(version.version, verdict_digest(verdict)) is None:
                findings += champion_files(verdict, name, chain, gateway)
            verdicts.append(verdict)
            statements.append(statement)
            left += [one for one in verdict.required_sets[::-1] if one not in seen]
    if statements:
        findings += verify_passes(statements)
        findings += _in_order(version, tagged, verdicts, chain)
        compared = [one for one in findings if one.what == "model"]
        files_hold = all(one.holds and one.checked for one in compared)
        findings += _verify_copy(version, verdicts, chain, now if files_hold else None, gateway)
    return findings


def _verify_copy(
    version: ModelVersion,
    verdicts: Sequence[Verdict],
    chain: Chain,
    files: VersionFiles | None,
    gateway: Gateway,
) -> Iterator[Finding]:
    """Check a version that was promoted as a copy: its files, and the standing of its source.

    `files`: None if they are not those that were judged: they may be of any size, and are not read.
    """
    copied = (chain.source_of(version.version, verdict_digest(verdict)) for verdict in verdicts)
    for source in dict.fromkeys(found[0] for found in copied if found is not None):
        if files is not None and not isinstance(files.manifest, InputError):
            holds = files.manifest.digest == source.digest
            text = f"{version.uri} has the files that were promoted as a copy of {source.model}."
            yield Finding("model", holds=holds, sentence=text)
        yield from verify_source(source, verdicts, gateway)


def verify_source(
    source: Source, verdicts: Sequence[Verdict], gateway: Gateway, *, is_new: bool = False
) -> Iterator[Finding]:
    """Check that the source of a copy was not blocked after its verdicts.

    The source may be deleted, and its ledger may be damaged: only entries that count are read.
    `is_new`: whether the copy is promoted now, so that no rollback may have left the source.
    """
    trusted = TrustedKeys.here()
    for uri in dict.fromkeys((source.model, source.judged)):
        name, _, number = uri.removeprefix("models:/").rpartition("/")
        ledger = Ledger(gateway, name)
        chain = ledger.chain.accepted(trusted)
        blocked = chain.blocked(number)
        holds = blocked <= chain.verdicts_since(number, verdicts)
        text = f"no entry of {ledger.name} says that {uri} did not pass after its verdicts."
        if not holds:
            text = (
                f"{uri} did not pass by entry {blocked} of {ledger.name}, after its verdicts: "
                "evaluate it again, or use another version."
            )
        yield Finding("ledger", holds=holds, sentence=text)
        left_by = chain.rolled_away.get(number)
        if left_by is not None:
            text = (
                f"entry {left_by.number} of {ledger.name} rolled back from {uri} "
                f"({printable(left_by.content.reason)}): promote it there again, or use another "
                "version."
            )
            yield Finding("ledger", holds=not is_new, sentence=text)


def _in_order(
    version: ModelVersion, tagged: list[str], verdicts: Sequence[Verdict], chain: Chain
) -> Iterator[Finding]:
    """Check that tags and ledger agree with the verdicts, and that none is out of date."""
    required = sorted({name for verdict in verdicts for name in verdict.required_sets})
    text = (
        f"the tags of {version.uri} require the same sets as its verdicts: {', '.join(required)}."
    )
    yield Finding("tags", holds=sorted(tagged) == required, sentence=text)
    heads = [
        verdict.ledger
        for verdict in verdicts
        if chain.source_of(version.version, verdict_digest(verdict)) is None
    ]
    holds = all(head is None or chain.has(head) for head in heads)
    text = f"the ledger still has the entries that preceded the verdicts of {version.uri}."
    if heads:
        yield Finding("ledger", holds=holds, sentence=text)
    blocked = chain.blocked(version.version)
    first = chain.verdicts_since(version.version, verdicts)
    if blocked and all(verdict.outcome == "pass" for verdict in verdicts):
        text = f"{version.uri} passed after entry {blocked} of the ledger recorded that it did not."
        yield Finding("verdict", holds=first >= blocked, sentence=text)


def objection_to(entry: Entry, ledger: Ledger) -> str | None:
    """Return why an open entry must not be completed, or None."""
    chain = ledger.chain
    trusted, whole = TrustedKeys.here(), Chain([*chain.before(entry.number).links, entry])
    if len(whole.links) != len(chain.links) + 1:
        return "a later entry was done already"
    broken = [one for one in whole.breaks(ledger.model) if f"entry {entry.number} " in one]
    if broken:
        return broken[0]
    if trusted and entry.signed(trusted).standing != "trusted":
        return f"it is {entry.signed(trusted).words}"
    try:
        version = ledger.gateway.resolve(f"models:/{ledger.model}/{entry.content.version}")
        findings = verify_version(version, ledger.gateway, pending=entry)
    except InputError as error:
        return str(error)
    return next((finding.sentence for finding in findings if not finding.holds), None)


_ACCEPTED = {
    "a later entry": " A trusted key signed a later entry.",
    "a reset": " A reset accepted it.",
}


def verify_chain(ledger: Ledger, chain: Chain) -> Iterator[Finding]:
    """Check that no entry of a ledger was removed, moved, copied or forged."""
    broken = list(chain.breaks(ledger.model))
    text = f"the {len(chain.links)} entries of {ledger.name} follow each other."
    told = "; ".join(broken[:3])
    yield Finding("ledger", holds=not broken, sentence=f"{text} But {told}." if broken else text)
    for problem in ledger.foreign():
        text = (
            f"each version of {ledger.name} must be an entry of the ledger; this version is "
            f"not, and is ignored: {problem} Delete it, unless it was an entry before."
        )
        yield Finding("ledger", holds=False, sentence=text)
    missing = missing_heads(ledger, chain)
    text = f"{ledger.name} has every entry that verdicts on versions of {ledger.model} name."
    told = f" Missing or changed: {'; '.join(missing[:3])}."
    yield Finding("ledger", holds=not missing, sentence=text + told if missing else text)
    for entry, signed, accepted in chain.standings(TrustedKeys.here()):
        if entry is chain.last_move or not accepted:
            text = f"entry {entry.number} of {ledger.name} is {signed.words}."
            text += _ACCEPTED.get(accepted, "")
            checked = accepted != "no keys"
            yield Finding("signature", holds=bool(accepted), sentence=text, checked=checked)
