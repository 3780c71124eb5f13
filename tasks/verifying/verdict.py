"""Verification of a verdict: recompute it from its evidence, and check its attestation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from bias_metrics.metrics import GIVEN
from biasgate.tasks.common.code import code_digest
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.plain import convert_to_plain, find_differences
from biasgate.tasks.common.untrusted import read_json
from biasgate.tasks.evidence.answers import AnyEvidence
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.ledger.chain import Chain, VouchedVerdicts
from biasgate.tasks.measuring.explaining import explain_with_calibration
from biasgate.tasks.measuring.identities import summarise_rows
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion, parse_model_name
from biasgate.tasks.records import (
    Choices,
    Context,
    LoggedVerdict,
    Report,
    Rival,
    Verdict,
)
from biasgate.tasks.reporting.version_tags import build_tags
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.manifest import join_differences
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import (
    VERDICT_FILES,
    Statement,
    build_statement,
    compute_verdict_digest,
    read_annotations,
    read_statement,
)
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import (
    Finding,
    VersionFiles,
    check_frozen_rows,
    describe_error,
    report_signature,
)

ROUNDING = 1e-9
"""Largest difference between recorded and recomputed numbers that counts as equal."""
NOT_COMPARED = (
    "Not compared: warnings, analyses, terms, missing scores and truncated comments of its report, "
    "and pages, tables, model cards, details.json and junit.xml."
)
RECOMPUTED_PARTS = ("bias", "harms", "thresholds", "look_first", "calibration", "spread")
"""Parts of a report that follow from its evidence."""
_SENTENCE = re.compile(r"reservations\.\d+|counts\.not_told\.\d+")
_BLOCKING = frozenset({"evidence", "attestation", "signature"})


def verify_on_set(
    version: ModelVersion,
    name: str,
    gateway: Gateway,
    files: VersionFiles,
    vouched: VouchedVerdicts,
    chain: Chain,
    store: Path | None = None,
) -> tuple[list[Finding], tuple[Verdict, Statement] | None]:
    """Recompute a version's verdict on a set.

    `vouched`: digests of the verdicts that the ledger vouches for. They count even if their key was
    revoked later. If a person accepted them by a reset, they count even without a signature.
    `chain`: the ledger, which names the source of a version that was promoted as a copy. `store`: a
    store with frozen rows to compare with those of the verdict.

    Returns the findings, and the verdict with the statement about it, or None if the verdict cannot
    be read.
    """
    run_id = version.tags.get(f"biasgate.{name}.run_id", "")
    try:
        with gateway.open_run_files(run_id, VERDICT_FILES) as folder:
            documents = Documents.from_folder(folder, name)
            copied = chain.find_source(version.version, compute_verdict_digest(documents.verdict))
            judged = version.uri if copied is None else copied[0].judged
            other = documents.verdict.candidate.model
            if other != judged and parse_model_name(other) not in {None, version.name}:
                sentence = _describe_copy(version, name, str(other), gateway)
                return [Finding("verdict", holds=False, sentence=sentence)], None
            evidence = EvidenceFile(folder / FILE)
            digests = {**documents.digests, FILE: evidence.digest}
            attestation = check_run_attestation(
                documents.verdict, digests, gateway, run_id, name, vouched
            )
            attested, statement = attestation
            findings = list(compare_tags(version, name, documents, digests[FILE], run_id))
            findings += _check_recomputed(judged, name, documents, evidence, (*findings, *attested))
            findings.append(files.compare(documents.verdict, name))
            if store is not None:
                findings += check_frozen_rows(store, documents, name)
        findings += attested
    except (InputError, OSError) as error:
        text = f"the files of the verdict on {name} must be in run {run_id or '?'}: {error}"
        return [Finding("verdict", holds=False, sentence=text)], None
    return findings, (documents.verdict, statement)


def compare_tags(
    version: ModelVersion, name: str, documents: Documents, evidence_digest: str, run_id: str
) -> Iterator[Finding]:
    """Check that tags, policy, report and evidence agree with the verdict."""
    verdict = documents.verdict
    judged_on = verdict.evaluation_set.name
    text = f"the verdict in the tags for {name} is about that set."
    text = text if judged_on == name else f"{text} It is about {judged_on}."
    yield Finding("tags", holds=judged_on == name, sentence=text)
    yield from compare_digests(documents, name, evidence_digest)
    logged = LoggedVerdict.from_verdict(verdict, run_id)
    expected = build_tags([logged])
    tagged = {key: version.tags.get(key) for key in expected}
    expected.pop("biasgate.required_sets")
    differences = [key for key, value in expected.items() if tagged[key] != value]
    text = f"the tags of {version.uri} agree with the verdict on {name}."
    yield Finding("tags", holds=not differences, sentence=_append_differences(text, differences))


def compare_digests(documents: Documents, name: str, evidence_digest: str) -> Iterator[Finding]:
    """Check that policy, report and evidence have the digests that the verdict names."""
    verdict = documents.verdict
    for document, current, recorded in (
        ("policy", documents.policy.digest, verdict.policy.digest),
        ("report", json_digest(documents.report), verdict.report_digest),
        ("evidence", evidence_digest, verdict.evidence_digest),
    ):
        text = f"the {document} on {name} has the digest that the verdict names."
        yield Finding(document, holds=current == recorded, sentence=text)


def _describe_copy(version: ModelVersion, name: str, other: str, gateway: Gateway) -> str:
    """Return an error message for a version with the tags of another model's version."""
    words = "promote", version.name, version.version, "--from", other.removeprefix("models:/")
    return (
        f"the verdict on {name} that the tags of {version.uri} name is about {other}. If this is "
        f"its copy, promote it as such: {gateway.format_command(*words)}"
    )


