"""Ed25519 keys: the private key signs where evaluations run, its public half verifies elsewhere.

The private key is a PEM file (PKCS8), named by `BIASGATE_PRIVATE_KEY`, or the PEM text itself in
that variable.
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
SHORT = 12
_PEM = "-----BEGIN "


@dataclass(frozen=True)
class PublicKey:
    """A public key."""

    raw: bytes
    """Its 32 bytes."""

    @classmethod
    def of_pem(cls, text: str, where: str) -> PublicKey:
        """Read a PEM file's text."""
        try:
            found = load_pem_public_key(text.encode())
        except ValueError:
            found = None
        if not isinstance(found, Ed25519PublicKey):
            msg = (
                f"{where} must be an Ed25519 public key in PEM format; it is not. "
                "`biasgate keys new` creates a key pair."
            )
            raise InputError(msg)
        return cls(found.public_bytes_raw())

    @property
    def key_id(self) -> str:
        """SHA-256 of the key, in hexadecimal."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def pem(self) -> str:
        """The key as PEM text."""
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature of a message was made with the private half of this key."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """A private key."""

    key: Ed25519PrivateKey

    @classmethod
    def new(cls) -> PrivateKey:
        """Create a key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def here(cls) -> PrivateKey | None:
        """Read the key that `BIASGATE_PRIVATE_KEY` names or holds; None if it is not set.

        Errors never show the key.
        """
        named = os.environ.get(PRIVATE_KEY)
        if not named:
            return None
        text, where = named, f"the PEM text in {PRIVATE_KEY}"
        if not named.lstrip().startswith(_PEM):
            where = f"the file that {PRIVATE_KEY} names"
            try:
                text = Path(named).expanduser().read_text("utf-8")
            except (OSError, ValueError, RuntimeError) as error:  # its value may be the key itself
                reason = getattr(error, "strerror", None) or type(error).__name__
                msg = (
                    f"{PRIVATE_KEY} must be the path of a private key or its PEM text, which "
                    f"starts with {_PEM}; as a path it cannot be read: {reason}."
                )
                raise InputError(msg) from None
        try:
            found = load_pem_private_key(text.encode(), password=None)
        except (ValueError, TypeError):
            found = None
        if not isinstance(found, Ed25519PrivateKey):
            msg = (
                f"{where} must be an Ed25519 private key in PEM format, without password; it is "
                "not. `biasgate keys new` creates a key pair."
            )
            raise InputError(msg)
        return cls(found)

    @property
    def public(self) -> PublicKey:
        """Its public half."""
        return PublicKey(self.key.public_key().public_bytes_raw())

    @property
    def pem(self) -> str:
        """The key as PEM text: secret."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self.key.sign(message)


def now() -> str:
    """Return the time, to the second, in ISO format."""
    return datetime.now(UTC).isoformat(timespec="seconds")


TRUSTED_KEYS = "BIASGATE_TRUSTED_KEYS"
FILE = "trusted_keys.json"


@dataclass(frozen=True)
class TrustedKey:
    """A public key whose signatures are accepted."""

    public: PublicKey
    name: str
    """What people call it."""
    trusted_since: str
    """When it was added, in ISO format."""
    revoked_since: str | None = None
    """From when on its signatures count for nothing; earlier ones count only where a key that is
    still trusted has signed something after them."""
    reason: str | None = None
    """Why it was revoked."""

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
    """The keys that are trusted on this machine, by id."""

    keys: Mapping[str, TrustedKey]
    """Revoked ones are among them."""

    def __bool__(self) -> bool:
        """Whether anything is checked at all."""
        return bool(self.keys)

    @classmethod
    def of_file(cls, path: Path) -> TrustedKeys:
        """Read a file of trusted keys; none if it is missing.

        A broken file is an error: it never turns the checks off.
        """
        try:
            found = json.loads(path.read_text("utf-8"))["keys"]
            keys = [
                TrustedKey(
                    PublicKey.of_pem(one["public_key"], f"{path}, key {one['name']!r},"),
                    str(one["name"]),
                    str(one["trusted_since"]),
                    one.get("revoked_since"),
                    one.get("reason"),
                )
                for one in found
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
    def here(cls) -> TrustedKeys:
        """Return the keys that are trusted on this machine, and the one that it signs with."""
        path, own = trusted_file(), PrivateKey.here()
        if own is None and os.environ.get(TRUSTED_KEYS) and not path.exists():
            msg = (
                f"{TRUSTED_KEYS} must be a folder with {FILE}; {path} is missing, so signatures "
                "cannot be checked. Run `biasgate keys trust`, or unset the variable."
            )
            raise InputError(msg)
        known = dict(cls.of_file(path).keys)
        if own is not None:
            mine = TrustedKey(own.public, "of this machine", "")
            known.setdefault(own.public.key_id, mine)
        return cls(known)

    def refuse_revoked(self, own: PrivateKey | None) -> None:
        """Refuse to sign with a key that is revoked here."""
        if own is not None and self.keys[own.public.key_id].revoked_since:
            msg = (
                f"the key in {PRIVATE_KEY} must be trusted; it is revoked: create a new key with "
                "`biasgate keys new`."
            )
            raise InputError(msg)

    def find(self, key: str) -> TrustedKey:
        """Return the key with a name, or an id that starts like this."""
        found = [
            one for key_id, one in self.keys.items() if key_id.startswith(key) or one.name == key
        ]
        if len(found) != 1 or not key:
            known = ", ".join(f"{one.name} ({key_id[:SHORT]})" for key_id, one in self.keys.items())
            msg = f"key {key!r} must be 1 trusted key; got {len(found)} (known: {known or 'none'})."
            raise InputError(msg)
        return found[0]

    def with_key(self, key: TrustedKey) -> TrustedKeys:
        """Return these keys and one more, which replaces the one with the same id."""
        return TrustedKeys({**self.keys, key.public.key_id: key})

    def write(self, path: Path) -> None:
        """Write the keys to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"keys": [key.to_dict() for key in self.keys.values()]})


def trusted_folder() -> Path:
    """Return the folder of trusted keys."""
    named = os.environ.get(TRUSTED_KEYS)
    if named:
        return Path(named).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(home) / "biasgate"


def trusted_file() -> Path:
    """Return the file of trusted keys, which may be missing."""
    return trusted_folder() / FILE
