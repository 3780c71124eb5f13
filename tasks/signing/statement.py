"""The signed statement about a verdict: an in-toto statement with a test result.

Statement: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
Test result: https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md

The subject is the files of the judged model. The configuration lists the files behind the verdict
with their SHA-256. Its annotations are the values that decide on a promotion, and the limits of
the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biasgate.tasks.check_messages import describe_exception
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest, json_digest, write_json
from biasgate.tasks.common.untrusted import check_document, parse_json
from biasgate.tasks.records import HoldsFor, Verdict, get_champion_uri
from biasgate.tasks.records.record import Record
from biasgate.tasks.signing.envelope import CamelRecord, Envelope
from biasgate.tasks.signing.keys import PrivateKey, get_timestamp

FILE = "attestation.json"
STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD = "application/vnd.in-toto+json"
# The files behind a verdict; `verdict.json` is the first.
_DOCUMENTS = ("verdict.json", "policy.json", "report.json")
VERDICT_FILES = (*_DOCUMENTS, "evidence.parquet")
COUNTED_VERDICT_FILES = (*_DOCUMENTS, "evidence.counts")


@dataclass(frozen=True, kw_only=True)
class Subject(Record):
    """A judged file."""

    name: str
    digest: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class PolicyRegistration(CamelRecord):
    """The time when the policy was registered, and whether the scores were made later."""

    at: str
    before_scores: bool | None


@dataclass(frozen=True, kw_only=True)
class LedgerHead(Record):
    """The last entry of a ledger."""

    number: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class Annotations(CamelRecord):
    """The values that decide on a promotion, and the limits of the result."""

    candidate: str
    model: str | None
    scores_digest: str
    champion: str | None
    evaluation_set: str
    evaluation_set_digest: str
    required: bool
    required_sets: list[str]
    policy: str
    policy_digest: str
    report_only: bool
    holds_for: HoldsFor
    exceptions: list[str]
    reservations: list[str]
    policy_registered: PolicyRegistration | None
    ledger: LedgerHead | None
    bound: str | None
    verdict_digest: str
    report_digest: str
    evidence_digest: str
    decided_on: str
    signed_at: str
    biasgate: str
    bias_metrics: str
    holds_until: str | None = None


@dataclass(frozen=True, kw_only=True)
class ResourceDescriptor(Record):
    """A file behind the result; the first file has the annotations, as plain values."""

    name: str
    digest: dict[str, str]
    annotations: Any = None


@dataclass(frozen=True, kw_only=True)
class Predicate(CamelRecord):
    """A test result."""

    result: str
    configuration: list[ResourceDescriptor]
    passed_tests: list[str]
    warned_tests: list[str]
    failed_tests: list[str]


@dataclass(frozen=True, kw_only=True)
class Statement(CamelRecord):
    """An in-toto statement about a verdict."""

    _type: str
    subject: list[Subject]
    predicate_type: str
    predicate: Predicate

    @property
    def type_uris(self) -> tuple[str, str]:
        """The types of the statement and of its predicate."""
        return self._type, self.predicate_type


_TYPE_URIS = [PAYLOAD, STATEMENT, TEST_RESULT]


def compute_verdict_digest(verdict: Verdict) -> str:
    """Return the SHA-256 of a verdict without its run id."""
    return json_digest({key: value for key, value in verdict.to_dict().items() if key != "run_id"})


def build_statement(verdict: Verdict, digests: Mapping[str, str], signed_at: str) -> Statement:
    """Return the in-toto statement about a verdict.

    `digests`: SHA-256 of the files behind the verdict, by name. `signed_at`: ISO time.
    """
    tests: dict[str, list[str]] = {"PASSED": [], "WARNED": [], "FAILED": []}
    for result in verdict.results:
        if result.outcome != "skipped":  # a rule that only warns never fails
            failure = "WARNED" if result.action == "warn" else "FAILED"
            name = "/".join(filter(None, (result.rule, result.kind, result.group)))
            tests["PASSED" if result.outcome == "pass" else failure].append(name)
    passed, warned, failed = tests.values()
    outcome = "WARNED" if warned else "PASSED"
    annotations = _build_annotations(verdict, signed_at).to_dict()
    candidate = verdict.candidate
    subject = [(file.path, file.sha256) for file in candidate.bound.files]
    if not subject:  # the model has no files of its own, so the scores identify it
        subject = [(f"scores of {candidate.model or candidate.name}", candidate.digest)]
    predicate = Predicate(
        result=outcome if verdict.outcome == "pass" else "FAILED",
        configuration=[
            ResourceDescriptor(
                name=name,
                digest={"sha256": digests[name]},
                annotations=annotations if name == VERDICT_FILES[0] else {},
            )
            for name in (*_DOCUMENTS, *sorted(digests.keys() - set(_DOCUMENTS)))
        ],
        passed_tests=passed,
        warned_tests=warned,
        failed_tests=failed,
    )
    return Statement(
        _type=STATEMENT,
        subject=[Subject(name=name, digest={"sha256": digest}) for name, digest in subject],
        predicate_type=TEST_RESULT,
        predicate=predicate,
    )


def attest_verdict(
    verdict: Verdict, folder: Path, key: PrivateKey | None, files: Sequence[str] = VERDICT_FILES
) -> None:
    """Write the statement about a verdict to its folder, signed if `key` is given.

    `files`: names of the files behind the verdict, which must exist in the folder.
    """
    digests = {name: file_digest(folder / name) for name in files}
    statement = build_statement(verdict, digests, get_timestamp())
    payload = json.dumps(
        statement.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    write_json(folder / FILE, Envelope.sign(payload.encode(), PAYLOAD, key).to_record())


def read_statement(envelope: Envelope, where: str) -> Statement:
    """Return the statement in an envelope, without checking its signatures."""
    rule = f"an in-toto statement with a {TEST_RESULT}"
    content = parse_json(envelope.payload, where)
    statement = check_document(content, Statement, where, rule=rule, exact=False)
    if [envelope.payload_type, *statement.type_uris] != _TYPE_URIS:
        msg = f"{where} must be {rule}; it is not."
        raise InputError(msg)
    return statement


def read_annotations(statement: Statement) -> Annotations | None:
    """Return the annotations of a statement; None if they lack the form that biasgate writes."""
    tested = statement.predicate.configuration
    if not tested:
        return None
    try:
        return check_document(tested[0].annotations, Annotations, "what is attested")
    except InputError:
        return None


def _build_annotations(verdict: Verdict, signed_at: str) -> Annotations:
    evaluation_set, policy = verdict.evaluation_set, verdict.policy
    registered, head = verdict.registered_policy, verdict.ledger
    return Annotations(
        candidate=verdict.candidate.name,
        model=verdict.candidate.model,
        scores_digest=verdict.candidate.digest,
        champion=get_champion_uri(verdict),
        evaluation_set=evaluation_set.name,
        evaluation_set_digest=evaluation_set.digest,
        required=evaluation_set.required,
        required_sets=verdict.required_sets,
        policy=policy.name,
        policy_digest=policy.digest,
        report_only=policy.report_only,
        holds_for=verdict.holds_for,
        exceptions=[describe_exception(exception) for exception in verdict.exceptions],
        reservations=verdict.reservations,
        policy_registered=None
        if registered is None
        else PolicyRegistration(at=registered.at, before_scores=registered.before_scores),
        ledger=None if head is None else LedgerHead(number=str(head.number), digest=head.digest),
        bound=verdict.candidate.bound.what,
        verdict_digest=compute_verdict_digest(verdict),
        report_digest=verdict.report_digest,
        evidence_digest=verdict.evidence_digest,
        decided_on=verdict.decided_on,
        signed_at=signed_at,
        biasgate=verdict.code.version,
        bias_metrics=verdict.code.bias_metrics,
        holds_until=verdict.holds_until,
    )
