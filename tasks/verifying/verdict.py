"""Verification of one verdict: it is recomputed from its evidence, which may be counts."""

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
from biasgate.tasks.common.plain import differences, plain
from biasgate.tasks.common.untrusted import read_json
from biasgate.tasks.evidence.answers import AnyEvidence
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.ledger.chain import Chain, VouchedVerdicts
from biasgate.tasks.measuring.explaining import explain_with_calibration
from biasgate.tasks.measuring.identities import summarise
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion, model_of
from biasgate.tasks.records import (
    Choices,
    Context,
    LoggedVerdict,
    Report,
    Rival,
    Verdict,
)
from biasgate.tasks.reporting.version_tags import tags_of
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.manifest import first_few
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import (
    RESTS_ON,
    Statement,
    annotations_of,
    read_statement,
    statement_of,
    verdict_digest,
)
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import (
    Finding,
    VersionFiles,
    described,
    frozen_rows,
    signature_of,
)

ROUNDING = 1e-9
"""By how much numbers of a verdict that is computed again may differ."""
NOT_COMPARED = (
    "Not compared: warnings, analyses, terms, missing scores and truncated comments of its report, "
    "and pages, tables, model cards, details.json and junit.xml."
)
RECOMPUTED = ("bias", "harms", "thresholds", "look_first", "calibration", "spread")
"""Parts of a report that follow from its evidence."""
_SENTENCE = re.compile(r"reservations\.\d+|counts\.not_told\.\d+")
_STOP = frozenset({"evidence", "attestation", "signature"})


def verify_on_set(
    version: ModelVersion,
    name: str,
    gateway: Gateway,
    files: VersionFiles,
    vouched: VouchedVerdicts,
    chain: Chain,
    store: Path | None = None,
) -> tuple[list[Finding], tuple[Verdict, Statement] | None]:
    """Recompute a version's verdict on one set.

    `vouched`: digests of the verdicts that the ledger vouches for: those count even if their own
    key was revoked later or, if a person accepted them by a reset, are not signed. `chain`: the
    ledger, which may have promoted the version as a copy of the one that the verdict is about.
    `store`: a store whose frozen rows are compared with those of the verdict.

    Returns what each check found, and the verdict with the statement about it, or None if it cannot
    be read.
    """
    run_id = version.tags.get(f"biasgate.{name}.run_id", "")
    try:
        with gateway.run_files(run_id, RESTS_ON) as folder:
            documents = Documents.of(folder, name)
            copied = chain.source_of(version.version, verdict_digest(documents.verdict))
            judged = version.uri if copied is None else copied[0].judged
            other = documents.verdict.candidate.model
            if other != judged and model_of(other) not in {None, version.name}:
                sentence = _not_promoted(version, name, str(other), gateway)
                return [Finding("verdict", holds=False, sentence=sentence)], None
            evidence = EvidenceFile(folder / FILE)
            digests = {**documents.digests, FILE: evidence.digest}
            attestation = attested_by(documents.verdict, digests, gateway, run_id, name, vouched)
            attested, statement = attestation
            findings = list(as_recorded(version, name, documents, digests[FILE], run_id))
            findings += _recomputed(judged, name, documents, evidence, (*findings, *attested))
            findings.append(files.compare(documents.verdict, name))
            if store is not None:
                findings += frozen_rows(store, documents, name)
        findings += attested
    except (InputError, OSError) as error:
        text = f"the files of the verdict on {name} must be in run {run_id or '?'}: {error}"
        return [Finding("verdict", holds=False, sentence=text)], None
    return findings, (documents.verdict, statement)


def as_recorded(
    version: ModelVersion, name: str, documents: Documents, evidence_digest: str, run_id: str
) -> Iterator[Finding]:
    """Check that files and tags are the ones that the verdict names."""
    verdict = documents.verdict
    judged_on = verdict.evaluation_set.name
    text = f"the verdict in the tags for {name} is about that set."
    text = text if judged_on == name else f"{text} It is about {judged_on}."
    yield Finding("tags", holds=judged_on == name, sentence=text)
    yield from same_digests(documents, name, evidence_digest)
    logged = LoggedVerdict.logged(verdict, run_id)
    expected = tags_of([logged])
    tagged = {key: version.tags.get(key) for key in expected}
    expected.pop("biasgate.required_sets")
    differ = [key for key, value in expected.items() if tagged[key] != value]
    text = f"the tags of {version.uri} agree with the verdict on {name}."
    yield Finding("tags", holds=not differ, sentence=_but(text, differ))


