"""Export of a version's attestations from the registry to a file."""

from __future__ import annotations

import json
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.ledger.ledger import require_model
from biasgate.tasks.mlflow_server.artifacts import ADDED_BY_MLFLOW
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.verify import find_version, verify_resolved
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.model_signature import write_model_signature
from biasgate.tasks.signing.statement import FILE, read_statement
from biasgate.tasks.verifying.documents import complete_tags


def write_attestation(
    model: str,
    version: str | None,
    file: Path,
    gateway: Gateway,
    model_signature: Path | None = None,
) -> tuple[ModelVersion, dict[str, str]]:
    """Write the signed attestations of a version to a file, one line per required set.

    The file has a DSSE envelope per line: an attestation bundle (`.intoto.jsonl`) of in-toto. If
    the version passed, the file is written only if `biasgate verify` accepts the version now. Its
    recipient cannot know that the version was blocked later, or that its ledger was changed.

    `version`: default: the champion. `model_signature`: a file for a signature of the model's
    files. Both files are written, or neither.

    Returns the version, and the attested results by set.
    """
    if model_signature is not None and model_signature.resolve() == file.resolve():
        msg = f"attestations and model signature must be two files; both are {file}."
        raise InputError(msg)
    require_model(model, gateway)
    target = complete_tags(find_version(model, version, gateway), gateway)
    names = [name for name in target.tags.get("biasgate.required_sets", "").split(",") if name]
    if not names:
        msg = f"{target.uri} must have a verdict; it has none: evaluate it first."
        raise InputError(msg)
    lines, results = [], {}
    for name in names:
        where = f"the attestation of {target.uri} on {name}"
        try:
            content = gateway.read_json(target.tags.get(f"biasgate.{name}.run_id", ""), FILE)
        except (OSError, ValueError) as error:
            msg = f"{where} must be in its run; it cannot be read. Evaluate the version again."
            raise InputError(msg) from error
        envelope = Envelope.from_dict(content, where)
        if not envelope.signatures:
            msg = f"{where} must be signed; it is not. Set BIASGATE_PRIVATE_KEY and evaluate again."
            raise InputError(msg)
        results[name] = read_statement(envelope, where).predicate.result
        lines.append(json.dumps(content, separators=(",", ":")) + "\n")
    if model_signature is not None or "FAILED" not in results.values():
        findings = verify_resolved(target, gateway, is_champion=version is None)
        failures = [finding.sentence for finding in findings if not finding.holds]
        if failures:
            msg = f"{target.uri} must verify before it is attested; it does not: {failures[0]}"
            raise InputError(msg)
    with whole_file(file) as temporary:
        temporary.write_text("".join(lines), "utf-8")
        if model_signature is not None:
            with gateway.open_download(target) as folder:
                write_model_signature(folder, model_signature, leaving_out=ADDED_BY_MLFLOW)
    return target, results
