"""An audit bundle: one signed zip from which a verdict can be recomputed without registry.

Of each candidate on each set it holds the verdict, its policy, the report, the page, what is
attested, and the evidence without ids and names of clusters; no text of a comment. The first file,
`bundle.json`, lists all others with their SHA-256 in a DSSE envelope. What is read of a bundle is
bounded, since anybody may have made it.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from biasgate.tasks.common.code import code_digest
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.untrusted import check, parse_json
from biasgate.tasks.evidence.counted import FILE as COUNTS
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.evidence.file import RECORD
from biasgate.tasks.records.record import Record
from biasgate.tasks.reporting.results import (
    PAGE,
    REPORT,
    VERDICT,
    Published,
    Results,
)
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import PRIVATE_KEY, PrivateKey, TrustedKeys, now
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import (
    Annotations,
)
from biasgate.tasks.verifying.attestation import NO_PINS, Pins
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import Finding, described
from biasgate.tasks.verifying.published import (
    BundledVerdict,
    as_named,
    attested,
    recomputed,
    verified,
)

MANIFEST = "bundle.json"
PAYLOAD_TYPE = "application/vnd.biasgate.bundle+json"
POLICY = "policy.json"
_DOCUMENTS = (VERDICT, POLICY, REPORT, ATTESTATION, PAGE)
_PART = r"[A-Za-z0-9][A-Za-z0-9_. -]{0,99}"
_NAME = re.compile(rf"{_PART}/{_PART}/({'|'.join(map(re.escape, (*_DOCUMENTS, EVIDENCE)))})")
_MOST_MEMBERS = 5000
_MOST_DOCUMENT, _MOST_EVIDENCE, _MOST_BYTES = 64 * 2**20, 2 * 2**30, 4 * 2**30
_MOST_TIMES = 1000  # a page of one letter is packed to less than a thousandth
_MIB = 2**20
_END = 22  # bytes of the last record of a zip without comment
_BLOCK = 1 << 20
# What reading a damaged zip raises; a NotImplementedError is a RuntimeError.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    RuntimeError,
    OSError,
    ValueError,
    EOFError,
)


@dataclass(frozen=True, kw_only=True)
class BundledFile(Record):
    """A file of a bundle."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest(Record):
    """What is signed: every file of a bundle, and how rows were stripped."""

    schema_version: int
    created: str
    biasgate: str
    bias_metrics: str
    files: list[BundledFile]
    verdicts: list[BundledVerdict]


def write_bundle(results: Results, file: Path, *, with_rows: bool = True) -> Manifest:
    """Write a bundle of the results of an evaluation, signed with the key of this machine.

    Parameters
    ----------
    with_rows : bool, default=True
        Whether evidence is part of it, without ids: label, score, identities and slices of each
        row. Without, verdicts cannot be recomputed, only compared with what was signed.

    Raises
    ------
    InputError
        If there is no key, or a verdict does not hold: its documents are not those that it names
        and that were attested, or its rows give another one.
    """
    key = _key_for(results)
    contents: dict[str, bytes] = {}
    verdicts = []
    for published in results.each:
        folder = "/".join(published.names)
        for name in _DOCUMENTS:
            path = published.folder / name
            if path.is_file():
                contents[f"{folder}/{name}"] = path.read_bytes()
            else:
                msg = f"{path} must be there: it is part of a bundle. It is not."
                raise InputError(msg)
        _refuse_unfounded(published)
        rows = _stripped(published) if with_rows else None
        if rows is not None:
            contents[f"{folder}/{EVIDENCE}"] = rows
        verdicts.append(
            BundledVerdict(
                folder=folder,
                evidence=published.verdict.evidence_digest,
                rows=None if rows is None else hashlib.sha256(rows).hexdigest(),
            )
        )
    for name, held in contents.items():
        if len(held) > _most(name):
            msg = (
                f"{name} must have at most {_most(name) // _MIB:,} MiB in a bundle; it has "
                f"{len(held) // _MIB:,}. Evidence is left out by `--without-rows`."
            )
            raise InputError(msg)
    manifest = Manifest(
        schema_version=1,
        created=now(),
        biasgate=version("biasgate"),
        bias_metrics=code_digest(),
        files=[
            BundledFile(name=name, size=len(held), sha256=hashlib.sha256(held).hexdigest())
            for name, held in contents.items()
        ],
        verdicts=verdicts,
    )
    payload = json.dumps(manifest.to_dict(), sort_keys=True, separators=(",", ":")).encode()
    envelope = Envelope.sign(payload, PAYLOAD_TYPE, key).record().to_dict()
    with whole_file(file) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        _add(archive, MANIFEST, json.dumps(envelope).encode())
        for name, held in contents.items():
            _add(archive, name, held)
    return manifest


