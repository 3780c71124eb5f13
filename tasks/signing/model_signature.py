"""OpenSSF model signatures, which the library model-signing creates and verifies."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from biasgate.tasks.common.errors import InputError, format_install_hint
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.untrusted import read_bytes, read_json
from biasgate.tasks.records import FileRecord
from biasgate.tasks.signing.manifest import Manifest, join_differences

MODEL_KEY = "BIASGATE_MODEL_KEY"
SIGNATURE = "model.sig"
_CURVES = ("secp256r1", "secp384r1", "secp521r1")
_MAX_KEY_BYTES = 65_536
_MAX_REASON_LENGTH = 500
_IGNORED_FILES = frozenset({".gitattributes", ".gitignore"})  # model-signing leaves them out


def _require_library() -> None:
    if find_spec("model_signing") is None:
        msg = (
            "OpenSSF model signatures need the library model-signing: "
            f"{format_install_hint('oms')}."
        )
        raise InputError(msg)


def write_model_signature(folder: Path, file: Path, leaving_out: Collection[str] = ()) -> None:
    """Sign a model's files with the private key file in `BIASGATE_MODEL_KEY`.

    The signature needs a key on a NIST curve; the Ed25519 key of verdicts cannot be used.
    `file`: the signature to write. `leaving_out`: files of the folder that are not signed.
    """
    key = os.environ.get(MODEL_KEY, "")
    if not Path(key).expanduser().is_file():
        msg = (
            f"{MODEL_KEY} must name the PEM file of a private key on an elliptic curve; "
            f"{'it does not' if key else 'it is not set'}. To create a key: "
            "openssl ecparam -name prime256v1 -genkey -noout -out model_key.pem"
        )
        raise InputError(msg)
    _require_library()
    from model_signing import hashing, signing  # noqa: PLC0415 - an extra, and slow

    try:
        config = signing.Config().use_elliptic_key_signer(private_key=Path(key).expanduser())
    except (ValueError, TypeError, AttributeError):  # the error may quote the key
        msg = f"{MODEL_KEY} must name a private key on an elliptic curve in PEM, unencrypted."
        raise InputError(msg) from None
    hashed = hashing.Config().set_ignored_paths(paths=[folder / name for name in leaving_out])
    with whole_file(file) as temporary:
        config.set_hashing_config(hashed).sign(folder, temporary)


def read_model_key(path: Path) -> str:
    """Return the SHA-256 of a public key's PEM text, which identifies the key in signatures."""
    _require_library()
    try:
        key = load_pem_public_key(read_bytes(path, "`signed_by`", _MAX_KEY_BYTES))
    except (FileNotFoundError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _CURVES:
        msg = (
            "`signed_by` must be a public key in PEM format, on one of the curves "
            f"{', '.join(_CURVES)}; {path} is not."
        )
        raise InputError(msg)
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(pem).hexdigest()


def require_model_signature(
    files: Path, manifest: Manifest, key: Path, signature: Path | None, subject: str
) -> str:
    """Raise an error unless the key's owner signed exactly the files of a manifest.

    Not compared are the signature itself and the files that model-signing ignores.

    The signature is compared with the manifest's digests. So the verdict records the digests
    of the signed files, and the files are not read again. The signed statement cannot exempt files
    from the comparison.

    `files`: the folder or file of the manifest. `key`: the public key. `signature`: the signature.
    Default: the file `model.sig` in the folder. `subject`: the model's name in errors.

    Returns the SHA-256 of the key, as `read_model_key` does.
    """
    digest = read_model_key(key)
    from model_signing import hashing, verifying  # noqa: PLC0415 - an extra, and slow
    from model_signing import manifest as listing  # noqa: PLC0415
    from model_signing._hashing.hashing import Digest  # noqa: PLC0415

    path = signature or (files / SIGNATURE if files.is_dir() else files.with_name(SIGNATURE))
    rule = f"{subject} must be signed with the key in {key}"
    skipped = {path.relative_to(files).as_posix()} if path.is_relative_to(files) else set()
    compared = Manifest(
        tuple(file for file in manifest.files if file.path not in skipped | _IGNORED_FILES)
    )
    names = {} if files.is_dir() else {".": files.name}  # the standard's name for a single file

    class Found(listing.Manifest):
        """The manifest's digests, compared so that the error names the files that differ."""

        def __eq__(self, signed: object) -> bool:
            listed = signed.resource_descriptors() if isinstance(signed, listing.Manifest) else ()
            records = [
                FileRecord(
                    path=names.get(descriptor.identifier, descriptor.identifier),
                    size=0,
                    sha256=descriptor.digest.digest_hex,
                )
                for descriptor in listed
            ]
            if differences := Manifest(tuple(records)).list_differences(compared):
                msg = (
                    f"{rule}; its files differ from the signed files: "
                    f"{join_differences(differences)} (signature {path})."
                )
                raise InputError(msg)
            return bool(super().__eq__(signed))

        __hash__ = None  # type: ignore[assignment]

    class Hashed(hashing.Config):
        """A configuration that takes digests from the manifest instead of hashing the files."""

        def hash(self, model_path: object, *, files_to_hash: object = None) -> listing.Manifest:
            del model_path, files_to_hash
            method = {"method": "files", "hash_type": "sha256", "allow_symlinks": False}
            kind = listing.SerializationType.from_args(method)
            items = [
                kind.new_item(
                    file.path if files.is_dir() else ".",
                    Digest("sha256", bytes.fromhex(file.sha256)),
                )
                for file in compared.files
            ]
            return Found(files.name, items, kind)

    try:
        read_json(path, f"signature {path}")  # a regular file, not too large
        config = verifying.Config().use_elliptic_key_verifier(public_key=key)
        config.set_hashing_config(Hashed()).verify(files, path)
    except FileNotFoundError:
        msg = f"{rule}; signature {path} does not exist. Set `signature` to its file."
        raise InputError(msg) from None
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library raises for a foreign file
        reason = escape_invisible(str(error) or type(error).__name__)[:_MAX_REASON_LENGTH]
        msg = f"{rule}; model-signing does not accept signature {path}: {reason}"
        raise InputError(msg) from None
    return digest
