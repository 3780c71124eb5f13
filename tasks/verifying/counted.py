"""Verification of the verdict in a folder of counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.counting.settings import ENDING
from biasgate.tasks.counting.shards import FOLDER, name_count_file
from biasgate.tasks.evidence.counted import FILE as COUNTS
from biasgate.tasks.evidence.counted import Counted, CountedEvidence, read_counted
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import build_statement, read_annotations
from biasgate.tasks.verifying.attestation import NO_PINS, Pins, verify_passes
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import UNDETECTED, Finding, describe_error
from biasgate.tasks.verifying.published import check_folder_attestation
from biasgate.tasks.verifying.verdict import (
    compare_digests,
    compare_origins,
    compare_verdicts,
    recompute_verdict,
)


def verify_counts(folder: Path, pins: Pins = NO_PINS) -> list[Finding]:
    """Recompute the verdict in a folder of counts, and return the findings.

    The findings show that the verdict follows from the counts. If the counts of all shards exist,
    they also show that the counts are their sum. If this machine trusts keys, a trusted key must
    have signed the verdict. An unreadable file is a finding, not an error.
    """
    if not (folder / COUNTS).exists():
        msg = f"{folder} must be a folder of counts; it has no {COUNTS}."
        raise InputError(msg)
    try:
        return _check_counts(folder, pins)
    except Exception as error:  # noqa: BLE001 - counts of others may make any library fail
        text = f"the counts cannot be verified: {describe_error(error)}"
        return [Finding("evidence", holds=False, sentence=text)]


def _check_counts(folder: Path, pins: Pins) -> list[Finding]:
    documents = Documents.from_folder(folder, "counts", COUNTS)
    evidence = CountedEvidence(folder / COUNTS)
    verdict, rows = documents.verdict, evidence.digest
    name = verdict.evaluation_set.name
    findings = list(compare_digests(documents, name, rows))
    findings += compare_origins(verdict, documents.report, evidence, None, name)
    findings += _check_shards(folder / FOLDER, evidence.counted, name)
    if all(finding.holds for finding in findings):
        findings += compare_verdicts(verdict, recompute_verdict(documents, evidence), name)
    digests = {**documents.digests, COUNTS: rows}
    statement = build_statement(verdict, digests, "")
    if (folder / ATTESTATION).exists() or TrustedKeys.load():
        findings += check_folder_attestation(folder, verdict, digests, name)[0]
    else:
        text = f"the verdict on {name} is not signed. {UNDETECTED}"
        findings.append(Finding("signature", holds=True, sentence=text, checked=False))
    findings += verify_passes([statement], any_outcome=True)
    annotations = read_annotations(statement)
    return findings + [
        finding
        for finding in pins.check_annotations([annotations] if annotations else [])
        if finding.what != "model"
    ]


def _check_shards(folder: Path, counts: Counted, name: str) -> Iterator[Finding]:
    """Compare the counts with the sum over the shards, if no shard's counts are missing."""
    record = counts.record
    files = [folder / name_count_file(shard.sha256, record.key) for shard in record.shards]
    n_present = sum(path.is_file() for path in files)
    if n_present < len(files):
        text = (
            f"counts (*{ENDING}) of {len(files) - n_present} of {len(files)} shards of {name} are "
            "missing, so their sum is not checked."
        )
        yield Finding("evidence", holds=True, sentence=text, checked=False)
        return
    total = Counted.sum(map(read_counted, files))
    is_same = replace(total, record=record).to_bytes() == counts.to_bytes()
    is_same = is_same and total.record.shards == record.shards
    text = f"the counts on {name} are the sum of the counts of {len(files)} shards."
    yield Finding("evidence", holds=is_same, sentence=text)