def _key_for(results: Results) -> PrivateKey:
    """Return the key that signs; refuse what rests on counts, which is never signed."""
    for published in results.each:
        if (published.folder / COUNTS).exists():
            msg = (
                f"{published.folder} must have rows to be bundled; what rests on counts is not "
                "signed."
            )
            raise InputError(msg)
    key = PrivateKey.here()
    if key is None:
        msg = f"a bundle must be signed: set {PRIVATE_KEY}; `biasgate keys new` writes a key."
        raise InputError(msg)
    return key


def _refuse_unfounded(published: Published) -> None:
    """Refuse to sign a verdict that no verification would find to hold."""
    evidence, name = published.evidence, "/".join(published.names)
    if evidence is None:
        msg = f"{published.folder / EVIDENCE} must be the evidence of its verdict; it is not there."
        raise InputError(msg)
    try:
        documents = Documents.of(published.folder, name)
        rows = evidence.digest
        bundled = BundledVerdict(folder=name, evidence=rows, rows=rows)
        findings = [
            *as_named(documents, bundled),
            *attested(published.folder, documents, bundled, vouched=True),
        ]
        if all(finding.holds for finding in findings):
            findings += recomputed(published.folder, documents, name, signing=True)
    except (InputError, ValueError, RuntimeError) as error:
        msg = (
            f"the verdict in {published.folder} must hold to be signed; it does not: "
            f"{described(error)}"
        )
        raise InputError(msg) from error
    wrong = next((finding.sentence for finding in findings if not finding.holds), None)
    if wrong is not None:
        msg = f"the verdict in {published.folder} must hold to be signed; this does not: {wrong}"
        raise InputError(msg)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add a file with a fixed time, so that the same results give the same bytes."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o100644 << 16
    kind = zipfile.ZIP_STORED if name.endswith(EVIDENCE) else zipfile.ZIP_DEFLATED
    archive.writestr(info, content, compress_type=kind)


def _stripped(published: Published) -> bytes:
    """Return the evidence of a verdict without ids; clusters are numbers."""
    evidence = published.evidence
    assert evidence is not None  # noqa: S101 - it was verified
    table = pq.read_table(evidence.path)
    known = table.schema.metadata
    columns = {}
    for name in table.column_names:
        column = table[name]
        if name == "id":
            column = pa.nulls(table.num_rows, pa.string()).fill_null("")
        elif name == "cluster":
            _, codes = np.unique(column.to_numpy(), return_inverse=True)
            column = pa.array(codes.astype(np.int64))
        columns[name] = column
    stream = io.BytesIO()
    stripped = pa.table(columns).replace_schema_metadata({RECORD: known[RECORD]})
    pq.write_table(stripped, stream)
    return stream.getvalue()


# ---- Verification


def verify_bundle(file: Path, pins: Pins = NO_PINS) -> list[Finding]:
    """Check a bundle with the public keys that are trusted here, and nothing else.

    Parameters
    ----------
    pins : Pins, optional
        The policy and sets that it must be of. Default: any.

    Returns
    -------
    list of Finding
        Whether the signature holds, each file is the signed one, and each verdict follows from its
        rows. All may hold for a candidate that was blocked.

    Raises
    ------
    InputError
        If it is no bundle, or larger than any real one.
    """
    with _opened(file) as archive:
        manifest, signature = _manifest(archive, file)
        findings = [signature]
        if not signature.holds:
            return findings
        members = _members(archive, manifest)
        findings.append(members)
        if not members.holds:
            return findings
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            files = _extract(archive, manifest, folder)
            findings.append(files)
            if not files.holds:
                return findings
            said: list[Annotations] = []
            for verdict in manifest.verdicts:
                of_set = folder.joinpath(*verdict.folder.split("/"))
                found, annotations = verified(of_set, verdict, vouched=True)
                findings += found
                said += annotations
            # The model is whatever the verdicts name: a bundle has no registry.
            findings += [pinned for pinned in pins.check(said) if pinned.what != "model"]
    return findings


def _opened(file: Path) -> zipfile.ZipFile:
    try:
        if file.stat().st_size > _MOST_BYTES:
            msg = f"{file} must have at most {_MOST_BYTES // _MIB:,} MiB; it has more."
            raise InputError(msg)
        archive = zipfile.ZipFile(file)
    except FileNotFoundError as error:
        msg = f"{file} must be a bundle that `biasgate bundle` wrote; there is no such file."
        raise InputError(msg) from error
    except _DAMAGED as error:
        msg = f"{file} must be a zip file that `biasgate bundle` wrote; it is not."
        raise InputError(msg) from error
    with file.open("rb") as stream:
        starts = stream.read(4) == b"PK\x03\x04"
        stream.seek(-_END, 2)
        ends = stream.read(4) == b"PK\x05\x06"
    infos = archive.infolist()
    if not starts or not ends or archive.comment or not 0 < len(infos) <= _MOST_MEMBERS:
        archive.close()
        msg = (
            f"{file} must be a plain zip of at most {_MOST_MEMBERS:,} files, with nothing before "
            "or after them; it is not."
        )
        raise InputError(msg)
    return archive


