"""Verification of a version by its verdicts on all required sets, and of its ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import CopySource, Entry
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.ledger.sound import find_missing_heads
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Verdict
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import Statement, compute_verdict_digest
from biasgate.tasks.verifying.attestation import verify_passes
from biasgate.tasks.verifying.documents import WRITING, complete_tags
from biasgate.tasks.verifying.files import Finding, VersionFiles, check_champion_files
from biasgate.tasks.verifying.verdict import verify_on_set

_MAX_SETS = 1000


def verify_version(
    version: ModelVersion,
    gateway: Gateway,
    *,
    files: VersionFiles | None = None,
    store: Path | None = None,
    pending: Entry | None = None,
) -> list[Finding]:
    """Recompute a version's verdicts and compare them with the recorded verdicts.

    The verdicts themselves name the required sets; a tag is only used to find the verdicts.

    `files`: the version's files. Default: those in the registry. `store`: a store with frozen rows
    to compare with those of the verdicts. `pending`: an open entry that promotes the version.

    The version may be promoted today if all findings hold.
    """
    version = complete_tags(version, gateway)
    tagged = [name for name in version.tags.get("biasgate.required_sets", "").split(",") if name]
    if not tagged:
        text = f"{version.uri} must have a verdict: evaluate it first."
        return [Finding("verdict", holds=False, sentence=text)]
    current = files or VersionFiles.from_registry(version, gateway)
    chain = Ledger(gateway, version.name).chain
    vouched = chain.find_vouched_verdicts(TrustedKeys.load())
    chain = chain if pending is None else Chain([*chain.links, pending])
    findings: list[Finding] = []
    if WRITING in version.tags:
        text = (
            f"an evaluation was stopped while it wrote the tags of {version.uri}, or is writing "
            "them now; its verdicts count. Run `biasgate evaluate` again to complete the tags."
        )
        findings.append(Finding("tags", holds=True, sentence=text))
    rollback = chain.rollbacks.get(version.version)
    if rollback is not None:
        text = (
            f"entry {rollback.number} of the ledger rolled back from {version.uri} "
            f"({escape_invisible(rollback.content.reason)}): it is not promoted automatically "
            "again."
        )
        findings.append(Finding("ledger", holds=True, sentence=text))
    verdicts, statements = list[Verdict](), list[Statement]()
    remaining, seen = tagged[::-1], set[str]()
    while remaining:
        name = remaining.pop()
        if name in seen:
            continue
        if len(seen) == _MAX_SETS:
            text = f"promotion must require at most {_MAX_SETS:,} sets; more are named."
            findings.append(Finding("tags", holds=False, sentence=text))
            break
        seen.add(name)
        findings_on_set, judged = verify_on_set(
            version, name, gateway, current, vouched, chain, store
        )
        findings += findings_on_set
        if judged is not None:
            verdict, statement = judged
            if chain.find_source(version.version, compute_verdict_digest(verdict)) is None:
                findings += check_champion_files(verdict, name, chain, gateway)
            verdicts.append(verdict)
            statements.append(statement)
            remaining += [
                required for required in verdict.required_sets[::-1] if required not in seen
            ]
    if statements:
        findings += verify_passes(statements)
        findings += _check_consistency(version, tagged, verdicts, chain)
        compared = [finding for finding in findings if finding.what == "model"]
        files_hold = all(finding.holds and finding.checked for finding in compared)
        findings += _verify_copy(version, verdicts, chain, current if files_hold else None, gateway)
    return findings


def _verify_copy(
    version: ModelVersion,
    verdicts: Sequence[Verdict],
    chain: Chain,
    files: VersionFiles | None,
    gateway: Gateway,
) -> Iterator[Finding]:
    """Check the files and the source of a version that was promoted as a copy.

    `files`: None if they differ from the judged files. They are not read then, since they may be
    arbitrarily large.
    """
    copies = (
        chain.find_source(version.version, compute_verdict_digest(verdict)) for verdict in verdicts
    )
    for source in dict.fromkeys(copy[0] for copy in copies if copy is not None):
        if files is not None and not isinstance(files.manifest, InputError):
            holds = files.manifest.digest == source.digest
            text = f"{version.uri} has the files that were promoted as a copy of {source.model}."
            yield Finding("model", holds=holds, sentence=text)
        yield from verify_source(source, verdicts, gateway)


def verify_source(
    source: CopySource, verdicts: Sequence[Verdict], gateway: Gateway, *, is_new: bool = False
) -> Iterator[Finding]:
    """Check that the source of a copy was not blocked after its verdicts.

    The source may be deleted, and its ledger may be damaged: only accepted entries are read.
    `is_new`: whether the copy is promoted now. Then a rollback from the source also fails.
    """
    trusted = TrustedKeys.load()
    for uri in dict.fromkeys((source.model, source.judged)):
        name, _, number = uri.removeprefix("models:/").rpartition("/")
        ledger = Ledger(gateway, name)
        chain = ledger.chain.select_accepted(trusted)
        blocked = chain.find_last_block(number)
        holds = blocked <= chain.find_oldest_head(number, verdicts)
        text = f"no entry of {ledger.name} says that {uri} did not pass after its verdicts."
        if not holds:
            text = (
                f"{uri} did not pass by entry {blocked} of {ledger.name}, after its verdicts: "
                "evaluate it again, or use another version."
            )
        yield Finding("ledger", holds=holds, sentence=text)
        rollback = chain.rollbacks.get(number)
        if rollback is not None:
            text = (
                f"entry {rollback.number} of {ledger.name} rolled back from {uri} "
                f"({escape_invisible(rollback.content.reason)}): promote it there again, or use "
                "another "
                "version."
            )
            yield Finding("ledger", holds=not is_new, sentence=text)


def _check_consistency(
    version: ModelVersion, tagged: list[str], verdicts: Sequence[Verdict], chain: Chain
) -> Iterator[Finding]:
    """Check that tags and ledger agree with the verdicts, and that no verdict is outdated."""
    required = sorted({name for verdict in verdicts for name in verdict.required_sets})
    text = (
        f"the tags of {version.uri} require the same sets as its verdicts: {', '.join(required)}."
    )
    yield Finding("tags", holds=sorted(tagged) == required, sentence=text)
    heads = [
        verdict.ledger
        for verdict in verdicts
        if chain.find_source(version.version, compute_verdict_digest(verdict)) is None
    ]
    holds = all(head is None or chain.has_head(head) for head in heads)
    text = f"the ledger still has the entries that preceded the verdicts of {version.uri}."
    if heads:
        yield Finding("ledger", holds=holds, sentence=text)
    blocked = chain.find_last_block(version.version)
    oldest_head = chain.find_oldest_head(version.version, verdicts)
    if blocked and all(verdict.outcome == "pass" for verdict in verdicts):
        text = f"{version.uri} passed after entry {blocked} of the ledger recorded that it did not."
        yield Finding("verdict", holds=oldest_head >= blocked, sentence=text)


def find_entry_objection(entry: Entry, ledger: Ledger) -> str | None:
    """Return why an open entry must not be completed; None if it may be completed."""
    chain = ledger.chain
    trusted, extended = TrustedKeys.load(), Chain([*chain.get_prefix(entry.number).links, entry])
    if len(extended.links) != len(chain.links) + 1:
        return "a later entry was done already"
    broken = [
        problem
        for problem in extended.find_breaks(ledger.model)
        if f"entry {entry.number} " in problem
    ]
    if broken:
        return broken[0]
    if trusted and entry.check_signatures(trusted).status != "trusted":
        return f"it is {entry.check_signatures(trusted).description}"
    try:
        version = ledger.gateway.resolve(f"models:/{ledger.model}/{entry.content.version}")
        findings = verify_version(version, ledger.gateway, pending=entry)
    except InputError as error:
        return str(error)
    return next((finding.sentence for finding in findings if not finding.holds), None)


_ACCEPTANCE_NOTES = {
    "a later entry": " A trusted key signed a later entry.",
    "a reset": " A reset accepted it.",
}


def verify_chain(ledger: Ledger, chain: Chain) -> Iterator[Finding]:
    """Check that the entries of a ledger form an unbroken chain, and check their signatures.

    Missing last entries are detected only if a verdict or this machine's record names them. Forged
    entries are detected only if this machine trusts keys.
    """
    breaks = list(chain.find_breaks(ledger.model))
    text = f"the {len(chain.links)} entries of {ledger.name} follow each other."
    details = "; ".join(breaks[:3])
    yield Finding("ledger", holds=not breaks, sentence=f"{text} But {details}." if breaks else text)
    for problem in ledger.find_foreign_versions():
        text = (
            f"each version of {ledger.name} must be an entry of the ledger; this version is "
            f"not, and is ignored: {problem} Delete it, unless it was an entry before."
        )
        yield Finding("ledger", holds=False, sentence=text)
    missing = find_missing_heads(ledger, chain)
    text = f"{ledger.name} has every entry that verdicts on versions of {ledger.model} name."
    details = f" Missing or changed: {'; '.join(missing[:3])}."
    yield Finding("ledger", holds=not missing, sentence=text + details if missing else text)
    for entry, signed, accepted in chain.check_signatures(TrustedKeys.load()):
        if entry is chain.last_move or not accepted:
            text = f"entry {entry.number} of {ledger.name} is {signed.description}."
            text += _ACCEPTANCE_NOTES.get(accepted, "")
            checked = accepted != "no keys"
            yield Finding("signature", holds=bool(accepted), sentence=text, checked=checked)
