"""A version's own verdicts: how it was opened when it was judged, and what was published of it.

Anyone with write access to the registry may write tags. What decides scores is therefore
read from a verdict that the ledger names, or that a trusted key has signed, and never from a tag.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from pydantic import JsonValue

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.ledger.ledger import Ledger, require_known
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
    RESTS_ON,
    annotations_of,
    read_statement,
    verdict_digest,
)
from biasgate.tasks.verifying.documents import Documents, read_verdict, with_whole_tags

AS_MLFLOW: dict[str, JsonValue] = {"kind": "mlflow"}
"""How to open a version without a verdict."""
_UNREADABLE = (InputError, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError)


def own_verdicts(version: ModelVersion, gateway: Gateway) -> Iterator[tuple[str, Verdict]]:
    """Yield a version's own verdicts that count, each with its run.

    These are the ones behind its promotion, as the ledger names them; for a version that was never
    promoted those that its tags name, if a trusted key signed them or none is trusted here.
    """
    chain, trusted = Ledger(gateway, version.name).chain, TrustedKeys.here()
    vouched = chain.vouched_verdicts(trusted).by_entry
    moves = [link.content for link in chain.moves if link.content.version == version.version]
    named = [item for move in reversed(moves) for item in move.verdicts]
    runs = [
        run
        for key, run in sorted(version.tags.items())
        if key.startswith("biasgate.") and key.endswith(".run_id")
    ]
    digests = {item.run_id: item.digest for item in named} or dict.fromkeys(runs)
    for run_id, digest in digests.items():
        try:
            verdict = read_verdict(run_id, gateway)
            found = verdict_digest(verdict)
            signed = not trusted or found in vouched or is_signed(run_id, found, trusted, gateway)
            counts = signed and digest in {found, None}
            copied = chain.source_of(version.version, found)
            judged = version.uri if copied is None else copied[0].judged
            if counts and verdict.candidate.model == judged:
                yield run_id, verdict
        except _UNREADABLE:
            continue


def judged_options(version: ModelVersion, gateway: Gateway) -> dict[str, JsonValue]:
    """Return the kind and the options with which a version was judged."""
    for _, verdict in own_verdicts(version, gateway):
        if verdict.candidate.opened_as is None:
            raise InputError(_unknown(version, "its verdict does not"))
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
        raise InputError(_unknown(version, reason))
    return AS_MLFLOW


def judged_reports(version: ModelVersion, gateway: Gateway) -> Iterator[Report]:
    """Yield the reports that a version's own verdicts rest on, as far as they can be read."""
    for run_id, verdict in own_verdicts(version, gateway):
        try:
            report = Report.from_dict(gateway.read_json(run_id, "report.json"))
            counts = json_digest(report) == verdict.report_digest
        except _UNREADABLE:
            continue
        if counts:
            yield report


def is_signed(run_id: str, digest: str, trusted: TrustedKeys, gateway: Gateway) -> bool:
    """Return whether a trusted key signed the attestation of a verdict, which must exist."""
    envelope = Envelope.of_dict(gateway.read_json(run_id, ATTESTATION), ATTESTATION)
    said = annotations_of(read_statement(envelope, ATTESTATION))
    if said is None or said.verdict_digest != digest:
        return False
    return envelope.signed(trusted).standing == "trusted"


def _unknown(version: ModelVersion, reason: str) -> str:
    return (
        f"{version.uri} must have a verdict that records how it was opened; {reason}. Set it in "
        "the evaluation file, as in `champion: {name: champion, kind: transformer, model: "
        f"models:/{version.name}@champion, max_tokens: 128}}`, or evaluate it as a candidate."
    )


PREFIX = "models:/"


def published_of(uri: str, gateway: Gateway, kept: ExitStack) -> list[Published]:
    """Return what was published of a version on each set.

    `kept`: holds the files as long as they are read.
    """
    model = uri.removeprefix(PREFIX).partition("/")[0].partition("@")[0]
    require_known(model, gateway)
    version = with_whole_tags(gateway.resolve(uri), gateway)
    found: list[Published] = []
    for run_id, verdict in own_verdicts(version, gateway):
        folder = kept.enter_context(gateway.run_files(run_id, RESTS_ON))
        documents = Documents.of(folder, verdict.evaluation_set.name)
        found.append(Published(folder, documents.report, documents.verdict))
    if not found:
        msg = (
            f"{version.uri} must have a verdict from `biasgate evaluate`; none of its verdicts "
            "counts."
        )
        raise InputError(msg)
    return found
