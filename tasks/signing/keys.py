"""Ed25519 keys: evaluations sign with the private key, other machines verify with the public key.

`BIASGATE_PRIVATE_KEY` has the path of a PEM file (PKCS8) or the PEM text itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import write_json

PRIVATE_KEY = "BIASGATE_PRIVATE_KEY"
SHORT_ID_LENGTH = 12
_PEM = "-----BEGIN "


@dataclass(frozen=True)
class PublicKey:
    """An Ed25519 public key."""

    raw: bytes
    """The 32 bytes of the key."""

    @classmethod
    def from_pem(cls, text: str, where: str) -> PublicKey:
        """Parse PEM text; `where` names its source in errors."""
        try:
            key = load_pem_public_key(text.encode())
        except ValueError:
            key = None
        if not isinstance(key, Ed25519PublicKey):
            msg = (
                f"{where} must be an Ed25519 public key in PEM format; it is not. "
                "`biasgate keys new` creates a key pair."
            )
            raise InputError(msg)
        return cls(key.public_bytes_raw())

    @property
    def key_id(self) -> str:
        """SHA-256 of the key, in hexadecimal."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def pem(self) -> str:
        """The key as PEM text."""
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def is_signature_valid(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key's private key made the signature of a message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """An Ed25519 private key."""

    key: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> PrivateKey:
        """Generate a new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_environment(cls) -> PrivateKey | None:
        """Read the key in `BIASGATE_PRIVATE_KEY`, a path or PEM text; None if it is not set.

        Errors never show the key.
        """
        setting = os.environ.get(PRIVATE_KEY)
        if not setting:
            return None
        text, where = setting, f"the PEM text in {PRIVATE_KEY}"
        if not setting.lstrip().startswith(_PEM):
            where = f"the file that {PRIVATE_KEY} names"
            try:
                text = Path(setting).expanduser().read_text("utf-8")
            except (OSError, ValueError, RuntimeError) as error:  # its value may be the key itself
                reason = getattr(error, "strerror", None) or type(error).__name__
                msg = (
                    f"{PRIVATE_KEY} must be the path of a private key or its PEM text, which "
                    f"starts with {_PEM}; as a path it cannot be read: {reason}."
                )
                raise InputError(msg) from None
        try:
            key = load_pem_private_key(text.encode(), password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            msg = (
                f"{where} must be an Ed25519 private key in PEM format, without password; it is "
                "not. `biasgate keys new` creates a key pair."
            )
            raise InputError(msg)
        return cls(key)

    @property
    def public(self) -> PublicKey:
        """The public key of this key pair."""
        return PublicKey(self.key.public_key().public_bytes_raw())

    @property
    def pem(self) -> str:
        """The key as PEM text. It is secret: never print or log it."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self.key.sign(message)


def get_timestamp() -> str:
    """Return the current UTC time in ISO format, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


TRUSTED_KEYS = "BIASGATE_TRUSTED_KEYS"
FILE = "trusted_keys.json"


@dataclass(frozen=True)
class TrustedKey:
    """A public key whose signatures are accepted."""

    public: PublicKey
    name: str
    """A label for messages."""
    trusted_since: str
    """The time when the key was added, in ISO format."""
    revoked_since: str | None = None
    """The time from which signatures are rejected. Earlier signatures count only if a key that is
    still trusted signed a later entry of the ledger."""
    reason: str | None = None
    """The reason for the revocation."""

    def to_dict(self) -> dict[str, str | None]:
        """Return plain values."""
        return {
            "key_id": self.public.key_id,
            "name": self.name,
            "public_key": self.public.pem,
            "trusted_since": self.trusted_since,
            "revoked_since": self.revoked_since,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class TrustedKeys:
    """The trusted and revoked keys of this machine."""

    keys: Mapping[str, TrustedKey]
    """The keys by id, including revoked keys."""

    def __bool__(self) -> bool:
        """Return whether signatures are checked: without any key they are not."""
        return bool(self.keys)

    @classmethod
    def from_file(cls, path: Path) -> TrustedKeys:
        """Read a file of trusted keys; a missing file has no keys.

        A file that cannot be parsed raises an error, so that it never turns the checks off.
        """
        try:
            records = json.loads(path.read_text("utf-8"))["keys"]
            keys = [
                TrustedKey(
                    PublicKey.from_pem(record["public_key"], f"{path}, key {record['name']!r},"),
                    str(record["name"]),
                    str(record["trusted_since"]),
                    record.get("revoked_since"),
                    record.get("reason"),
                )
                for record in records
            ]
        except FileNotFoundError:
            return cls({})
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            msg = (
                f"{path} must be a file that `biasgate keys trust` wrote; it cannot be read "
                f"({type(error).__name__}). Restore it, or remove it and trust the keys again."
            )
            raise InputError(msg) from None
        return cls({key.public.key_id: key for key in keys})

    @classmethod
    def load(cls) -> TrustedKeys:
        """Return the trusted keys of this machine, including its own public key."""
        path, own = get_trust_file(), PrivateKey.from_environment()
        if own is None and os.environ.get(TRUSTED_KEYS) and not path.exists():
            msg = (
                f"{TRUSTED_KEYS} must be a folder with {FILE}; {path} is missing, so signatures "
                "cannot be checked. Run `biasgate keys trust`, or unset the variable."
            )
            raise InputError(msg)
        keys = dict(cls.from_file(path).keys)
        if own is not None:
            own_key = TrustedKey(own.public, "of this machine", "")
            keys.setdefault(own.public.key_id, own_key)
        return cls(keys)

    def refuse_revoked(self, own: PrivateKey | None) -> None:
        """Raise an error if this machine's private key `own` is revoked here."""
        if own is not None and self.keys[own.public.key_id].revoked_since:
            msg = (
                f"the key in {PRIVATE_KEY} must be trusted; it is revoked: create a new key with "
                "`biasgate keys new`."
            )
            raise InputError(msg)

    def find_key(self, key: str) -> TrustedKey:
        """Return the only key that has the name `key`, or an id that starts with `key`."""
        matches = [
            trusted
            for key_id, trusted in self.keys.items()
            if key_id.startswith(key) or trusted.name == key
        ]
        if len(matches) != 1 or not key:
            known = ", ".join(
                f"{trusted.name} ({key_id[:SHORT_ID_LENGTH]})"
                for key_id, trusted in self.keys.items()
            )
            msg = (
                f"key {key!r} must be 1 trusted key; got {len(matches)} (known: {known or 'none'})."
            )
            raise InputError(msg)
        return matches[0]

    def add_key(self, key: TrustedKey) -> TrustedKeys:
        """Return the keys with `key` added; it replaces a key with the same id."""
        return TrustedKeys({**self.keys, key.public.key_id: key})

    def write(self, path: Path) -> None:
        """Write the keys to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"keys": [key.to_dict() for key in self.keys.values()]})


def get_trust_folder() -> Path:
    """Return the folder with the trusted keys and the remembered ledgers."""
    setting = os.environ.get(TRUSTED_KEYS)
    if setting:
        return Path(setting).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(home) / "biasgate"


def get_trust_file() -> Path:
    """Return the path of the file of trusted keys; the file may be missing."""
    return get_trust_folder() / FILE
