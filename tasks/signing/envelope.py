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
from biasgate.tasks.common.untrusted import check_document
from biasgate.tasks.records.record import Record
from biasgate.tasks.signing.keys import SHORT_ID_LENGTH, PrivateKey, TrustedKey, TrustedKeys

SignatureStatus = Literal["trusted", "revoked", "unknown", "unsigned", "unchecked"]


@dataclass(frozen=True, kw_only=True)
class Signature(Record):
    """A signature in its written form; `keyid` names the claimed key and is not signed itself."""

    keyid: str | None = None
    sig: str


# Every signature is checked with every trusted key, so their number is limited.
Signatures = Annotated[list[Signature], MaxLen(20)]


@dataclass(frozen=True, kw_only=True)
class CamelRecord(Record):
    """A record with keys in camel case, as in DSSE and in-toto."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel)
    key_of = staticmethod(to_camel)


@dataclass(frozen=True, kw_only=True)
class EnvelopeRecord(CamelRecord):
    """An envelope in its written form."""

    payload: str
    payload_type: str
    signatures: Signatures


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return DSSE's pre-authentication encoding: the bytes that a signature covers.

    Examples
    --------
    >>> pae("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True)
class SignatureCheck:
    """The result of checking the signatures of a message against the trusted keys."""

    status: SignatureStatus
    """`trusted`; `revoked`; `unknown` (not by a trusted key, or changed since); `unsigned`;
    `unchecked` (this machine trusts no keys)."""
    key: TrustedKey | None = None
    """The key that signed, if the status is `trusted` or `revoked`."""
    is_required: bool = True
    """True if this machine requires a signature."""

    @property
    def revoked_since(self) -> str:
        """The time from which the key is revoked; empty if it is not revoked."""
        return (self.key.revoked_since or "") if self.key is not None else ""

    @property
    def description(self) -> str:
        """The result in words."""
        if self.key is not None and self.status == "revoked":
            return f"signed with the key {self.key.name!r}, revoked since {self.revoked_since}"
        if self.key is not None:
            short_id = self.key.public.key_id[:SHORT_ID_LENGTH]
            return f"signed with the trusted key {self.key.name!r} ({short_id})"
        accepted = "" if self.is_required else ", which is accepted where no key is trusted"
        return {
            "unknown": "not signed with a trusted key, or changed since",
            "unsigned": f"not signed{accepted}",
        }.get(self.status, "signed, not checked: no key is trusted here")


@dataclass(frozen=True)
class Envelope:
    """A payload and its signatures."""

    payload: bytes
    payload_type: str
    signatures: Sequence[Signature]

    @classmethod
    def sign(cls, payload: bytes, payload_type: str, key: PrivateKey | None) -> Envelope:
        """Create an envelope of a payload, signed if `key` is given."""
        return cls(payload, payload_type, sign_message(key, pae(payload_type, payload)))

    @classmethod
    def from_dict(cls, content: Any, where: str) -> Envelope:
        """Create an envelope from parsed JSON; `where` names it in errors."""
        record = check_document(content, EnvelopeRecord, where, rule="a DSSE envelope", exact=False)
        payload = _decode_field(record.payload, where)
        return cls(payload, record.payload_type, require_base64(record.signatures, where))

    def to_record(self) -> EnvelopeRecord:
        """Return the envelope in its written form."""
        return EnvelopeRecord(
            payload=encode_base64(self.payload),
            payload_type=self.payload_type,
            signatures=list(self.signatures),
        )

    def check_signatures(self, trusted: TrustedKeys) -> SignatureCheck:
        """Check the signatures of the payload and its type.

        Every trusted key is tried, because the key id of a signature is not signed itself.
        """
        return check_signatures(pae(self.payload_type, self.payload), self.signatures, trusted)


def sign_message(key: PrivateKey | None, message: bytes) -> Sequence[Signature]:
    """Return the signature of a message, or no signature without a key."""
    if key is None:
        return ()
    return (Signature(keyid=key.public.key_id, sig=encode_base64(key.sign(message))),)


def check_signatures(
    message: bytes, signatures: Sequence[Signature], trusted: TrustedKeys
) -> SignatureCheck:
    """Check the signatures of a message, and return the best result.

    A signature by a trusted key counts more than one by a revoked key.
    """
    if not signatures:
        return SignatureCheck("unsigned", is_required=bool(trusted))
    if not trusted:
        return SignatureCheck("unchecked")
    keys = [
        key
        for key in trusted.keys.values()
        if any(
            key.public.is_signature_valid(decode_base64(signature.sig), message)
            for signature in signatures
        )
    ]
    for key in keys:
        if key.revoked_since is None:
            return SignatureCheck("trusted", key)
    return SignatureCheck("revoked", keys[0]) if keys else SignatureCheck("unknown")


def encode_base64(content: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(content).decode()


def decode_base64(text: str) -> bytes:
    """Return the bytes of base64 text, standard or URL-safe."""
    standard = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def require_base64(signatures: Sequence[Signature], where: str) -> Sequence[Signature]:
    """Return signatures unchanged; raise an error if any is not base64."""
    for signature in signatures:
        _decode_field(signature.sig, where)
    return signatures


def _decode_field(text: str, where: str) -> bytes:
    try:
        return decode_base64(text)
    except ValueError:
        msg = f"{where} must have its payload and signatures in base64; it does not."
        raise InputError(msg) from None
