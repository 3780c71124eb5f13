"""What is signed about a verdict: an in-toto statement with a test result.

Statement: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
Test result: https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md

Its subject is the files of the judged model. Its configuration names the files of the run that the
verdict rests on, with the SHA-256 of their bytes, and in annotations what decides on a promotion.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from bias_metrics import RuleResult
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest, json_digest, write_json
from biasgate.tasks.common.untrusted import check, parse_json
from biasgate.tasks.records import Verdict
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import PrivateKey, now

FILE = "attestation.json"
STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD = "application/vnd.in-toto+json"
# The files of a run that a verdict rests on; `verdict.json` is the first.
RESTS_ON = ("verdict.json", "policy.json", "report.json", "evidence.parquet")


class Subject(TypedDict):
    """A judged file."""

    name: str
    digest: dict[str, str]


class Annotations(TypedDict):
    """What decides on a promotion."""

    candidate: str
    model: str | None
    scoresDigest: str
    champion: str | None
    evaluationSet: str
    evaluationSetDigest: str
    required: bool
    requiredSets: list[str]
    policy: str
    policyDigest: str
    reportOnly: bool
    policyRegistered: dict[str, Any] | None
    ledger: dict[str, str] | None
    bound: str | None
    verdictDigest: str
    reportDigest: str
    evidenceDigest: str
    decidedOn: str
    signedAt: str
    biasgate: str
    biasMetrics: str


class Tested(TypedDict):
    """A file that the result rests on; the first has the annotations."""

    name: str
    digest: dict[str, str]
    annotations: NotRequired[Any]


class Predicate(TypedDict):
    """A test result."""

    result: str
    configuration: list[Tested]
    passedTests: list[str]
    warnedTests: list[str]
    failedTests: list[str]


class Statement(TypedDict):
    """An in-toto statement about a verdict."""

    _type: str
    subject: list[Subject]
    predicateType: str
    predicate: Predicate


_KIND = [PAYLOAD, STATEMENT, TEST_RESULT]


def verdict_digest(verdict: Verdict) -> str:
    """SHA-256 of a verdict, without the run that it is logged in."""
    return json_digest({key: value for key, value in verdict.to_dict().items() if key != "run_id"})


def statement_of(verdict: Verdict, digests: Mapping[str, str], signed_at: str) -> dict[str, Any]:
    """Return the statement about a verdict.

    Parameters
    ----------
    digests : mapping of str to str
        SHA-256 of each file that it rests on.

    Returns
    -------
    dict
        An in-toto statement, version 1.
    """
    tests: dict[str, list[str]] = {"PASSED": [], "WARNED": [], "FAILED": []}
    for result in verdict.results:
        if result.outcome != "skipped":
            tests[_counted(result)].append(_test(result))
    outcome = "WARNED" if tests["WARNED"] else "PASSED"
    predicate = {
        "result": outcome if verdict.outcome == "pass" else "FAILED",
        "configuration": [
            {
                "name": name,
                "digest": {"sha256": digests[name]},
                "annotations": _annotations(verdict, signed_at) if name == RESTS_ON[0] else {},
            }
            for name in RESTS_ON
        ],
        "passedTests": tests["PASSED"],
        "warnedTests": tests["WARNED"],
        "failedTests": tests["FAILED"],
    }
    return {
        "_type": STATEMENT,
        "subject": _subject(verdict),
        "predicateType": TEST_RESULT,
        "predicate": predicate,
    }


def attest(verdict: Verdict, folder: Path, key: PrivateKey | None) -> None:
    """Write the statement about the verdict in a folder, in an envelope, signed if there is a key.

    The files that the verdict rests on must be there already.
    """
    statement = statement_of(verdict, file_digests(folder), now())
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":"), allow_nan=False)
    write_json(folder / FILE, Envelope.sign(payload.encode(), PAYLOAD, key).to_dict())


def file_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the bytes of each file that a verdict rests on."""
    return {name: file_digest(folder / name) for name in RESTS_ON}


def read_statement(envelope: Envelope, where: str) -> Statement:
    """Return the statement in an envelope, whoever signed it.

    Raises
    ------
    InputError
        If it is not an in-toto statement with a test result.
    """
    rule = f"an in-toto statement with a {TEST_RESULT}"
    found = check(parse_json(envelope.payload, where), Statement, where, rule=rule)
    if [envelope.payload_type, found["_type"], found["predicateType"]] != _KIND:
        msg = f"{where} must be {rule}; it is not."
        raise InputError(msg)
    return found


def annotations_of(statement: Statement) -> Annotations | None:
    """Return what a statement says about its verdict; None if that is not what biasgate writes."""
    tested = statement["predicate"]["configuration"]
    if not tested:
        return None
    try:
        return check(tested[0].get("annotations"), Annotations, "what is attested")
    except InputError:
        return None


def _annotations(verdict: Verdict, signed_at: str) -> Annotations:
    evaluation_set, policy = verdict.evaluation_set, verdict.policy
    champion = verdict.champion
    return {
        "candidate": verdict.candidate.name,
        "model": verdict.candidate.model,
        "scoresDigest": verdict.candidate.digest,
        "champion": None if champion is None else champion.model,
        "evaluationSet": evaluation_set.name,
        "evaluationSetDigest": evaluation_set.digest,
        "required": evaluation_set.required,
        "requiredSets": verdict.required_sets,
        "policy": policy.name,
        "policyDigest": policy.digest,
        "reportOnly": policy.report_only,
        "policyRegistered": _registered(verdict),
        "ledger": _head(verdict),
        "bound": verdict.candidate.bound.what,
        "verdictDigest": verdict_digest(verdict),
        "reportDigest": verdict.report_digest,
        "evidenceDigest": verdict.evidence_digest,
        "decidedOn": verdict.decided_on,
        "signedAt": signed_at,
        "biasgate": verdict.code.version,
        "biasMetrics": verdict.code.bias_metrics,
    }


def _subject(verdict: Verdict) -> list[dict[str, Any]]:
    """Return the judged files; where none are bound, what decides the scores."""
    candidate = verdict.candidate
    files = candidate.bound.files
    if files:
        return [{"name": one.path, "digest": {"sha256": one.sha256}} for one in files]
    name = candidate.model or candidate.name
    return [{"name": f"scores of {name}", "digest": {"sha256": candidate.digest}}]


def _registered(verdict: Verdict) -> dict[str, Any] | None:
    found = verdict.registered_policy
    return None if found is None else {"at": found.at, "beforeScores": found.before_scores}


def _head(verdict: Verdict) -> dict[str, Any] | None:
    head = verdict.ledger
    return None if head is None else {"number": str(head["number"]), "digest": head["digest"]}


def _counted(result: RuleResult) -> str:
    """Return how a result counts: one that is waived or only warns never fails."""
    if result.outcome == "pass":
        return "PASSED"
    harmless = result.action == "warn" or result.waived_by is not None
    return "WARNED" if harmless else "FAILED"


def _test(result: RuleResult) -> str:
    named = result.rule, result.kind, result.group
    return "/".join(part for part in named if part)
