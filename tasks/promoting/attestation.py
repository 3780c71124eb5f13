"""Attestations of a version in one file, and their verification without registry or server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.mlflow_server.artifacts import ADDED_BY_MLFLOW
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.by_hand import require_known
from biasgate.tasks.promoting.findings import Finding
from biasgate.tasks.promoting.ledger import CHAMPION
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.manifest import Manifest
from biasgate.tasks.signing.statement import FILE, annotations_of, read_statement
from biasgate.tasks.signing.trusted import TrustedKeys

_TOGETHER = ("model", "policyDigest", "requiredSets", "champion", "ledger")


def write_attestation(
    model: str, version: str | None, file: Path, gateway: Gateway
) -> tuple[ModelVersion, int]:
    """Write the signed attestations of a version: one line for each required set.

    Lines of DSSE envelopes are what other tools call an attestation bundle (`.intoto.jsonl`).

    Returns
    -------
    tuple
        The version, and how many lines were written.

    Raises
    ------
    InputError
        If there is no such version, or one of its verdicts has no signed attestation.
    """
    require_known(model, gateway)
    found = gateway.resolve(f"models:/{model}{f'/{version}' if version else f'@{CHAMPION}'}")
    names = [one for one in found.tags.get("biasgate.required_sets", "").split(",") if one]
    if not names:
        msg = f"{found.uri} must have a verdict; it has none: evaluate it first."
        raise InputError(msg)
    lines = []
    for name in names:
        where = f"the attestation of {found.uri} on {name}"
        try:
            content = gateway.read_json(found.tags.get(f"biasgate.{name}.run_id", ""), FILE)
        except (OSError, ValueError) as error:
            msg = f"{where} must be in its run; it cannot be read. Evaluate the version again."
            raise InputError(msg) from error
        if not Envelope.of_dict(content, where).signatures:
            msg = f"{where} must be signed; it is not. Set BIASGATE_PRIVATE_KEY and evaluate again."
            raise InputError(msg)
        lines.append(json.dumps(content, separators=(",", ":")) + "\n")
    with whole_file(file) as temporary:
        temporary.write_text("".join(lines), "utf-8")
    return found, len(lines)


def verify_attestation(file: Path, folder: Path) -> list[Finding]:
    """Check that attestations are signed, passed, complete, and of the files in a folder.

    Needs trusted public keys, and nothing else: no registry, no network.

    Parameters
    ----------
    file : Path
        As `write_attestation` writes it.
    folder : Path
        The model's files, as they are to be deployed.

    Returns
    -------
    list of Finding
        The model may be deployed if all hold.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    try:
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        msg = f"{file} must be a file that `biasgate attest` wrote; it cannot be read."
        raise InputError(msg) from error
    if not lines:
        msg = f"{file} must hold at least one attestation; it is empty."
        raise InputError(msg)
    trusted, findings, statements = TrustedKeys.here(), list[Finding](), list[dict[str, Any]]()
    for number, line in enumerate(lines, 1):
        where = f"{file}, line {number},"
        envelope = Envelope.of_dict(line, where)
        signed = envelope.signed(trusted)
        statement = read_statement(envelope, where)
        statements.append(statement)
        name = _said(statement).get("evaluationSet")
        text = f"the attestation on {name} is {signed.words}."
        findings.append(Finding("signature", holds=signed.standing == "trusted", sentence=text))
        findings.append(_passed(statement, name))
    findings += _together(statements)
    return [*findings, _same_files(statements, folder)]


def _said(statement: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return annotations_of(statement)
    except (KeyError, IndexError, TypeError):
        return {}


def _passed(statement: Mapping[str, Any], name: str | None) -> Finding:
    said = _said(statement)
    result = statement["predicate"].get("result") if said else None
    holds = result in {"PASSED", "WARNED"} and said.get("reportOnly") is False
    only = ", by a policy that only reports" if said.get("reportOnly") else ""
    text = f"the verdict on {name} by policy {said.get('policy')} is {result}{only}."
    return Finding("verdict", holds=holds, sentence=text)


def _together(statements: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Check that all required sets are there, of one evaluation of one version."""
    said = [_said(one) for one in statements]
    required = sorted(said[0].get("requiredSets") or [])
    sets = sorted({str(one.get("evaluationSet")) for one in said})
    missing = [one for one in required if one not in sets]
    text = f"the attestations are of every required set: {', '.join(required) or 'unknown'}."
    told = f" Missing: {', '.join(missing)}." if missing else ""
    yield Finding("verdict", holds=bool(required) and not missing, sentence=text + told)
    contexts = [[one.get(key) for key in _TOGETHER] for one in said]
    same = all(one == contexts[0] for one in contexts)
    text = f"the attestations are of one evaluation of {said[0].get('model')}."
    yield Finding("verdict", holds=same, sentence=text)


def _same_files(statements: Sequence[Mapping[str, Any]], folder: Path) -> Finding:
    """Check that the files in a folder are the ones that were judged."""
    text = f"the files in {folder} are the ones that were judged."
    try:
        judged = [
            {str(one["name"]): str(one["digest"]["sha256"]) for one in statement["subject"]}
            for statement in statements
        ]
        if any(_said(one).get("bound") not in {"files", "scores"} for one in statements):
            text = "the attestations name no files: how the model was reached is all they bind."
            return Finding("model", holds=False, sentence=text)
        found = {
            one["path"]: one["sha256"]
            for one in Manifest.of(folder, leaving_out=ADDED_BY_MLFLOW).to_dict()
        }
    except (InputError, KeyError, TypeError) as error:
        return Finding("model", holds=False, sentence=f"{text} But {error}")
    differ = sorted(
        f"{path}: {_difference(before.get(path), found.get(path))}"
        for before in judged
        for path in before.keys() | found.keys()
        if before.get(path) != found.get(path)
    )
    told = f" Different: {', '.join(dict.fromkeys(differ))[:500]}." if differ else ""
    return Finding("model", holds=not differ, sentence=text + told)


def _difference(before: str | None, now: str | None) -> str:
    if before is None:
        return "added"
    return "missing" if now is None else "changed"
