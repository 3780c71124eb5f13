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
from biasgate.tasks.signing.statement import Statement, annotations_of
from biasgate.tasks.verifying.attestation import NO_PINS, Pins, verify_passes
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import Finding, described, signature_of
from biasgate.tasks.verifying.verdict import (
    compare_statement,
    decide_again,
    n_rows_of,
    same_again,
    same_digests,
    same_numbers,
)
from biasgate.tasks.wording import exceptions_in_words, word_of_verdict


def verify_results(results: Results, pins: Pins = NO_PINS) -> list[Finding]:
    """Check whether the verdicts in the folder of an evaluation follow from their rows.

    Only attestations are signed there.
    """
    findings: list[Finding] = []
    statements: dict[str, list[Statement]] = {}
    for published in results.each:
        found, statement = _verified(published)
        findings += found
        if statement is not None:
            statements.setdefault(published.names[1], []).append(statement)
    if not results.each:
        text = f"{results.folder} must contain a verdict to verify; it does not."
        findings.append(Finding("verdict", holds=False, sentence=text))
    findings += _summary(results)
    decided = [] if results.summary is None else results.summary.decisions
    not_passed = {one.candidate for one in decided if one.outcome != "pass"}
    for candidate, of_candidate in statements.items():
        if candidate not in not_passed:
            findings += verify_passes(of_candidate, any_outcome=True)
    said = filter(None, map(annotations_of, chain.from_iterable(statements.values())))
    return findings + [pinned for pinned in pins.check(list(said)) if pinned.what != "model"]


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
    if summary.outcome != find_worst_outcome(counted):
        differ.append("its outcome")
    text = f"{SUMMARY} matches the verdicts in the folders, and its outcomes follow from them."
    text += (
        f" Different: {', '.join(differ)}."
        if differ
        else " Not compared: which candidates its outcome counts, and what was promoted."
    )
    yield Finding("verdict", holds=not differ, sentence=text)
    verdicts = [one for of_candidate in each.values() for one in of_candidate]
    policies = {(one.policy.digest, *sorted(one.required_sets)) for one in verdicts}
    text = "the verdicts use the same policy, and require the same sets."
    yield Finding("verdict", holds=len(policies) < 2, sentence=text)


def _follows(decision: CandidateDecision, verdicts: Sequence[Verdict]) -> bool:
    """Return whether the entry of a candidate in a summary is not better than its verdicts.

    By a policy that only reports the outcome is a pass, whatever the verdicts are.
    """
    required = [verdict.outcome for verdict in verdicts if verdict.evaluation_set.required]
    if not verdicts:
        return decision.outcome != "pass"
    only_reports = decision.report_only and all(one.policy.report_only for one in verdicts)
    if not only_reports and find_worst_outcome([decision.outcome, *required]) != decision.outcome:
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


def _verified(published: Published) -> tuple[list[Finding], Statement | None]:
    """Check a verdict by its documents, and compute it again; return the statement about it."""
    name, place, evidence = "/".join(published.names), published.folder, published.evidence
    if evidence is None:
        text = f"the verdict on {name} is not recomputed: its {EVIDENCE} is missing."
        return [Finding("evidence", holds=False, sentence=text)], None
    try:
        documents = Documents.of(place, name)
        verdict, digests = documents.verdict, {**documents.digests, EVIDENCE: evidence.digest}
        folder = f"{verdict.evaluation_set.name}/{verdict.candidate.name}"
        text = f"the verdict in {name} is about this set and candidate."
        findings = [
            Finding("verdict", holds=name == folder, sentence=text),
            *same_digests(documents, name, evidence.digest),
        ]
        attested, statement = attested_in(place, verdict, digests, name)
        findings += attested
        if all(finding.holds for finding in findings):
            evidence.require_size(n_rows_of(documents))
            findings += same_again(verdict, decide_again(documents, evidence), name)
            findings.append(same_numbers(documents, evidence, name))
        else:
            text = f"the verdict on {name} ({verdict.outcome}) is not recomputed: a check failed."
            findings.append(Finding("verdict", holds=False, sentence=text))
    except Exception as error:  # noqa: BLE001 - documents of others may make any library fail
        text = f"the verdict on {name} cannot be verified: {described(error)}"
        return [Finding("verdict", holds=False, sentence=text)], None
    return findings, statement


def attested_in(
    place: Path, verdict: Verdict, digests: Mapping[str, str], name: str
) -> tuple[list[Finding], Statement]:
    """Check the attestation of a verdict; return the statement about it.

    If any key is trusted, a trusted key must have signed.
    """
    where, trusted = f"the attestation in {name}", TrustedKeys.here()
    try:
        content = read_json(place / ATTESTATION, where)
    except FileNotFoundError as error:
        msg = (
            f"{ATTESTATION} in {name} must exist, since it names the files and the signer of the "
            "verdict; it does not."
        )
        raise InputError(msg) from error
    attested = compare_statement(content, where, verdict, digests)
    text = f"{where} matches the verdict and these files."
    same = Finding("attestation", holds=attested.is_same, sentence=text)
    signed = attested.envelope.signed(trusted)
    holds = signed.standing == "trusted" or not trusted
    return [same, signature_of(where, signed, holds=holds)], attested.own
