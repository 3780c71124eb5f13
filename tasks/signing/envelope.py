"""DSSE envelopes: what is signed, and by whom (https://github.com/secure-systems-lab/dsse)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from annotated_types import MaxLen
from typing_extensions import TypedDict

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.untrusted import check
from biasgate.tasks.signing.keys import SHORT, PrivateKey, TrustedKey, TrustedKeys

Standing = Literal["trusted", "revoked", "unknown", "unsigned", "unchecked"]


class SignatureRecord(TypedDict):
    """A signature as it is written."""

    keyid: NotRequired[str]
    sig: str


# Each signature is tried with each trusted key.
Signatures = Annotated[list[SignatureRecord], MaxLen(20)]


class EnvelopeRecord(TypedDict):
    """An envelope as it is written."""

    payload: str
    payloadType: str
    signatures: Signatures


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that are signed: DSSE's pre-authentication encoding.

    Examples
    --------
    >>> pae("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True)
class Signature:
    """One signature."""

    key_id: str
    """Whose it claims to be: only a hint."""
    value: bytes
    """The signature."""


@dataclass(frozen=True)
class Signed:
    """Who signed something."""

    standing: Standing
    """`trusted`; `revoked`; `unknown` (by no trusted key, or altered since); `unsigned`;
    `unchecked` (no key is trusted here)."""
    key: TrustedKey | None = None
    """The key, if it is trusted or revoked."""
    is_needed: bool = True
    """Whether a signature is asked for here."""

    @property
    def revoked_since(self) -> str:
        """Since when the key is revoked; empty if it is not."""
        return (self.key.revoked_since or "") if self.key is not None else ""

    @property
    def words(self) -> str:
        """The standing in words."""
        if self.key is not None and self.standing == "revoked":
            return f"signed with the key {self.key.name!r}, revoked since {self.revoked_since}"
        if self.key is not None:
            return (
                f"signed with the trusted key {self.key.name!r} ({self.key.public.key_id[:SHORT]})"
            )
        accepted = "" if self.is_needed else ", which is accepted where no key is trusted"
        return {
            "unknown": "not signed with a trusted key, or changed since",
            "unsigned": f"not signed{accepted}",
        }.get(self.standing, "signed, not checked: no key is trusted here")


@dataclass(frozen=True)
class Envelope:
    """A payload and its signatures."""

    payload: bytes
    """What is signed."""
    payload_type: str
    """What it is."""
    signatures: Sequence[Signature]
    """May be empty."""

    @classmethod
    def sign(cls, payload: bytes, payload_type: str, key: PrivateKey | None) -> Envelope:
        """Put a payload into an envelope, signed if there is a key."""
        if key is None:
            return cls(payload, payload_type, ())
        value = key.sign(pae(payload_type, payload))
        return cls(payload, payload_type, (Signature(key.public.key_id, value),))

    @classmethod
    def of_dict(cls, content: Any, where: str) -> Envelope:
        """Read an envelope.

        Raises
        ------
        InputError
            If it is none.
        """
        found = check(content, EnvelopeRecord, where, rule="a DSSE envelope")
        payload = _decoded(found["payload"], where)
        return cls(payload, found["payloadType"], signatures_of(found["signatures"], where))

    def to_dict(self) -> EnvelopeRecord:
        """Return the envelope as it is written."""
        return {
            "payload": encoded(self.payload),
            "payloadType": self.payload_type,
            "signatures": [
                {"keyid": one.key_id, "sig": encoded(one.value)} for one in self.signatures
            ],
        }

    def signed(self, trusted: TrustedKeys) -> Signed:
        """Return who signed it: the best standing of its signatures.

        Every trusted key is tried, since the key id beside a signature is not signed itself.
        """
        return who_signed(pae(self.payload_type, self.payload), self.signatures, trusted)


def who_signed(message: bytes, signatures: Sequence[Signature], trusted: TrustedKeys) -> Signed:
    """Return who signed a message."""
    if not signatures:
        return Signed("unsigned", is_needed=bool(trusted))
    if not trusted:
        return Signed("unchecked")
    keys = [
        key
        for key in trusted.keys.values()
        if any(key.public.verifies(one.value, message) for one in signatures)
    ]
    for key in keys:
        if key.revoked_since is None:
            return Signed("trusted", key)
    return Signed("revoked", keys[0]) if keys else Signed("unknown")


def encoded(content: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(content).decode()


def decoded(text: str) -> bytes:
    """Return the bytes of base64 text, standard or URL-safe.

    Raises
    ------
    ValueError
        If it is neither.
    """
    standard = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def signatures_of(found: Sequence[SignatureRecord], where: str) -> list[Signature]:
    """Read signatures.

    Raises
    ------
    InputError
        If one is not base64.
    """
    return [Signature(one.get("keyid", ""), _decoded(one["sig"], where)) for one in found]


def _decoded(text: str, where: str) -> bytes:
    try:
        return decoded(text)
    except ValueError:
        msg = f"{where} must have its payload and signatures in base64; it does not."
        raise InputError(msg) from None
