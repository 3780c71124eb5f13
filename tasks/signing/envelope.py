"""DSSE envelopes: payloads and their signatures (https://github.com/secure-systems-lab/dsse)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import MaxLen
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.untrusted import check
from biasgate.tasks.records.record import Record
from biasgate.tasks.signing.keys import SHORT, PrivateKey, TrustedKey, TrustedKeys

Standing = Literal["trusted", "revoked", "unknown", "unsigned", "unchecked"]


@dataclass(frozen=True, kw_only=True)
class Signature(Record):
    """A signature as it is written; `keyid`, whose it claims to be, is only a hint."""

    keyid: str | None = None
    sig: str


# Each signature is tried with each trusted key.
Signatures = Annotated[list[Signature], MaxLen(20)]


@dataclass(frozen=True, kw_only=True)
class CamelRecord(Record):
    """A record whose keys are in camel case, as DSSE and in-toto write theirs."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel)
    key_of = staticmethod(to_camel)


@dataclass(frozen=True, kw_only=True)
class EnvelopeRecord(CamelRecord):
    """An envelope as it is written."""

    payload: str
    payload_type: str
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
class Signed:
    """The standing of signatures."""

    standing: Standing
    """`trusted`; `revoked`; `unknown` (by no trusted key, or altered since); `unsigned`;
    `unchecked` (no key is trusted here)."""
    key: TrustedKey | None = None
    """The key, if it is trusted or revoked."""
    is_needed: bool = True
    """Whether this machine requires a signature."""

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
    payload_type: str
    signatures: Sequence[Signature]

    @classmethod
    def sign(cls, payload: bytes, payload_type: str, key: PrivateKey | None) -> Envelope:
        """Put a payload into an envelope, signed if there is a key."""
        return cls(payload, payload_type, signed_by(key, pae(payload_type, payload)))

    @classmethod
    def of_dict(cls, content: Any, where: str) -> Envelope:
        """Read an envelope."""
        found = check(content, EnvelopeRecord, where, rule="a DSSE envelope", exact=False)
        payload = _decoded(found.payload, where)
        return cls(payload, found.payload_type, decodable(found.signatures, where))

    def record(self) -> EnvelopeRecord:
        """Return the envelope as it is written."""
        return EnvelopeRecord(
            payload=encoded(self.payload),
            payload_type=self.payload_type,
            signatures=list(self.signatures),
        )

    def signed(self, trusted: TrustedKeys) -> Signed:
        """Return the best standing of its signatures.

        Every trusted key is tried, since the key id beside a signature is not signed itself.
        """
        return who_signed(pae(self.payload_type, self.payload), self.signatures, trusted)


def signed_by(key: PrivateKey | None, message: bytes) -> Sequence[Signature]:
    """Return the signature of a message; none without a key."""
    if key is None:
        return ()
    return (Signature(keyid=key.public.key_id, sig=encoded(key.sign(message))),)


def who_signed(message: bytes, signatures: Sequence[Signature], trusted: TrustedKeys) -> Signed:
    """Return the best standing of the signatures of a message."""
    if not signatures:
        return Signed("unsigned", is_needed=bool(trusted))
    if not trusted:
        return Signed("unchecked")
    keys = [
        key
        for key in trusted.keys.values()
        if any(key.public.verifies(decoded(signature.sig), message) for signature in signatures)
    ]
    for key in keys:
        if key.revoked_since is None:
            return Signed("trusted", key)
    return Signed("revoked", keys[0]) if keys else Signed("unknown")


def encoded(content: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(content).decode()


def decoded(text: str) -> bytes:
    """Return the bytes of base64 text, standard or URL-safe."""
    standard = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def decodable(signatures: Sequence[Signature], where: str) -> Sequence[Signature]:
    """Return signatures; refuse those that are not base64."""
    for signature in signatures:
        _decoded(signature.sig, where)
    return signatures


def _decoded(text: str, where: str) -> bytes:
    try:
        return decoded(text)
    except ValueError:
        msg = f"{where} must have its payload and signatures in base64; it does not."
        raise InputError(msg) from None