def _check_recomputed(
    judged: str,
    name: str,
    documents: Documents,
    evidence: EvidenceFile,
    findings: Sequence[Finding],
) -> Iterator[Finding]:
    """Recompute the verdict from its rows, unless a check of its digests or signature failed.

    Reading rows takes time and memory. A verdict with a failed signature or digest must not be able
    to request these resources.
    """
    failed = sorted(
        {finding.what for finding in findings if finding.what in _BLOCKING and not finding.holds}
    )
    if failed:
        text = f"the verdict on {name} is not recomputed: its {' and '.join(failed)} did not hold."
        yield Finding("verdict" if "evidence" in failed else failed[0], holds=False, sentence=text)
        return
    try:
        evidence.require_size(count_evidence_rows(documents))
        verdict = documents.verdict
        yield from compare_origins(verdict, documents.report, evidence, judged, name)
        yield from compare_verdicts(verdict, recompute_verdict(documents, evidence), name)
        yield compare_numbers(documents, evidence, name)
    except Exception as error:  # noqa: BLE001 - rows of others may make any library fail anyhow
        text = f"the verdict on {name} cannot be recomputed: {describe_error(error)}"
        yield Finding("verdict", holds=False, sentence=text)


def count_evidence_rows(documents: Documents) -> int:
    """Return the number of rows that the evidence of a verdict must have."""
    labelled = documents.report.evaluation_set.choices.n_rows_labelled
    if labelled is not None:
        return labelled
    if documents.report.missing is not None:
        return documents.report.missing.overall.n
    return documents.report.bias.counts[None].n


def compare_origins(
    verdict: Verdict,
    report: Report,
    evidence: AnyEvidence,
    judged: str | None,
    name: str,
) -> Iterator[Finding]:
    """Check that verdict, report and evidence have the same rows, scores and version."""
    record = evidence.record
    chosen = vars(report.evaluation_set.choices)  # with the origin of the rows
    choices = Choices(**{field.name: chosen[field.name] for field in fields(Choices)})
    pairs = {
        "rows": (record.set_digest, verdict.evaluation_set.digest),
        "rows of the report": (record.set_digest, report.evaluation_set.digest),
        "scores": (record.scores["candidate"], verdict.candidate.digest),
        "scores of the report": (record.scores["candidate"], report.candidate.digest),
        "version": (verdict.candidate.model, judged),
        "choices": (record.choices, choices),
    }
    differing = [part for part, (current, recorded) in pairs.items() if current != recorded]
    text = f"verdict, report and evidence on {name} have the same rows, scores and version."
    yield Finding("evidence", holds=not differing, sentence=_append_differences(text, differing))


def compare_numbers(documents: Documents, evidence: EvidenceFile, name: str) -> Finding:
    """Measure the rows of a verdict again, and compare the numbers with those of its report.

    Sentences are compared only if the verdict records the current code.
    """
    report, verdict = documents.report, documents.verdict
    given = report.thresholds.get(GIVEN)
    table = summarise_rows(evidence, {})
    measured_report = explain_with_calibration(
        evidence, table, None if given is None else given.threshold
    )
    recorded, measured = (
        {part: convert_to_plain(getattr(source, part)) for part in RECOMPUTED_PARTS}
        for source in (report, measured_report)
    )
    differing = sorted(find_differences(recorded, measured, rounding=ROUNDING))
    if verdict.code.bias_metrics != code_digest():
        differing = [place for place in differing if not place.endswith("sentence")]
    text = f"measuring the rows of the verdict on {name} again gives the numbers of its report."
    return Finding("report", holds=not differing, sentence=_append_differences(text, differing))


