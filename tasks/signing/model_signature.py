"""OpenSSF model signatures: of a model's files, for tools and from vendors without biasgate.

One is a Sigstore bundle: a DSSE envelope around an in-toto statement that lists the files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from biasgate.tasks.common.errors import InputError, to_install
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.untrusted import check, parse_json, read_bytes, read_json
from biasgate.tasks.records import FileRecord
from biasgate.tasks.signing.envelope import Envelope, pae
from biasgate.tasks.signing.manifest import Manifest, first_few

MODEL_KEY = "BIASGATE_MODEL_KEY"
SIGNATURE = "model.sig"
_PREDICATE = "https://model_signing/signature/v1.0"
_PAYLOAD = "application/vnd.in-toto+json"
_CURVES: Mapping[str, hashes.HashAlgorithm] = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}
_MOST_KEY_BYTES = 65_536
_NEVER_SIGNED = frozenset({".gitattributes", ".gitignore"})  # the standard's tool leaves them out


@dataclass(frozen=True)
class _Bundle:
    verificationMaterial: dict[str, Any]  # noqa: N815 - of the standard
    dsseEnvelope: dict[str, Any]  # noqa: N815 - of the standard


@dataclass(frozen=True)
class _Resource:
    name: str
    algorithm: str
    digest: str


@dataclass(frozen=True)
class _Serialization:
    method: str


@dataclass(frozen=True)
class _Predicate:
    serialization: _Serialization
    resources: list[_Resource]


@dataclass(frozen=True)
class _Statement:
    predicateType: str  # noqa: N815 - of the standard
    predicate: _Predicate


def write_model_signature(folder: Path, file: Path, leaving_out: Collection[str] = ()) -> None:
    """Sign a model's files with the key that `BIASGATE_MODEL_KEY` names.

    The key is of an elliptic curve, as the standard asks: biasgate's own is of another kind.

    Raises
    ------
    InputError
        If the library is missing, or the variable does not name such a key.
    """
    key = os.environ.get(MODEL_KEY, "")
    if not Path(key).expanduser().is_file():
        msg = (
            f"{MODEL_KEY} must name the PEM file of a private key on an elliptic curve; "
            f"{'it names none' if key else 'it is not set'}. This makes one: "
            "openssl ecparam -name prime256v1 -genkey -noout -out model_key.pem"
        )
        raise InputError(msg)
    try:
        from model_signing import hashing, signing  # noqa: PLC0415
    except ImportError as error:
        msg = f"an OpenSSF model signature needs the library model-signing: {to_install('oms')}."
        raise InputError(msg) from error
    try:
        found = load_pem_private_key(Path(key).expanduser().read_bytes(), password=None)
    except (ValueError, TypeError):  # its text may quote the key
        found = None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        msg = f"{MODEL_KEY} must name a private key on an elliptic curve in PEM, unencrypted."
        raise InputError(msg)
    with whole_file(file) as temporary:
        config = signing.Config().use_elliptic_key_signer(private_key=Path(key).expanduser())
        hashed = hashing.Config().set_ignored_paths(paths=[folder / one for one in leaving_out])
        config.set_hashing_config(hashed).sign(folder, temporary)


def read_model_key(path: Path) -> ec.EllipticCurvePublicKey:
    """Read the public key of whoever signs models.

    Raises
    ------
    InputError
        If it is no public key on a curve of the standard.
    """
    try:
        found = load_pem_public_key(read_bytes(path, "`signed_by`", _MOST_KEY_BYTES))
    except (FileNotFoundError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        found = None
    if not isinstance(found, ec.EllipticCurvePublicKey) or found.curve.name not in _CURVES:
        msg = (
            "`signed_by` must be a public key in PEM format, on one of the curves "
            f"{', '.join(_CURVES)}; {path} is none."
        )
        raise InputError(msg)
    return found


def require_model_signature(
    files: Path, manifest: Manifest, key: Path, signature: Path | None, of: str
) -> str:
    """Refuse files that are not exactly those which the owner of a key signed.

    The digests in the statement are compared with those of the manifest, so that files are not
    read again: what a verdict binds is what was signed. Which files the statement says to ignore
    does not count.

    Parameters
    ----------
    files : Path
        The folder, or the file, that the manifest is of.
    key : Path
        The public key, as `read_model_key` reads it.
    signature : Path, optional
        The signature. Default: the file `model.sig` in the folder.
    of : str
        What it is, for the error.

    Returns
    -------
    str
        SHA-256 of the key's PEM text, as signatures name their key.

    Raises
    ------
    InputError
        If there is no signature, it is not by this key, or a file differs, lacks or was added.
    """
    place = signature or (files / SIGNATURE if files.is_dir() else files.with_name(SIGNATURE))
    rule = f"{of} must be signed with the key in {key}"
    own = {place.relative_to(files).as_posix()} if place.is_relative_to(files) else set()
    found = Manifest(tuple(file for file in manifest.files if file.path not in own | _NEVER_SIGNED))
    public = read_model_key(key)
    try:
        signed = _signed_files(place, public, rule, only=files.name)
    except FileNotFoundError:
        msg = f"{rule}; there is no signature at {place}. Name its file by `signature`."
        raise InputError(msg) from None
    differ = signed.differences(found)
    if differ:
        msg = f"{rule}; its files are not those that were: {first_few(differ)} (signature {place})."
        raise InputError(msg)
    return hashlib.sha256(
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    ).hexdigest()


def _signed_files(place: Path, key: ec.EllipticCurvePublicKey, rule: str, only: str) -> Manifest:
    """Return the files that a signature lists; `only` is the one that it calls `.`."""
    where = f"signature {place}"
    bundle = check(read_json(place, where), _Bundle, where, rule="a Sigstore bundle", exact=False)
    envelope = Envelope.of_dict(bundle.dsseEnvelope, where)
    message = pae(envelope.payload_type, envelope.payload)
    if not any(_verifies(key, signature.value, message) for signature in envelope.signatures):
        is_by_key = "publicKey" in bundle.verificationMaterial
        by = "another key" if is_by_key else "a certificate, not a key,"
        msg = f"{rule}; {place} was made by {by} or was changed."
        raise InputError(msg)
    content = parse_json(envelope.payload, where)
    statement = check(content, _Statement, where, rule="an OpenSSF model signature", exact=False)
    predicate = statement.predicate
    if (envelope.payload_type, statement.predicateType) != (_PAYLOAD, _PREDICATE):
        msg = f"{where} must be an OpenSSF model signature, version 1.0; it is not."
        raise InputError(msg)
    method, listed = predicate.serialization.method, predicate.resources
    if method != "files" or any(resource.algorithm != "sha256" for resource in listed):
        msg = f"{where} must list the SHA-256 of each whole file; it lists others. Sign again."
        raise InputError(msg)
    names = (only if resource.name == "." else resource.name for resource in listed)
    records = zip(names, (resource.digest for resource in listed), strict=True)
    return Manifest.of_records([FileRecord(path=p, size=0, sha256=d) for p, d in records])


def _verifies(key: ec.EllipticCurvePublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message, ec.ECDSA(_CURVES[key.curve.name]))
    except InvalidSignature:
        return False
    return True