def same_digests(documents: Documents, name: str, evidence_digest: str) -> Iterator[Finding]:
    """Check that policy, report and evidence are the ones that the verdict names."""
    verdict = documents.verdict
    for what, found, recorded in (
        ("policy", documents.policy.digest, verdict.policy.digest),
        ("report", json_digest(documents.report), verdict.report_digest),
        ("evidence", evidence_digest, verdict.evidence_digest),
    ):
        text = f"the {what} on {name} has the digest that the verdict names."
        yield Finding(what, holds=found == recorded, sentence=text)


def _not_promoted(version: ModelVersion, name: str, other: str, gateway: Gateway) -> str:
    """Return what to do about a version with the tags of another model's version."""
    words = "promote", version.name, version.version, "--from", other.removeprefix("models:/")
    return (
        f"the verdict on {name} that the tags of {version.uri} name is about {other}. If this is "
        f"its copy, promote it as such: {gateway.command(*words)}"
    )


def _recomputed(
    judged: str,
    name: str,
    documents: Documents,
    evidence: EvidenceFile,
    found: Sequence[Finding],
) -> Iterator[Finding]:
    """Decide again from the rows, unless what was found says that they are not the judged ones.

    Reading rows takes time and memory, which only the author of the verdict may request.
    """
    wrong = sorted(
        {finding.what for finding in found if finding.what in _STOP and not finding.holds}
    )
    if wrong:
        text = f"the verdict on {name} is not recomputed: its {' and '.join(wrong)} did not hold."
        yield Finding("verdict" if "evidence" in wrong else wrong[0], holds=False, sentence=text)
        return
    try:
        evidence.require_size(n_rows_of(documents))
        verdict = documents.verdict
        yield from same_origin(verdict, documents.report, evidence, judged, name)
        yield from same_again(verdict, decide_again(documents, evidence), name)
        yield same_numbers(documents, evidence, name)
    except Exception as error:  # noqa: BLE001 - rows of others may make any library fail anyhow
        text = f"the verdict on {name} cannot be recomputed: {described(error)}"
        yield Finding("verdict", holds=False, sentence=text)


def n_rows_of(documents: Documents) -> int:
    """Return how many rows the evidence of a verdict must have."""
    labelled = documents.report.evaluation_set.choices.n_rows_labelled
    if labelled is not None:
        return labelled
    if documents.report.missing is not None:
        return documents.report.missing.overall.n
    return documents.report.bias.counts[None].n


def same_origin(
    verdict: Verdict,
    report: Report,
    evidence: AnyEvidence,
    judged: str | None,
    name: str,
) -> Iterator[Finding]:
    """Check that verdict, report and evidence are of the same rows, scores and version."""
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
    differ = [what for what, (found, recorded) in pairs.items() if found != recorded]
    text = f"verdict, report and evidence on {name} have the same rows, scores and version."
    yield Finding("evidence", holds=not differ, sentence=_but(text, differ))


def same_numbers(documents: Documents, evidence: EvidenceFile, name: str) -> Finding:
    """Compare the numbers of a report, and their meaning, with those that its rows give.

    Sentences are compared only if they are of this code.
    """
    report, verdict = documents.report, documents.verdict
    at = report.thresholds.get(GIVEN)
    table = summarise(evidence, {})
    again = explain_with_calibration(evidence, table, None if at is None else at.threshold)
    own, measured = (
        {part: plain(getattr(one, part)) for part in RECOMPUTED} for one in (report, again)
    )
    differ = sorted(differences(own, measured, rounding=ROUNDING))
    if verdict.code.bias_metrics != code_digest():
        differ = [place for place in differ if not place.endswith("sentence")]
    text = f"measuring the rows of the verdict on {name} again gives the numbers of its report."
    return Finding("report", holds=not differ, sentence=_but(text, differ))