def _manifest(archive: zipfile.ZipFile, file: Path) -> tuple[Manifest, Finding]:
    first = archive.infolist()[0]
    if first.filename != MANIFEST:
        msg = f"{file} must begin with {MANIFEST}; it does not."
        raise InputError(msg)
    where = f"{MANIFEST} of {file.name}"
    envelope = Envelope.of_dict(parse_json(_read(archive, first, _MOST_DOCUMENT), where), where)
    if envelope.payload_type != PAYLOAD_TYPE:
        msg = f"{where} must be the list of a bundle; it is something else."
        raise InputError(msg)
    signed = envelope.signed(TrustedKeys.here())
    manifest = check(parse_json(envelope.payload, where), Manifest, where)
    text = f"the bundle of {manifest.created} is {signed.words}."
    return manifest, Finding("signature", holds=signed.standing == "trusted", sentence=text)


def _members(archive: zipfile.ZipFile, manifest: Manifest) -> Finding:
    """Check, unread, that the files are those of the list: plain ones, each once, no others."""
    infos = archive.infolist()[1:]
    listed = {file.name: file for file in manifest.files}
    wrong = []
    for info in infos:
        known = listed.get(info.filename)
        if known is None or not _NAME.fullmatch(info.filename):
            wrong.append(f"{info.filename[:100]!r} is not in the list")
        elif info.file_size != known.size or info.flag_bits & 1 or not _is_plain(info):
            wrong.append(f"{info.filename[:100]!r} is not as the list has it")
    names = [info.filename for info in infos]
    if len(set(names)) < len(names) or len(listed) < len(manifest.files):
        wrong.append("a file is there twice")
    wrong += [f"{name[:100]!r} is missing" for name in listed if name not in names]
    folders = {verdict.folder for verdict in manifest.verdicts}
    if {name.rpartition("/")[0] for name in listed} - folders:
        wrong.append("a folder has no verdict")
    if sum(file.size for file in manifest.files) > _MOST_BYTES:
        wrong.append("it is larger than any real bundle")
    text = f"the bundle has the {len(listed):,} files that were signed, and no others."
    told = f" But {', '.join(wrong[:3])}." if wrong else ""
    return Finding("files", holds=not wrong, sentence=text + told)


def _is_plain(info: zipfile.ZipInfo) -> bool:
    mode = info.external_attr >> 16
    return (not mode or stat.S_ISREG(mode)) and not info.is_dir()


def _extract(archive: zipfile.ZipFile, manifest: Manifest, folder: Path) -> Finding:
    """Write the listed files into a new folder, each only if it has its digest."""
    text = "each file has the digest that was signed."
    for file in manifest.files:
        try:
            content = _read(archive, archive.getinfo(file.name), _most(file.name))
        except InputError as error:
            told = f"{text} But {file.name}: {described(error)}"
            return Finding("files", holds=False, sentence=told)
        if hashlib.sha256(content).hexdigest() != file.sha256:
            return Finding("files", holds=False, sentence=f"{text} Not that of {file.name}.")
        place = folder.joinpath(*file.name.split("/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return Finding("files", holds=True, sentence=text)


def _most(name: str) -> int:
    """Return how many bytes a file of a bundle may have."""
    return _MOST_EVIDENCE if name.endswith(EVIDENCE) else _MOST_DOCUMENT


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    """Read a file of an archive, no more of it than its header says, and bounded."""
    most = min(most, max(_MOST_TIMES * info.compress_size, _MIB))
    if info.file_size > most:
        msg = f"{info.filename[:100]} must have at most {most:,} bytes; it has more."
        raise InputError(msg)
    found = bytearray()
    try:
        with archive.open(info) as stream:
            while len(found) <= info.file_size and (block := stream.read(_BLOCK)):
                found += block
    except _DAMAGED as error:
        msg = f"{info.filename[:100]!r} must be whole; it is damaged ({type(error).__name__})."
        raise InputError(msg) from None
    if len(found) != info.file_size:
        msg = f"{info.filename[:100]!r} must have the size that it says; it has another."
        raise InputError(msg)
    return bytes(found)
