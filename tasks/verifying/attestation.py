"""Verification of a version's attestations from a file, without registry or server.

A valid signature proves that a trusted key attested a verdict; it does not prove that the verdict
is the required one. The attestation of another model, or by a lenient policy, is detected only if
model, policy and sets are pinned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from bias_metrics.parts import format_count
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.untrusted import parse_json, read_bytes
from biasgate.tasks.mlflow_server.artifacts import ADDED_BY_MLFLOW
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.manifest import Manifest, describe_change, join_differences
from biasgate.tasks.signing.statement import (
    Annotations,
    Statement,
    read_annotations,
    read_statement,
)
from biasgate.tasks.verifying.files import Finding

_DIGEST = re.compile(r"[0-9a-f]{12,64}")
_MAX_LINES = 1000


@dataclass(frozen=True)
class Pins:
    """Required values of attestations, in addition to the files; None accepts any value."""

    model: str | None = None
    version: str | None = None
    policy_digest: str | None = None
    """Digest of the policy, as `biasgate policy check` prints it, or at least its first 12
    characters."""
    sets: Mapping[str, str] | None = None
    """Digests of the rows by set name. Exactly these sets must be attested. An empty digest accepts
    any rows."""

    def __post_init__(self) -> None:
        """Raise an error for a pin that is empty, too short, or lacks its model."""
        digests = [digest for digest in (self.sets or {}).values() if digest]
        for digest in [*digests, self.policy_digest]:
            if digest is not None and not _DIGEST.fullmatch(digest):
                msg = f"a pinned digest must be 12 to 64 characters of 0-9 and a-f; got {digest!r}."
                raise InputError(msg)
        for name, text in (("model", self.model), ("version", self.version)):
            if text == "":
                msg = f"a pinned {name} must not be empty."
                raise InputError(msg)
        if self.version is not None and self.model is None:
            msg = f"a version must be pinned with its model; got version {self.version!r}."
            raise InputError(msg)

    def check_annotations(self, annotations: Sequence[Annotations]) -> Iterator[Finding]:
        """Compare the attested model, policy and sets with the pins.

        Without annotations, every pin fails.
        """
        yield self._check_model({item.model or "" for item in annotations})
        yield self._check_policy({(item.policy, item.policy_digest) for item in annotations})
        yield self._check_sets(
            {(item.evaluation_set, item.evaluation_set_digest) for item in annotations}
        )

    def _check_model(self, models: set[str]) -> Finding:
        listed = _join_sorted(name or "a model without a registered version" for name in models)
        text = f"the attested model is {listed}."
        if self.model is None:
            free = f"{text} Any model would be accepted: give the required MODEL."
            return Finding("model", holds=True, sentence=free, checked=False)
        required = f"models:/{self.model}/{self.version or ''}"
        matches = [
            uri == required
            if self.version
            else uri.rpartition("/")[0] == required.removesuffix("/")
            for uri in models
        ]
        return _report_pin("model", text, required.removesuffix("/"), holds=matches == [True])

    def _check_policy(self, policies: set[tuple[str, str]]) -> Finding:
        listed = _join_sorted(f"{name} ({digest})" for name, digest in policies)
        text = f"it was judged by policy {listed}."
        if self.policy_digest is None:
            free = f"{text} Any policy would be accepted: give the required --policy-digest."
            return Finding("policy", holds=True, sentence=free, checked=False)
        matches = [digest.startswith(self.policy_digest) for _, digest in policies]
        return _report_pin("policy", text, self.policy_digest, holds=matches == [True])

    def _check_sets(self, sets: set[tuple[str, str]]) -> Finding:
        listed = _join_sorted(f"{name} ({digest})" for name, digest in sets)
        text = f"it was judged on {listed}."
        if self.sets is None:
            free = f"{text} Any sets would be accepted: give each required --evaluation-set."
            return Finding("dataset", holds=True, sentence=free, checked=False)
        digests, required = dict(sets), self.sets
        is_same = (
            len(digests) == len(sets)
            and digests.keys() == required.keys()
            and all(digests[name].startswith(digest) for name, digest in required.items())
        )
        listed = _join_sorted(
            f"{name} ({digest})" if digest else name for name, digest in required.items()
        )
        return _report_pin("dataset", text, listed, holds=is_same)


def _report_pin(what: str, text: str, required: str, *, holds: bool) -> Finding:
    ending = f" As required: {required}." if holds else f" It must be {required}."
    return Finding(what, holds=holds, sentence=text + ending)


def _join_sorted(texts: Iterable[str]) -> str:
    return ", ".join(sorted(texts)) or "none"


NO_PINS = Pins()


def verify_attestation(file: Path, folder: Path, pins: Pins = NO_PINS) -> list[Finding]:
    """Check that attestations are signed, complete passes, and match the files in a folder.

    It needs only trusted public keys: it reads no registry and does not use the network.

    `file`: as `write_attestation` writes it. `folder`: the model's files that are to be deployed.
    `pins`: the required model, policy and sets. Default: any. The model may be deployed if all
    findings hold.
    """
    trusted, findings, statements = TrustedKeys.load(), list[Finding](), list[Statement]()
    for number, line in _read_lines(file):
        where = f"{file}, line {number},"
        envelope = Envelope.from_dict(parse_json(line, where), where)
        signed = envelope.check_signatures(trusted)
        statement = read_statement(envelope, where)
        statements.append(statement)
        annotations = read_annotations(statement)
        name = annotations.evaluation_set if annotations is not None else "an unknown set"
        text = f"the attestation on {name} is {signed.description}."
        findings.append(Finding("signature", holds=signed.status == "trusted", sentence=text))
    annotated = [item for item in map(read_annotations, statements) if item is not None]
    is_complete = len(annotated) == len(statements)
    findings += [*verify_passes(statements), *pins.check_annotations(annotated)]
    return [*findings, _compare_files(statements, annotated, folder, is_complete=is_complete)]


def _read_lines(file: Path) -> list[tuple[int, bytes]]:
    try:
        content = read_bytes(file, "the file of attestations")
    except FileNotFoundError as error:
        msg = f"{file} must be a file that `biasgate attest` wrote; it does not exist."
        raise InputError(msg) from error
    lines = [line for line in enumerate(content.splitlines(), 1) if line[1].strip()]
    if not 0 < len(lines) <= _MAX_LINES:
        msg = f"{file} must hold 1 to {_MAX_LINES} attestations; it holds {len(lines)}."
        raise InputError(msg)
    return lines


def verify_passes(
    statements: Sequence[Statement], *, any_outcome: bool = False
) -> Iterator[Finding]:
    """Check that statements are valid passes today, on all required sets, from one evaluation.

    This rule is the same for a version in a registry, attestations in a file and a results folder.

    `any_outcome`: accept outcomes other than a pass, as in the folder of an evaluation.
    """
    annotations = [item for item in map(read_annotations, statements) if item is not None]
    for statement in statements:
        yield _check_pass(statement, any_outcome=any_outcome)
    required = sorted({name for item in annotations for name in item.required_sets})
    sets = [item.evaluation_set for item in annotations if item.required]
    candidates = ", ".join(sorted({item.candidate for item in annotations})) or "no candidate"
    listed = ", ".join(required) or "unknown"
    text = f"{candidates} has a single verdict on each required set: {listed}."
    missing = [name for name in required if name not in sets]
    text += f" Missing: {', '.join(missing)}." if missing else ""
    duplicates = sorted({name for name in sets if sets.count(name) > 1})
    text += f" Duplicate: {', '.join(duplicates)}." if duplicates else ""
    yield Finding("verdict", holds=bool(required) and not missing and not duplicates, sentence=text)
    contexts = [
        (
            item.candidate,
            item.model,
            item.policy_digest,
            item.required_sets,
            item.champion,
            item.ledger,
        )
        for item in annotations
    ]
    is_same = len(annotations) == len(statements) and all(item == contexts[0] for item in contexts)
    text = f"the verdicts on {candidates} share their evaluation, policy and champion."
    yield Finding("verdict", holds=is_same, sentence=text)


def _check_pass(statement: Statement, *, any_outcome: bool) -> Finding:
    """Check that a statement is a pass, and that its dates are valid today."""
    annotations, result = read_annotations(statement), statement.predicate.result
    if annotations is None:
        text = "an attestation lacks the fields that biasgate writes about a verdict."
        return Finding("verdict", holds=False, sentence=text)
    passed = result in {"PASSED", "WARNED"}
    subject = f"{annotations.candidate} on {annotations.evaluation_set}"
    shown = result if passed else "not a pass"
    text = f"the verdict on {subject} by policy {annotations.policy} is {shown}"
    text += ", by a report-only policy" if annotations.report_only else ""
    if passed and not annotations.report_only:
        text += f" until {annotations.holds_until}" if annotations.holds_until else ""
        text += (
            f" for {len(annotations.holds_for.identities)} of {annotations.holds_for.of} identities"
        )
        limits = {
            format_count(len(annotations.exceptions), "exception"): annotations.exceptions,
            format_count(len(annotations.reservations), "reservation"): annotations.reservations,
        }
        listed = [limit for limit, of_kind in limits.items() if of_kind]
        text += f"; it lists {', '.join(listed)}" if listed else ""
    problem = _find_date_problem(annotations) if passed else None
    text += "." if problem is None else f". {problem}"
    holds = problem is None and (any_outcome or (passed and not annotations.report_only))
    return Finding("verdict", holds=holds, sentence=text)


def _find_date_problem(annotations: Annotations) -> str | None:
    """Return why the dates of a pass make it invalid today; None if they are valid."""
    day = datetime.now(UTC).date()
    try:
        dates = [
            date.fromisoformat(text[:10])
            for text in (annotations.decided_on, annotations.signed_at)
            if text
        ]
        last = (
            date.max
            if annotations.holds_until is None
            else date.fromisoformat(annotations.holds_until)
        )
    except ValueError:
        return "It must have valid dates; it does not."
    if max(dates, default=date.max) > day:
        return f"It is dated {max(dates, default='never')}, and today is {day}."
    if last < day:
        return f"An entry of `not_measured` ended on {last}, and today is {day}: evaluate again."
    return None


def _compare_files(
    statements: Sequence[Statement],
    annotations: Sequence[Annotations],
    folder: Path,
    *,
    is_complete: bool,
) -> Finding:
    """Check that the files in a folder are the judged files."""
    text = f"the files in {folder} match the judged files."
    if not is_complete or any(item.bound not in {"files", "scores"} for item in annotations):
        text = "the attestations do not list files: they only bind how the model was reached."
        return Finding("model", holds=False, sentence=text)
    judged = [
        {subject.name: subject.digest.get("sha256", "") for subject in statement.subject}
        for statement in statements
    ]
    try:
        manifest = Manifest.from_path(folder, leaving_out=ADDED_BY_MLFLOW)
    except InputError as error:
        return Finding("model", holds=False, sentence=f"{text} But {error}")
    current = {file.path: file.sha256 for file in manifest.files}
    differences = sorted(
        f"{path}: {describe_change(recorded.get(path), current.get(path))}"
        for recorded in judged
        for path in recorded.keys() | current.keys()
        if recorded.get(path) != current.get(path)
    )
    ending = (
        f" Different: {join_differences(list(dict.fromkeys(differences)))}." if differences else ""
    )
    return Finding("model", holds=not differences, sentence=text + ending)
