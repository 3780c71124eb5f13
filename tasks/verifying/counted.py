"""Verification of the verdict in a folder of counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.counting.settings import ENDING
from biasgate.tasks.counting.shards import FOLDER, named
from biasgate.tasks.evidence.counted import FILE as COUNTS
from biasgate.tasks.evidence.counted import Counted, CountedEvidence, read_counted
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import annotations_of, statement_of
from biasgate.tasks.verifying.attestation import NO_PINS, Pins, verify_passes
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import UNNOTICED, Finding, described
from biasgate.tasks.verifying.published import attested_in
from biasgate.tasks.verifying.verdict import decide_again, same_again, same_digests, same_origin


def verify_counted(folder: Path, pins: Pins = NO_PINS) -> list[Finding]:
    """Recompute the verdict in a folder of counts, whatever it is.

    It shows that the verdict follows from the counts, and where all are there, that these are the
    sum of those of the shards. Where a key is trusted, a trusted key must have signed. A file that
    is none of biasgate's is a finding.
    """
    if not (folder / COUNTS).exists():
        msg = f"{folder} must be a folder of counts; it has no {COUNTS}."
        raise InputError(msg)
    try:
        return _verified_counts(folder, pins)
    except Exception as error:  # noqa: BLE001 - counts of others may make any library fail
        text = f"the counts cannot be verified: {described(error)}"
        return [Finding("evidence", holds=False, sentence=text)]


def _verified_counts(folder: Path, pins: Pins) -> list[Finding]:
    documents = Documents.of(folder, "counts", COUNTS)
    evidence = CountedEvidence(folder / COUNTS)
    verdict, rows = documents.verdict, evidence.digest
    name = verdict.evaluation_set.name
    findings = list(same_digests(documents, name, rows))
    findings += same_origin(verdict, documents.report, evidence, None, name)
    findings += _shards(folder / FOLDER, evidence.counted, name)
    if all(finding.holds for finding in findings):
        findings += same_again(verdict, decide_again(documents, evidence), name)
    digests = {**documents.digests, COUNTS: rows}
    statement = statement_of(verdict, digests, "")
    if (folder / ATTESTATION).exists() or TrustedKeys.here():
        findings += attested_in(folder, verdict, digests, name)[0]
    else:
        text = f"the verdict on {name} is not signed. {UNNOTICED}"
        findings.append(Finding("signature", holds=True, sentence=text, checked=False))
    findings += verify_passes([statement], any_outcome=True)
    said = annotations_of(statement)
    return findings + [
        finding for finding in pins.check([said] if said else []) if finding.what != "model"
    ]


def _shards(folder: Path, whole: Counted, name: str) -> Iterator[Finding]:
    """Add the counts of the shards again, if they are all there."""
    record = whole.record
    files = [folder / named(shard.sha256, record.key) for shard in record.shards]
    n_there = sum(path.is_file() for path in files)
    if n_there < len(files):
        text = (
            f"counts (*{ENDING}) of {len(files) - n_there} of {len(files)} shards of {name} are "
            "missing, so their sum is not checked."
        )
        yield Finding("evidence", holds=True, sentence=text, checked=False)
        return
    again = Counted.sum(map(read_counted, files))
    same = replace(again, record=record).to_bytes() == whole.to_bytes()
    same = same and again.record.shards == record.shards
    text = f"the counts on {name} are the sum of the counts of {len(files)} shards."
    yield Finding("evidence", holds=same, sentence=text)
