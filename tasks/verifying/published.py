"""Whether published verdicts follow from their rows: in a folder of results, or in a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bias_metrics.gate import worst
from biasgate.tasks.common.code import code_digest
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.untrusted import read_json, read_record
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import CandidateDecision, LoggedVerdict, Verdict
from biasgate.tasks.records.record import Record
from biasgate.tasks.reporting.results import SUMMARY, VERDICT, Results
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import (
    Annotations,
    annotations_of,
    read_statement,
    statement_of,
)
from biasgate.tasks.verifying.attestation import NO_PINS, Pins
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import Finding, described, signature_of
from biasgate.tasks.verifying.verdict import decide_again, n_rows_of, same_again, same_digests
from biasgate.tasks.wording import exceptions_in_words, word_of_verdict


@dataclass(frozen=True, kw_only=True)
class BundledVerdict(Record):
    """A verdict of a bundle, the rows that it was decided on, and the rows in the bundle.

    `evidence` is the digest that the verdict names; `rows` that of the same rows without ids, null
    if the bundle has none.
    """

    folder: str
    evidence: str
    rows: str | None


def verify_results(results: Results, pins: Pins = NO_PINS) -> list[Finding]:
    """Check the verdicts in the folder of an evaluation, as those of a bundle.

    Nothing but attestations is signed there: it shows that each verdict follows from its rows.

    Returns
    -------
    list of Finding
        For each verdict, whether it follows from its rows and the summary has the same one.
    """
    findings: list[Finding] = []
    said: list[Annotations] = []
    for published in results.each:
        name, evidence = "/".join(published.names), published.evidence
        if evidence is None:
            text = f"the verdict on {name} is not recomputed: its {EVIDENCE} is not there."
            findings.append(Finding("evidence", holds=False, sentence=text))
            continue
        rows = evidence.digest
        bundled = BundledVerdict(folder=name, evidence=rows, rows=rows)
        found, annotations = verified(published.folder, bundled)
        findings += found
        said += annotations
    findings += _summary(results)
    return findings + [pinned for pinned in pins.check(said) if pinned.what != "model"]


def _summary(results: Results) -> Iterator[Finding]:
    """Check that the summary has the verdicts of the folders, all of them, and no better outcome.

    A candidate may be without a verdict only if it did not pass.
    """
    summary = results.summary
    if summary is None:
        return
    each: dict[str, list[Verdict]] = {}
    differ = []
    for one, logged in zip(results.each, summary.verdicts, strict=True):
        path = one.folder / VERDICT
        if not path.exists():  # a finding of its own says so
            differ.append("/".join(one.names))
            continue
        own = LoggedVerdict.logged(read_record(path, Verdict), logged.run_id)
        if own != logged:
            differ.append("/".join(one.names))
        each.setdefault(own.candidate.name, []).append(own)
    decided = {decision.candidate: decision for decision in summary.decisions}
    differ += [name for name, one in decided.items() if not _follows(one, each.get(name, []))]
    differ += sorted({*each, *summary.outcome_of} - decided.keys())
    counted = [one.outcome for name, one in decided.items() if name in summary.outcome_of]
    if summary.outcome != worst(counted):
        differ.append("its outcome")
    text = f"{SUMMARY} has the verdicts of the folders, and outcomes that follow from them."
    text += (
        f" But not: {', '.join(differ)}."
        if differ
        else " Not compared: which candidates its outcome counts, and what was promoted."
    )
    yield Finding("verdict", holds=not differ, sentence=text)
    verdicts = [one for of_candidate in each.values() for one in of_candidate]
    policies = {(one.policy.digest, *sorted(one.required_sets)) for one in verdicts}
    text = "the verdicts are by one policy, and require the same sets"
    lacking = sorted(
        f"{name} on {wanted}"
        for name, of_candidate in each.items()
        if name in decided and decided[name].outcome == "pass"
        for wanted in {one for verdict in of_candidate for one in verdict.required_sets}
        - {verdict.evaluation_set.name for verdict in of_candidate}
    )
    text += f", which are all there. Missing: {', '.join(lacking)}." if lacking else "."
    yield Finding("verdict", holds=len(policies) < 2 and not lacking, sentence=text)


def _follows(decision: CandidateDecision, verdicts: Sequence[Verdict]) -> bool:
    """Say whether what a summary says of a candidate is no better than its verdicts."""
    required = [verdict.outcome for verdict in verdicts if verdict.evaluation_set.required]
    if not verdicts:
        return decision.outcome != "pass"
    if worst([decision.outcome, *required]) != decision.outcome:
        return False
    same_code = all(verdict.code.bias_metrics == code_digest() for verdict in verdicts)
    return (
        decision.word is None
        or not same_code
        or (
            decision.word == word_of_verdict(*verdicts).text
            and sorted(decision.exceptions or ()) == sorted(exceptions_in_words(verdicts))
        )
    )


def verified(
    place: Path, one: BundledVerdict, *, vouched: bool = False
) -> tuple[list[Finding], list[Annotations]]:
    """Check a verdict by its documents, and compute it again from its rows.

    `vouched`: whether a trusted key signed all of these files.
    """
    name = one.folder
    try:
        if one.rows is None:
            (place / EVIDENCE).touch()
        documents = Documents.of(place, name)
        verdict = documents.verdict
        findings = list(as_named(documents, one))
        findings += attested(place, documents, one, vouched=vouched)
        held = all(finding.holds for finding in findings)
        if one.rows is not None and held:
            findings += recomputed(place, documents, name)
        else:
            why = "no rows are here" if one.rows is None else "what is said above does not hold"
            text = f"the verdict on {name} ({verdict.outcome}) is not recomputed: {why}."
            told = one.rows is None
            findings.append(Finding("verdict", holds=told, sentence=text, checked=not told))
        digests = {**documents.digests, EVIDENCE: one.evidence}
        said = annotations_of(statement_of(verdict, digests, ""))
    except Exception as error:  # noqa: BLE001 - documents of others may make any library fail
        text = f"the verdict on {name} cannot be verified: {described(error)}"
        return [Finding("verdict", holds=False, sentence=text)], []
    return findings, [] if said is None else [said]


def as_named(documents: Documents, one: BundledVerdict) -> Iterator[Finding]:
    """Check that the documents are those that the verdict names, and that it is of its folder."""
    verdict = documents.verdict
    folder = f"{verdict.evaluation_set.name}/{verdict.candidate.name}"
    text = f"the verdict in {one.folder} is on this set and candidate."
    yield Finding("verdict", holds=one.folder == folder, sentence=text)
    for finding in same_digests(documents, one.folder, one.evidence):
        if finding.what == "evidence" and one.rows is None:
            text = (
                f"the list and the verdict on {one.folder} name the same rows, not in the bundle."
            )
            yield replace(finding, sentence=text)
        else:
            yield finding


def attested(
    place: Path, documents: Documents, verdict: BundledVerdict, *, vouched: bool
) -> Iterator[Finding]:
    """Check what was attested when the verdict was made.

    Where a key is trusted it must have signed that, unless a trusted key signs all: `vouched`.
    """
    where, trusted = f"the attestation in {verdict.folder}", TrustedKeys.here()
    try:
        envelope = Envelope.of_dict(read_json(place / ATTESTATION, where), where)
    except FileNotFoundError as error:
        msg = (
            f"{ATTESTATION} in {verdict.folder} must be there, since it says of which files the "
            "verdict is and who signed it; it is not."
        )
        raise InputError(msg) from error
    statement = read_statement(envelope, where)
    said = annotations_of(statement)
    signed_at = said.signed_at if said is not None else ""
    digests: Mapping[str, str] = {**documents.digests, EVIDENCE: verdict.evidence}
    same = statement == statement_of(documents.verdict, digests, signed_at)
    text = f"{where} says what the verdict says, of these files."
    yield Finding("attestation", holds=same, sentence=text)
    signed = envelope.signed(trusted)
    holds = signed.standing == "trusted" or not trusted
    holds = holds or (vouched and signed.standing == "unsigned")
    yield signature_of(where, signed, holds=holds)


def recomputed(
    place: Path, documents: Documents, name: str, *, signing: bool = False
) -> Iterator[Finding]:
    """Decide again from the rows, as of the day of the verdict, and compare."""
    evidence = EvidenceFile(place / EVIDENCE)
    evidence.require_size(n_rows_of(documents))
    verdict = documents.verdict
    again = decide_again(documents, evidence, verdict.decided_on)
    again = replace(again, evidence_digest=verdict.evidence_digest)
    yield from same_again(verdict, again, name, signing=signing)
