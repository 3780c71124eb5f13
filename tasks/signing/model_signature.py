"""OpenSSF model signatures of a model's files, made and verified by the library model-signing."""

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

from biasgate.tasks.common.errors import InputError, to_install
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.printable import printable
from biasgate.tasks.common.untrusted import read_bytes, read_json
from biasgate.tasks.records import FileRecord
from biasgate.tasks.signing.manifest import Manifest, first_few

MODEL_KEY = "BIASGATE_MODEL_KEY"
SIGNATURE = "model.sig"
_CURVES = ("secp256r1", "secp384r1", "secp521r1")
_MOST_KEY_BYTES = 65_536
_LONGEST_REASON = 500
_NEVER_SIGNED = frozenset({".gitattributes", ".gitignore"})  # model-signing leaves them out


def _require_library() -> None:
    if find_spec("model_signing") is None:
        msg = f"OpenSSF model signatures need the library model-signing: {to_install('oms')}."
        raise InputError(msg)


def write_model_signature(folder: Path, file: Path, leaving_out: Collection[str] = ()) -> None:
    """Sign a model's files with the key that `BIASGATE_MODEL_KEY` names.

    The standard asks for an elliptic curve: biasgate's own key is of another kind.
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
    hashed = hashing.Config().set_ignored_paths(paths=[folder / one for one in leaving_out])
    with whole_file(file) as temporary:
        config.set_hashing_config(hashed).sign(folder, temporary)


def read_model_key(path: Path) -> str:
    """Return the SHA-256 of a public key's PEM text, by which signatures name their key."""
    _require_library()
    try:
        found = load_pem_public_key(read_bytes(path, "`signed_by`", _MOST_KEY_BYTES))
    except (FileNotFoundError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        found = None
    if not isinstance(found, ec.EllipticCurvePublicKey) or found.curve.name not in _CURVES:
        msg = (
            "`signed_by` must be a public key in PEM format, on one of the curves "
            f"{', '.join(_CURVES)}; {path} is not."
        )
        raise InputError(msg)
    pem = found.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(pem).hexdigest()


def require_model_signature(
    files: Path, manifest: Manifest, key: Path, signature: Path | None, of: str
) -> str:
    """Refuse files that are not exactly the files that the owner of a key signed.

    The signature is compared with the digests of the manifest, so a verdict binds what was signed,
    and no file is read again. A statement cannot exempt files from the comparison.

    `files`: the folder, or the file, that the manifest is of. `key`: the public key. `signature`:
    by default the file `model.sig` in the folder. `of`: the model, for the error.

    Returns the SHA-256 of the key, as `read_model_key` does.
    """
    digest = read_model_key(key)
    from model_signing import hashing, verifying  # noqa: PLC0415 - an extra, and slow
    from model_signing import manifest as listing  # noqa: PLC0415
    from model_signing._hashing.hashing import Digest  # noqa: PLC0415

    place = signature or (files / SIGNATURE if files.is_dir() else files.with_name(SIGNATURE))
    rule = f"{of} must be signed with the key in {key}"
    own = {place.relative_to(files).as_posix()} if place.is_relative_to(files) else set()
    found = Manifest(tuple(file for file in manifest.files if file.path not in own | _NEVER_SIGNED))
    only = {} if files.is_dir() else {".": files.name}  # the standard's name for a single file

    class Found(listing.Manifest):
        """The known digests; unlike the library, the comparison names each file that differs."""

        def __eq__(self, signed: object) -> bool:
            listed = signed.resource_descriptors() if isinstance(signed, listing.Manifest) else ()
            records = [
                FileRecord(
                    path=only.get(one.identifier, one.identifier),
                    size=0,
                    sha256=one.digest.digest_hex,
                )
                for one in listed
            ]
            if differ := Manifest(tuple(records)).differences(found):
                msg = (
                    f"{rule}; its files differ from the signed files: {first_few(differ)} "
                    f"(signature {place})."
                )
                raise InputError(msg)
            return bool(super().__eq__(signed))

        __hash__ = None  # type: ignore[assignment]

    class Hashed(hashing.Config):
        """The known digests, in place of those of the files on disk."""

        def hash(self, model_path: object, *, files_to_hash: object = None) -> listing.Manifest:
            del model_path, files_to_hash
            method = {"method": "files", "hash_type": "sha256", "allow_symlinks": False}
            kind = listing.SerializationType.from_args(method)
            items = [
                kind.new_item(
                    file.path if files.is_dir() else ".",
                    Digest("sha256", bytes.fromhex(file.sha256)),
                )
                for file in found.files
            ]
            return Found(files.name, items, kind)

    try:
        read_json(place, f"signature {place}")  # a regular file, not too large
        config = verifying.Config().use_elliptic_key_verifier(public_key=key)
        config.set_hashing_config(Hashed()).verify(files, place)
    except FileNotFoundError:
        msg = f"{rule}; signature {place} does not exist. Set `signature` to its file."
        raise InputError(msg) from None
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library raises for a foreign file
        reason = printable(str(error) or type(error).__name__)[:_LONGEST_REASON]
        msg = f"{rule}; model-signing does not accept signature {place}: {reason}"
        raise InputError(msg) from None
    return digest