def same_again(verdict: Verdict, again: Verdict, name: str) -> Iterator[Finding]:
    """Compare a verdict with the one that its rows give.

    Anyone may write that other code made a verdict. Its sentences may differ then: the finding has
    them as this code words them.
    """
    differ = sorted(differences(verdict.to_dict(), again.to_dict(), rounding=ROUNDING))
    other_code = verdict.code != again.code
    reworded = [one for one in differ if other_code and _SENTENCE.fullmatch(one)]
    differ = [one for one in differ if one not in reworded and not one.startswith("code.")]
    text = f"recomputing the verdict on {name} reproduces it ({again.outcome})."
    text = _but(text, differ) if differ else f"{text} {NOT_COMPARED}"
    yield Finding("verdict", holds=not differ, sentence=text)
    if not other_code:
        return
    text = f"the verdict on {name} records other code, {verdict.code.version[:40]!r}. "
    if not reworded:
        yield Finding("code", holds=True, sentence=f"{text}This code gives the same sentences.")
        return
    text += "These sentences are not verified; this code has: "
    text += first_few([f"{one}: {_at(again.to_dict(), one)}" for one in reworded])
    yield Finding("code", holds=True, sentence=text, checked=False)


def _at(content: Any, place: str) -> Any:
    """Return what is at a place that `differences` names."""
    for key in place.split("."):
        content = content[int(key) if isinstance(content, list) else key]
    return content


def decide_again(documents: Documents, evidence: AnyEvidence) -> Verdict:
    """Return the verdict that the rows give, as of its day."""
    verdict = documents.verdict
    named: dict[str, Rival | None] = {
        "champion": verdict.champion,
        "reference": verdict.reference,
    }
    roles = {role: one for role, one in named.items() if one}
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


class Attested(NamedTuple):
    """An attestation, compared with the verdict that it is of."""

    envelope: Envelope
    signed_at: str
    """When it says that it was signed; may be empty."""
    own: Statement
    """What it must say then, of this verdict."""
    is_same: bool
    """Whether it says that."""


def compare_statement(
    content: Any, where: str, verdict: Verdict, digests: Mapping[str, str]
) -> Attested:
    """Compare an attestation with what is attested of a verdict."""
    envelope = Envelope.of_dict(content, where)
    statement = read_statement(envelope, where)
    said = annotations_of(statement)
    signed_at = said.signed_at if said is not None else ""
    own = statement_of(verdict, digests, signed_at)
    return Attested(envelope, signed_at, own, statement == own)


def attested_by(
    verdict: Verdict,
    digests: Mapping[str, str],
    gateway: Gateway,
    run_id: str,
    name: str,
    vouched: VouchedVerdicts,
) -> tuple[list[Finding], Statement]:
    """Check the attestation of a verdict and its signatures; also return the statement about it."""
    trusted, what = TrustedKeys.here(), f"the verdict on {name}"
    own = statement_of(verdict, digests, "")
    try:
        content = _attestation(gateway, run_id)
        attested = compare_statement(content, f"the attestation on {name}", verdict, digests)
    except FileNotFoundError:
        accepted = verdict_digest(verdict) in vouched.by_reset
        text = f"{what} is not signed: its attestation is missing. "
        text += "A reset accepted it." if accepted else "Evaluate again."
        return [Finding("signature", holds=accepted, sentence=text)], own
    except (OSError, ValueError) as error:
        text = f"the attestation on {name} cannot be read: {described(error)}"
        return [Finding("signature", holds=False, sentence=text)], own
    text = f"the attestation on {name} matches these files of the run."
    same = Finding("attestation", holds=attested.is_same, sentence=text)
    signed, signed_at = attested.envelope.signed(trusted), attested.signed_at
    holds, more = signed.standing == "trusted" or not trusted, ""
    if signed.standing == "revoked" and verdict_digest(verdict) in vouched.by_entry:
        holds = signed_at < signed.revoked_since
        more = f" It is dated {signed_at}, and an accepted entry of the ledger names it."
    elif not holds and signed.standing != "revoked":
        holds = verdict_digest(verdict) in vouched.by_reset
        more = " A reset accepted it." if holds else ""
    return [same, signature_of(what, signed, holds=holds, more=more)], attested.own


def _attestation(gateway: Gateway, run_id: str) -> Any:
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(gateway.run_files(run_id, [ATTESTATION]))
        except InputError as error:  # of a server that has no such file
            raise FileNotFoundError(ATTESTATION) from error
        return read_json(folder / ATTESTATION, ATTESTATION)


def _but(sentence: str, differ: list[str]) -> str:
    return sentence if not differ else f"{sentence} Different: {first_few(differ)}."
