"""A version's own verdicts, with the options and reports of its evaluation.

Anyone with write access to the registry may change tags. Options that affect scores are therefore
read from a verdict that the ledger names or a trusted key signed, and never from a tag. Without
trusted keys, a verdict that tags name also counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from pydantic import JsonValue

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.ledger.ledger import Ledger, require_model
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.reporting.results import Published
from biasgate.tasks.scoring.kinds.score_file import COLUMNS_TAG
from biasgate.tasks.scoring.training import OPENED_AS
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import (
    VERDICT_FILES,
    compute_verdict_digest,
    read_annotations,
    read_statement,
)
from biasgate.tasks.verifying.documents import Documents, complete_tags, read_verdict

MLFLOW_OPTIONS: dict[str, JsonValue] = {"kind": "mlflow"}
"""Options to open a version without a verdict."""
_UNREADABLE = (InputError, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError)


def find_own_verdicts(version: ModelVersion, gateway: Gateway) -> Iterator[tuple[str, Verdict]]:
    """Yield the run id and the verdict of a version's own verdicts that count.

    For a promoted version, these are the verdicts that the ledger names. For other versions they
    are the verdicts that tags name, if a trusted key signed them or this machine trusts no keys.
    """
    chain, trusted = Ledger(gateway, version.name).chain, TrustedKeys.load()
    vouched = chain.find_vouched_verdicts(trusted).by_entry
    moves = [link.content for link in chain.moves if link.content.version == version.version]
    references = [reference for move in reversed(moves) for reference in move.verdicts]
    runs = [
        run
        for key, run in sorted(version.tags.items())
        if key.startswith("biasgate.") and key.endswith(".run_id")
    ]
    digests = {reference.run_id: reference.digest for reference in references} or dict.fromkeys(
        runs
    )
    for run_id, digest in digests.items():
        try:
            verdict = read_verdict(run_id, gateway)
            current = compute_verdict_digest(verdict)
            signed = (
                not trusted
                or current in vouched
                or has_trusted_signature(run_id, current, trusted, gateway)
            )
            counts = signed and digest in {current, None}
            copied = chain.find_source(version.version, current)
            judged = version.uri if copied is None else copied[0].judged
            if counts and verdict.candidate.model == judged:
                yield run_id, verdict
        except _UNREADABLE:
            continue


def find_judged_options(version: ModelVersion, gateway: Gateway) -> dict[str, JsonValue]:
    """Return the kind and the options that a version was opened with when it was judged."""
    for _, verdict in find_own_verdicts(version, gateway):
        if verdict.candidate.opened_as is None:
            raise InputError(_describe_missing_options(version, "its verdict does not"))
        return dict(verdict.candidate.opened_as)
    if COLUMNS_TAG in version.tags:
        msg = (
            f"{version.uri} must have a verdict that records the judged columns of its file of "
            f"scores: anyone with write access to the registry can change its tag {COLUMNS_TAG}. "
            "Evaluate the file again as a candidate, with `register`."
        )
        raise InputError(msg)
    if version.tags.get(OPENED_AS, '{"kind": "mlflow"}') != '{"kind": "mlflow"}':
        reason = f"anyone with write access to the registry can change its tag {OPENED_AS}"
        raise InputError(_describe_missing_options(version, reason))
    return MLFLOW_OPTIONS


def find_judged_reports(version: ModelVersion, gateway: Gateway) -> Iterator[Report]:
    """Yield the reports behind a version's own verdicts; skip reports that are unreadable."""
    for run_id, verdict in find_own_verdicts(version, gateway):
        try:
            report = Report.from_dict(gateway.read_json(run_id, "report.json"))
            counts = json_digest(report) == verdict.report_digest
        except _UNREADABLE:
            continue
        if counts:
            yield report


def has_trusted_signature(run_id: str, digest: str, trusted: TrustedKeys, gateway: Gateway) -> bool:
    """Return whether a trusted key signed the attestation of a verdict; it must exist.

    `digest`: the verdict's digest, which the attestation must name.
    """
    envelope = Envelope.from_dict(gateway.read_json(run_id, ATTESTATION), ATTESTATION)
    annotations = read_annotations(read_statement(envelope, ATTESTATION))
    if annotations is None or annotations.verdict_digest != digest:
        return False
    return envelope.check_signatures(trusted).status == "trusted"


def _describe_missing_options(version: ModelVersion, reason: str) -> str:
    return (
        f"{version.uri} must have a verdict that records how it was opened; {reason}. Set it in "
        "the evaluation file, as in `champion: {name: champion, kind: transformer, model: "
        f"models:/{version.name}@champion, max_tokens: 128}}`, or evaluate it as a candidate."
    )


PREFIX = "models:/"


def find_published(uri: str, gateway: Gateway, kept: ExitStack) -> list[Published]:
    """Return the published results of a version, one item per set.

    `kept`: keeps the downloaded files until the caller closes it.
    """
    model = uri.removeprefix(PREFIX).partition("/")[0].partition("@")[0]
    require_model(model, gateway)
    version = complete_tags(gateway.resolve(uri), gateway)
    published: list[Published] = []
    for run_id, verdict in find_own_verdicts(version, gateway):
        folder = kept.enter_context(gateway.open_run_files(run_id, VERDICT_FILES))
        documents = Documents.from_folder(folder, verdict.evaluation_set.name)
        published.append(Published(folder, documents.report, documents.verdict))
    if not published:
        msg = (
            f"{version.uri} must have a verdict from `biasgate evaluate`; none of its verdicts "
            "counts."
        )
        raise InputError(msg)
    return published