def compare_verdicts(verdict: Verdict, recomputed: Verdict, name: str) -> Iterator[Finding]:
    """Compare a verdict with the recomputed verdict.

    If the verdict records other code, its sentences may differ. Since anyone may write such a
    record, the finding then quotes the sentences of the current code.
    """
    differing = sorted(find_differences(verdict.to_dict(), recomputed.to_dict(), rounding=ROUNDING))
    other_code = verdict.code != recomputed.code
    reworded = [place for place in differing if other_code and _SENTENCE.fullmatch(place)]
    differing = [
        place for place in differing if place not in reworded and not place.startswith("code.")
    ]
    text = f"recomputing the verdict on {name} reproduces it ({recomputed.outcome})."
    text = _append_differences(text, differing) if differing else f"{text} {NOT_COMPARED}"
    yield Finding("verdict", holds=not differing, sentence=text)
    if not other_code:
        return
    text = f"the verdict on {name} records other code, {verdict.code.version[:40]!r}. "
    if not reworded:
        yield Finding("code", holds=True, sentence=f"{text}This code gives the same sentences.")
        return
    text += "These sentences are not verified; this code has: "
    text += join_differences(
        [f"{place}: {_get_value(recomputed.to_dict(), place)}" for place in reworded]
    )
    yield Finding("code", holds=True, sentence=text, checked=False)


def _get_value(value: Any, place: str) -> Any:
    """Return the value at a place, in the notation of `differences`."""
    for key in place.split("."):
        value = value[int(key) if isinstance(value, list) else key]
    return value


def recompute_verdict(documents: Documents, evidence: AnyEvidence) -> Verdict:
    """Return the verdict that follows from the evidence on the day of the decision."""
    verdict = documents.verdict
    rivals: dict[str, Rival | None] = {
        "champion": verdict.champion,
        "reference": verdict.reference,
    }
    roles = {role: rival for role, rival in rivals.items() if rival}
    return build_verdict(
        documents.report,
        documents.policy,
        evidence,
        roles,
        n_candidates=verdict.n_candidates,
        today=date.fromisoformat(verdict.decided_on),
        required=verdict.evaluation_set.required,
        context=Context(
            required_sets=verdict.required_sets,
            ledger=verdict.ledger,
            registered_policy=verdict.registered_policy,
        ),
    )


class ComparedAttestation(NamedTuple):
    """An attestation and its comparison with the verdict."""

    envelope: Envelope
    signed_at: str
    """The claimed time of the signature; may be empty."""
    expected: Statement
    """The statement that follows from the verdict, with this time."""
    is_as_expected: bool
    """True if the attested statement equals `expected`."""


def compare_attestation(
    content: Any, where: str, verdict: Verdict, digests: Mapping[str, str]
) -> ComparedAttestation:
    """Compare an attestation with the statement that follows from a verdict."""
    envelope = Envelope.from_dict(content, where)
    statement = read_statement(envelope, where)
    annotations = read_annotations(statement)
    signed_at = annotations.signed_at if annotations is not None else ""
    expected = build_statement(verdict, digests, signed_at)
    return ComparedAttestation(envelope, signed_at, expected, statement == expected)


def check_run_attestation(
    verdict: Verdict,
    digests: Mapping[str, str],
    gateway: Gateway,
    run_id: str,
    name: str,
    vouched: VouchedVerdicts,
) -> tuple[list[Finding], Statement]:
    """Check a verdict's attestation in its run; also return the statement about the verdict."""
    trusted, subject = TrustedKeys.load(), f"the verdict on {name}"
    expected = build_statement(verdict, digests, "")
    try:
        content = _read_attestation(gateway, run_id)
        attested = compare_attestation(content, f"the attestation on {name}", verdict, digests)
    except FileNotFoundError:
        accepted = compute_verdict_digest(verdict) in vouched.by_reset
        text = f"{subject} is not signed: its attestation is missing. "
        text += "A reset accepted it." if accepted else "Evaluate again."
        return [Finding("signature", holds=accepted, sentence=text)], expected
    except (OSError, ValueError) as error:
        text = f"the attestation on {name} cannot be read: {describe_error(error)}"
        return [Finding("signature", holds=False, sentence=text)], expected
    text = f"the attestation on {name} matches these files of the run."
    comparison = Finding("attestation", holds=attested.is_as_expected, sentence=text)
    signed, signed_at = attested.envelope.check_signatures(trusted), attested.signed_at
    holds, note = signed.status == "trusted" or not trusted, ""
    if signed.status == "revoked" and compute_verdict_digest(verdict) in vouched.by_entry:
        holds = signed_at < signed.revoked_since
        note = f" It is dated {signed_at}, and an accepted entry of the ledger names it."
    elif not holds and signed.status != "revoked":
        holds = compute_verdict_digest(verdict) in vouched.by_reset
        note = " A reset accepted it." if holds else ""
    return [
        comparison,
        report_signature(subject, signed, holds=holds, note=note),
    ], attested.expected


def _read_attestation(gateway: Gateway, run_id: str) -> Any:
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(gateway.open_run_files(run_id, [ATTESTATION]))
        except InputError as error:  # of a server that has no such file
            raise FileNotFoundError(ATTESTATION) from error
        return read_json(folder / ATTESTATION, ATTESTATION)


def _append_differences(sentence: str, differences: list[str]) -> str:
    return (
        sentence if not differences else f"{sentence} Different: {join_differences(differences)}."
    )
