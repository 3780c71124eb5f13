"""Whether published verdicts follow from their rows: in a folder of results, or in a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bias_metrics.gate import Outcome, worst
from biasgate.tasks.common.untrusted import parse_json, read_record
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import LoggedVerdict, Verdict
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
from biasgate.tasks.verifying.files import Finding, described
from biasgate.tasks.verifying.verdict import decide_again, n_rows_of, same_again, same_digests


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
    for one in results.each:
        name, evidence = "/".join(one.names), one.evidence
        if evidence is None:
            text = f"the verdict on {name} is not recomputed: its {EVIDENCE} is not there."
            findings.append(Finding("evidence", holds=False, sentence=text))
            continue
        rows = evidence.digest
        bundled = BundledVerdict(folder=name, evidence=rows, rows=rows)
        found, annotations = verified(one.folder, bundled, "somebody wrote them")
        findings += found
        said += annotations
    findings += _summary(results)
    text = (
        f"pages, junit.xml, cards and tables in {results.folder.name} are as somebody wrote them: "
        "they are not compared."
    )
    findings.append(Finding("files", holds=True, sentence=text))
    return findings + [pinned for pinned in pins.check(said) if pinned.what != "model"]


def _summary(results: Results) -> Iterator[Finding]:
    """Check that the summary has the verdicts of the folders, and no better outcome."""
    summary = results.summary
    if summary is None:
        return
    required: dict[str, list[Outcome]] = {}
    differ = []
    for one, logged in zip(results.each, summary.verdicts, strict=True):
        own = LoggedVerdict.logged(read_record(one.folder / VERDICT, Verdict), logged.run_id)
        if own != logged:
            differ.append("/".join(one.names))
        if own.evaluation_set.required:
            required.setdefault(own.candidate.name, []).append(own.outcome)
    decided = {one.candidate: one.outcome for one in summary.decisions}
    for name, outcomes in required.items():
        if name in decided and worst([decided[name], *outcomes]) != decided[name]:
            differ.append(name)
    counted = [one for name, one in decided.items() if name in summary.outcome_of]
    if summary.outcome != worst(counted):
        differ.append("its outcome")
    text = f"{SUMMARY} has the verdicts of the folders, and outcomes that follow from them."
    text += f" But not: {', '.join(differ)}." if differ else ""
    yield Finding("verdict", holds=not differ, sentence=text)


def verified(
    place: Path, one: BundledVerdict, known: str
) -> tuple[list[Finding], list[Annotations]]:
    """Check a verdict by its documents, and compute it again from its rows.

    `known`: how what is not computed again is, such as "they were signed".
    """
    name = one.folder
    try:
        if one.rows is None:
            (place / EVIDENCE).touch()
        documents = Documents.of(place, name)
        verdict = documents.verdict
        findings = list(as_named(documents, one))
        findings += attested(place, documents, one)
        if one.rows is not None and all(finding.holds for finding in findings):
            findings += recomputed(place, documents, name)
            text = (
                f"the page in {name}, and intervals, sentences and warnings of its report, are "
                f"as {known}: they are not computed again."
            )
            findings.append(Finding("files", holds=True, sentence=text))
        elif one.rows is None:
            text = f"the verdict on {name} ({verdict.outcome}) is not recomputed: no rows are here."
            findings.append(Finding("verdict", holds=True, sentence=text))
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


def attested(place: Path, documents: Documents, one: BundledVerdict) -> Iterator[Finding]:
    """Check what was attested when the verdict was made."""
    path = place / ATTESTATION
    where = f"the attestation in {one.folder}"
    envelope = Envelope.of_dict(parse_json(path.read_bytes(), where), where)
    statement = read_statement(envelope, where)
    said = annotations_of(statement)
    signed_at = said.signed_at if said is not None else ""
    digests: Mapping[str, str] = {**documents.digests, EVIDENCE: one.evidence}
    same = statement == statement_of(documents.verdict, digests, signed_at)
    text = f"{where} says what the verdict says, of these files."
    yield Finding("attestation", holds=same, sentence=text)
    signed = envelope.signed(TrustedKeys.here())
    text = f"{where} is {signed.words}."
    holds = signed.standing in {"trusted", "unsigned"}
    yield Finding("signature", holds=holds, sentence=text)


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
