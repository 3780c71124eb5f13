"""Verification of the verdicts in a folder of results from their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from bias_metrics.gate import find_worst_outcome
from biasgate.tasks.common.code import code_digest
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.untrusted import read_json, read_record
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.records import CandidateDecision, LoggedVerdict, Verdict
from biasgate.tasks.reporting.results import SUMMARY, VERDICT, Published, Results
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import Statement, read_annotations
from biasgate.tasks.verifying.attestation import NO_PINS, Pins, verify_passes
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import Finding, describe_error, report_signature
from biasgate.tasks.verifying.verdict import (
    compare_attestation,
    compare_digests,
    compare_numbers,
    compare_verdicts,
    count_evidence_rows,
    recompute_verdict,
)
from biasgate.tasks.wording import get_verdict_words, list_exception_lines


def verify_results(results: Results, pins: Pins = NO_PINS) -> list[Finding]:
    """Check whether the verdicts in an evaluation's folder follow from their rows.

    Signatures cover only the attestations, not the summary.
    """
    findings: list[Finding] = []
    statements: dict[str, list[Statement]] = {}
    for published in results.published:
        new_findings, statement = _check_published(published)
        findings += new_findings
        if statement is not None:
            statements.setdefault(published.names[1], []).append(statement)
    if not results.published:
        text = f"{results.folder} must contain a verdict to verify; it does not."
        findings.append(Finding("verdict", holds=False, sentence=text))
    findings += _check_summary(results)
    decided = [] if results.summary is None else results.summary.decisions
    not_passed = {decision.candidate for decision in decided if decision.outcome != "pass"}
    for candidate, group in statements.items():
        if candidate not in not_passed:
            findings += verify_passes(group, any_outcome=True)
    annotations = filter(None, map(read_annotations, chain.from_iterable(statements.values())))
    return findings + [
        pinned for pinned in pins.check_annotations(list(annotations)) if pinned.what != "model"
    ]


def _check_summary(results: Results) -> Iterator[Finding]:
    """Check that the summary has all verdicts of the folders, and no better outcomes.

    A candidate that passed must have a verdict.
    """
    summary = results.summary
    if summary is None:
        return
    each: dict[str, list[Verdict]] = {}
    differing = []
    for published, logged in zip(results.published, summary.verdicts, strict=True):
        path = published.folder / VERDICT
        if not path.exists():  # another finding reports it
            differing.append("/".join(published.names))
            continue
        own = LoggedVerdict.from_verdict(read_record(path, Verdict), logged.run_id)
        if own != logged:
            differing.append("/".join(published.names))
        each.setdefault(own.candidate.name, []).append(own)
    decided = {decision.candidate: decision for decision in summary.decisions}
    differing += [
        name
        for name, decision in decided.items()
        if not _is_consistent(decision, each.get(name, []))
    ]
    differing += sorted({*each, *summary.outcome_of} - decided.keys())
    outcomes = [
        decision.outcome for name, decision in decided.items() if name in summary.outcome_of
    ]
    if summary.outcome != find_worst_outcome(outcomes):
        differing.append("its outcome")
    text = f"{SUMMARY} matches the verdicts in the folders, and its outcomes follow from them."
    text += (
        f" Different: {', '.join(differing)}."
        if differing
        else " Not compared: which candidates its outcome counts, and what was promoted."
    )
    yield Finding("verdict", holds=not differing, sentence=text)
    verdicts = [verdict for group in each.values() for verdict in group]
    policies = {(verdict.policy.digest, *sorted(verdict.required_sets)) for verdict in verdicts}
    text = "the verdicts use the same policy, and require the same sets."
    yield Finding("verdict", holds=len(policies) < 2, sentence=text)


def _is_consistent(decision: CandidateDecision, verdicts: Sequence[Verdict]) -> bool:
    """Return whether a candidate's entry in a summary agrees with its verdicts.

    Its outcome must not be better than the verdicts. Under a report-only policy the outcome is a
    pass for all verdicts.
    """
    required = [verdict.outcome for verdict in verdicts if verdict.evaluation_set.required]
    if not verdicts:
        return decision.outcome != "pass"
    only_reports = decision.report_only and all(verdict.policy.report_only for verdict in verdicts)
    if not only_reports and find_worst_outcome([decision.outcome, *required]) != decision.outcome:
        return False
    same_code = all(verdict.code.bias_metrics == code_digest() for verdict in verdicts)
    return (
        decision.word is None
        or not same_code
        or (
            decision.word == get_verdict_words(*verdicts).text
            and sorted(decision.exceptions or ()) == sorted(list_exception_lines(verdicts))
        )
    )


def _check_published(published: Published) -> tuple[list[Finding], Statement | None]:
    """Check the documents of a verdict and recompute it; also return the statement about it."""
    name, place, evidence = "/".join(published.names), published.folder, published.evidence
    if evidence is None:
        text = f"the verdict on {name} is not recomputed: its {EVIDENCE} is missing."
        return [Finding("evidence", holds=False, sentence=text)], None
    try:
        documents = Documents.from_folder(place, name)
        verdict, digests = documents.verdict, {**documents.digests, EVIDENCE: evidence.digest}
        folder = f"{verdict.evaluation_set.name}/{verdict.candidate.name}"
        text = f"the verdict in {name} is about this set and candidate."
        findings = [
            Finding("verdict", holds=name == folder, sentence=text),
            *compare_digests(documents, name, evidence.digest),
        ]
        attested, statement = check_folder_attestation(place, verdict, digests, name)
        findings += attested
        if all(finding.holds for finding in findings):
            evidence.require_size(count_evidence_rows(documents))
            findings += compare_verdicts(verdict, recompute_verdict(documents, evidence), name)
            findings.append(compare_numbers(documents, evidence, name))
        else:
            text = f"the verdict on {name} ({verdict.outcome}) is not recomputed: a check failed."
            findings.append(Finding("verdict", holds=False, sentence=text))
    except Exception as error:  # noqa: BLE001 - documents of others may make any library fail
        text = f"the verdict on {name} cannot be verified: {describe_error(error)}"
        return [Finding("verdict", holds=False, sentence=text)], None
    return findings, statement


def check_folder_attestation(
    place: Path, verdict: Verdict, digests: Mapping[str, str], name: str
) -> tuple[list[Finding], Statement]:
    """Check a verdict's attestation in a folder; also return the statement about the verdict.

    If this machine trusts keys, a trusted key must have signed the attestation.
    """
    where, trusted = f"the attestation in {name}", TrustedKeys.load()
    try:
        content = read_json(place / ATTESTATION, where)
    except FileNotFoundError as error:
        msg = (
            f"{ATTESTATION} in {name} must exist, since it names the files and the signer of the "
            "verdict; it does not."
        )
        raise InputError(msg) from error
    attested = compare_attestation(content, where, verdict, digests)
    text = f"{where} matches the verdict and these files."
    comparison = Finding("attestation", holds=attested.is_as_expected, sentence=text)
    signed = attested.envelope.check_signatures(trusted)
    holds = signed.status == "trusted" or not trusted
    return [comparison, report_signature(where, signed, holds=holds)], attested.expected
