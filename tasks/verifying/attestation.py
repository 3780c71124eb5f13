"""Attestations of a version in one file, and their verification without registry or server.

A good signature says that a trusted key attested something, not what. The attestation of
another model, or of a lenient policy, is found only if the right ones are pinned.
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
from biasgate.tasks.signing.manifest import Manifest, difference, first_few
from biasgate.tasks.signing.statement import (
    Annotations,
    Statement,
    annotations_of,
    read_statement,
)
from biasgate.tasks.verifying.files import Finding

_DIGEST = re.compile(r"[0-9a-f]{12,64}")
_MOST_LINES = 1000


@dataclass(frozen=True)
class Pins:
    """What attestations must be of, beside the files; whatever is None may be anything."""

    model: str | None = None
    version: str | None = None
    policy_digest: str | None = None
    """Digest of the policy that decided, as `biasgate policy check` prints it; 12 characters or
    more."""
    sets: Mapping[str, str] | None = None
    """The required sets by name, no more and no fewer; each with the digest of its rows; an empty
    digest may be any."""

    def __post_init__(self) -> None:
        """Refuse a pin that pins nothing."""
        digests = [one for one in (self.sets or {}).values() if one]
        for digest in [*digests, self.policy_digest]:
            if digest is not None and not _DIGEST.fullmatch(digest):
                msg = f"a pinned digest must be 12 to 64 characters of 0-9 and a-f; got {digest!r}."
                raise InputError(msg)
        for what, text in (("model", self.model), ("version", self.version)):
            if text == "":
                msg = f"a pinned {what} must not be empty."
                raise InputError(msg)
        if self.version is not None and self.model is None:
            msg = f"a version must be pinned with its model; got version {self.version!r}."
            raise InputError(msg)

    def check(self, said: Sequence[Annotations]) -> Iterator[Finding]:
        """Yield which model, policy and sets are attested, and whether they are the pinned ones.

        `said` is what each attestation says about its verdict; nothing that is pinned holds if it
        says nothing.
        """
        yield self._model({one.model or "" for one in said})
        yield self._policy({(one.policy, one.policy_digest) for one in said})
        yield self._sets({(one.evaluation_set, one.evaluation_set_digest) for one in said})

    def _model(self, found: set[str]) -> Finding:
        named = _listed(one or "a model without a registered version" for one in found)
        text = f"the attested model is {named}."
        if self.model is None:
            free = f"{text} Any model would be accepted: give the required MODEL."
            return Finding("model", holds=True, sentence=free, checked=False)
        wanted = f"models:/{self.model}/{self.version or ''}"
        same = [
            one == wanted if self.version else one.rpartition("/")[0] == wanted.removesuffix("/")
            for one in found
        ]
        return _pinned("model", text, wanted.removesuffix("/"), holds=same == [True])

    def _policy(self, found: set[tuple[str, str]]) -> Finding:
        text = f"it was judged by policy {_listed(f'{one} ({digest})' for one, digest in found)}."
        if self.policy_digest is None:
            free = f"{text} Any policy would be accepted: give the required --policy-digest."
            return Finding("policy", holds=True, sentence=free, checked=False)
        same = [digest.startswith(self.policy_digest) for _, digest in found]
        return _pinned("policy", text, self.policy_digest, holds=same == [True])

    def _sets(self, found: set[tuple[str, str]]) -> Finding:
        text = f"it was judged on {_listed(f'{one} ({digest})' for one, digest in found)}."
        if self.sets is None:
            free = f"{text} Any sets would be accepted: give each required --evaluation-set."
            return Finding("dataset", holds=True, sentence=free, checked=False)
        known, wanted = dict(found), self.sets
        same = (
            len(known) == len(found)
            and known.keys() == wanted.keys()
            and all(known[one].startswith(digest) for one, digest in wanted.items())
        )
        named = _listed(f"{one} ({digest})" if digest else one for one, digest in wanted.items())
        return _pinned("dataset", text, named, holds=same)


def _pinned(what: str, text: str, wanted: str, *, holds: bool) -> Finding:
    told = f" As required: {wanted}." if holds else f" It must be {wanted}."
    return Finding(what, holds=holds, sentence=text + told)


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(sorted(texts)) or "none"


NO_PINS = Pins()


def verify_attestation(file: Path, folder: Path, pins: Pins = NO_PINS) -> list[Finding]:
    """Check that attestations are signed, passed, complete, and of the files in a folder.

    Needs trusted public keys, and nothing else: no registry, no network.

    `file`: as `write_attestation` writes it. `folder`: the model's files, as they are to be
    deployed. `pins`: the model, policy and sets that they must be of. Default: any. The model may
    be deployed if all findings hold.
    """
    trusted, findings, statements = TrustedKeys.here(), list[Finding](), list[Statement]()
    for number, line in _lines(file):
        where = f"{file}, line {number},"
        envelope = Envelope.of_dict(parse_json(line, where), where)
        signed = envelope.signed(trusted)
        statement = read_statement(envelope, where)
        statements.append(statement)
        said = annotations_of(statement)
        name = said.evaluation_set if said is not None else "an unknown set"
        text = f"the attestation on {name} is {signed.words}."
        findings.append(Finding("signature", holds=signed.standing == "trusted", sentence=text))
    known = [one for one in map(annotations_of, statements) if one is not None]
    whole = len(known) == len(statements)
    findings += [*verify_passes(statements), *pins.check(known)]
    return [*findings, _same_files(statements, known, folder, whole=whole)]


def _lines(file: Path) -> list[tuple[int, bytes]]:
    try:
        content = read_bytes(file, "the file of attestations")
    except FileNotFoundError as error:
        msg = f"{file} must be a file that `biasgate attest` wrote; it does not exist."
        raise InputError(msg) from error
    lines = [one for one in enumerate(content.splitlines(), 1) if one[1].strip()]
    if not 0 < len(lines) <= _MOST_LINES:
        msg = f"{file} must hold 1 to {_MOST_LINES} attestations; it holds {len(lines)}."
        raise InputError(msg)
    return lines


def verify_passes(
    statements: Sequence[Statement], *, any_outcome: bool = False
) -> Iterator[Finding]:
    """Check that statements are passes today, on every set that they require, made together.

    Each reader of verdicts decides by this: of a version, of attestations in a file, of a folder.

    `any_outcome`: whether other outcomes also hold, as in the folder of an evaluation.
    """
    known = [one for one in map(annotations_of, statements) if one is not None]
    for statement in statements:
        yield _passes(statement, any_outcome=any_outcome)
    required = sorted({name for one in known for name in one.required_sets})
    sets = [one.evaluation_set for one in known if one.required]
    of = ", ".join(sorted({one.candidate for one in known})) or "no candidate"
    text = f"{of} has a single verdict on each required set: {', '.join(required) or 'unknown'}."
    missing = [name for name in required if name not in sets]
    text += f" Missing: {', '.join(missing)}." if missing else ""
    twice = sorted({name for name in sets if sets.count(name) > 1})
    text += f" Duplicate: {', '.join(twice)}." if twice else ""
    yield Finding("verdict", holds=bool(required) and not missing and not twice, sentence=text)
    contexts = [
        (one.candidate, one.model, one.policy_digest, one.required_sets, one.champion, one.ledger)
        for one in known
    ]
    same = len(known) == len(statements) and all(one == contexts[0] for one in contexts)
    text = f"the verdicts on {of} share their evaluation, policy and champion."
    yield Finding("verdict", holds=same, sentence=text)


def _passes(statement: Statement, *, any_outcome: bool) -> Finding:
    """Check that a statement is a pass today."""
    said, result = annotations_of(statement), statement.predicate.result
    if said is None:
        text = "an attestation lacks the fields that biasgate writes about a verdict."
        return Finding("verdict", holds=False, sentence=text)
    passed = result in {"PASSED", "WARNED"}
    about = f"{said.candidate} on {said.evaluation_set}"
    text = f"the verdict on {about} by policy {said.policy} is {result if passed else 'not a pass'}"
    text += ", by a report-only policy" if said.report_only else ""
    if passed and not said.report_only:
        text += f" until {said.holds_until}" if said.holds_until else ""
        text += f" for {len(said.holds_for.identities)} of {said.holds_for.of} identities"
        limits = {
            format_count(len(said.exceptions), "exception"): said.exceptions,
            format_count(len(said.reservations), "reservation"): said.reservations,
        }
        listed = [limit for limit, of_kind in limits.items() if of_kind]
        text += f"; it lists {', '.join(listed)}" if listed else ""
    problem = _out_of_date(said) if passed else None
    text += "." if problem is None else f". {problem}"
    holds = problem is None and (any_outcome or (passed and not said.report_only))
    return Finding("verdict", holds=holds, sentence=text)


def _out_of_date(said: Annotations) -> str | None:
    """Return why a pass is none today, by its dates."""
    day = datetime.now(UTC).date()
    try:
        dates = [date.fromisoformat(one[:10]) for one in (said.decided_on, said.signed_at) if one]
        last = date.max if said.holds_until is None else date.fromisoformat(said.holds_until)
    except ValueError:
        return "It must have valid dates; it does not."
    if max(dates, default=date.max) > day:
        return f"It is dated {max(dates, default='never')}, and today is {day}."
    if last < day:
        return f"An entry of `not_measured` ended on {last}, and today is {day}: evaluate again."
    return None


def _same_files(
    statements: Sequence[Statement], said: Sequence[Annotations], folder: Path, *, whole: bool
) -> Finding:
    """Check that the files in a folder are the ones that were judged."""
    text = f"the files in {folder} match the judged files."
    if not whole or any(one.bound not in {"files", "scores"} for one in said):
        text = "the attestations do not list files: they only bind how the model was reached."
        return Finding("model", holds=False, sentence=text)
    judged = [
        {subject.name: subject.digest.get("sha256", "") for subject in statement.subject}
        for statement in statements
    ]
    try:
        manifest = Manifest.of(folder, leaving_out=ADDED_BY_MLFLOW)
    except InputError as error:
        return Finding("model", holds=False, sentence=f"{text} But {error}")
    found = {file.path: file.sha256 for file in manifest.files}
    differ = sorted(
        f"{path}: {difference(before.get(path), found.get(path))}"
        for before in judged
        for path in before.keys() | found.keys()
        if before.get(path) != found.get(path)
    )
    told = f" Different: {first_few(list(dict.fromkeys(differ)))}." if differ else ""
    return Finding("model", holds=not differ, sentence=text + told)
