"""Ed25519 keys: the private key signs where evaluations run, its public half verifies elsewhere.

The private key is a PEM file (PKCS8), named by `BIASGATE_PRIVATE_KEY`, or the PEM text itself in
that variable.
"""

from __future__ import annotations

import hashlib
import os
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
        """Read a PEM file's text.

        Raises
        ------
        InputError
            If it is not an Ed25519 public key.
        """
        try:
            found = load_pem_public_key(text.encode())
        except ValueError:
            found = None
        if not isinstance(found, Ed25519PublicKey):
            msg = (
                f"{where} must be an Ed25519 public key in PEM format; it is not. "
                "`biasgate keys new` writes one."
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
    """The key."""

    @classmethod
    def new(cls) -> PrivateKey:
        """Create a key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def here(cls) -> PrivateKey | None:
        """Read the key that `BIASGATE_PRIVATE_KEY` names or holds; None if it is not set.

        Raises
        ------
        InputError
            If there is no such file, or it is not a private key. The text never shows the key.
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
                "not. `biasgate keys new` writes one."
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
