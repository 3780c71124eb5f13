"""Whether a verdict on counts holds: it is recomputed from them, without rows and registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.counting.settings import ENDING
from biasgate.tasks.counting.shards import FOLDER, named
from biasgate.tasks.evidence.counted import FILE, Counted, CountedEvidence, read_counted
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.signing.statement import annotations_of, statement_of
from biasgate.tasks.verifying.attestation import NO_PINS, Pins
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import Finding
from biasgate.tasks.verifying.verdict import (
    decide_again,
    same_again,
    same_digests,
    same_origin,
)


def verify_counted(folder: Path, pins: Pins = NO_PINS) -> list[Finding]:
    """Recompute the verdict in a folder of `biasgate count`, whatever it is.

    Nothing is signed: it shows that the verdict follows from the counts, and where all are there,
    that these are the sum of those of the shards.

    Raises
    ------
    InputError
        If a file is missing or is none that biasgate writes.
    """
    if not (folder / FILE).exists():
        msg = f"{folder} must be a folder of `biasgate count`; it has no {FILE}."
        raise InputError(msg)
    documents = Documents.of(folder, "counts", FILE)
    evidence = CountedEvidence(folder / FILE)
    name = documents.verdict.evaluation_set.name
    rows = evidence.digest
    findings = list(same_digests(documents, name, rows))
    findings += same_origin(documents.verdict, documents.report, evidence, None, name)
    findings += _shards(folder / FOLDER, evidence.counted, name)
    if all(one.holds for one in findings):
        verdict = documents.verdict
        findings += same_again(verdict, decide_again(documents, evidence, verdict.decided_on), name)
        text = f"pages and tables in {folder.name} are as somebody wrote them: not compared."
        findings.append(Finding("files", holds=True, sentence=text))
    said = annotations_of(
        statement_of(documents.verdict, {**documents.digests, EVIDENCE: rows}, "")
    )
    return findings + [one for one in pins.check([said] if said else []) if one.what != "model"]


def _shards(folder: Path, whole: Counted, name: str) -> Iterator[Finding]:
    """Add the counts of the shards again, if they are all there."""
    record = whole.record
    files = [folder / named(one.name, one.sha256, record.key) for one in record.shards]
    n_there = sum(path.is_file() for path in files)
    if record.clusters is not None:
        text = (
            f"what clusters do to the bounds on {name} is as it was written: their rows are not "
            "here to compute it again."
        )
        yield Finding("evidence", holds=True, sentence=text)
    if n_there < len(files):
        text = (
            f"counts (*{ENDING}) of {len(files) - n_there} of {len(files)} shards of {name} are "
            "not there, so they are not added again."
        )
        yield Finding("evidence", holds=True, sentence=text)
        return
    again = Counted.sum(map(read_counted, files))
    same = replace(again, record=record).to_bytes() == whole.to_bytes()
    same = same and again.record.shards == record.shards
    text = f"the counts on {name} are the sum of those of {len(files)} shards."
    yield Finding("evidence", holds=same, sentence=text)
