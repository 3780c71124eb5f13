"""DSSE envelopes: encoding, and checks of signatures."""

import base64
import json

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.signing.envelope import Envelope, decode_base64, pae
from biasgate.tasks.signing.keys import PrivateKey, TrustedKey, TrustedKeys

MINE, THEIRS = PrivateKey.generate(), PrivateKey.generate()


def test_the_encoding_is_the_one_of_the_specification():
    """The example of DSSE's protocol.md; lengths count bytes, not characters."""
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae("http://example.com/HelloWorld", b"hello world") == expected
    assert pae("ä", "ö".encode()) == b"DSSEv1 2 \xc3\xa4 2 \xc3\xb6"


def sign(*keys, payload=b"text", kind="kind"):
    """Return an envelope with signatures of the text by some keys."""
    signatures = [one for key in keys for one in Envelope.sign(b"text", "kind", key).signatures]
    return Envelope(payload, kind, signatures)


def rewrite(envelope, **changes_of_signature):
    """Return an envelope that was written, changed and read."""
    content = json.loads(json.dumps(envelope.to_record().to_dict())) | {"more": 1}
    for signature in content["signatures"]:
        signature.update(changes_of_signature)
    return Envelope.from_dict(content, "it")


REVOKED = TrustedKey(MINE.public, "k", "", "2026-01-01")


@pytest.mark.parametrize(
    ("envelope", "trusted", "status"),
    [
        (sign(MINE), [MINE], "trusted"),
        (sign(MINE), [THEIRS, MINE], "trusted"),
        (sign(MINE), [THEIRS], "unknown"),
        (sign(MINE), [REVOKED], "revoked"),
        (sign(MINE), [], "unchecked"),
        (sign(), [MINE], "unsigned"),
        (sign(MINE, THEIRS), [REVOKED, THEIRS], "trusted"),
        (sign(MINE, payload=b"texT"), [MINE], "unknown"),
        (sign(MINE, kind="Kind"), [MINE], "unknown"),
        # DSSE ignores keys of other programs, and calls the key id, which is not signed, a hint.
        (rewrite(sign(MINE), cert="x"), [MINE], "trusted"),
        (rewrite(sign(THEIRS), keyid=MINE.public.key_id), [MINE], "unknown"),
    ],
)
def test_a_signature_counts_if_its_key_is_trusted(envelope, trusted, status):
    keys = [TrustedKey(one.public, "k", "") if one is not REVOKED else one for one in trusted]
    known = TrustedKeys({key.public.key_id: key for key in keys})
    assert envelope.check_signatures(known).status == status


def test_an_envelope_is_read_as_it_was_written():
    assert rewrite(sign(MINE)).payload == b"text"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({MINE.public.key_id: TrustedKey(MINE.public, "k", "")}, "not signed"),
        ({}, "not signed, which is accepted where no key is trusted"),
    ],
)
def test_a_missing_signature_is_told_with_whether_one_is_needed(keys, words):
    assert sign().check_signatures(TrustedKeys(keys)).description == words


def test_base64_is_read_in_both_alphabets():
    raw = bytes(range(250, 256)) * 2
    assert decode_base64(base64.urlsafe_b64encode(raw).decode()) == raw
    assert decode_base64(base64.b64encode(raw).decode().rstrip("=")) == raw


@pytest.mark.parametrize("content", [None, [], {}, {"payload": "", "payloadType": ""}, "text"])
def test_what_is_no_envelope_is_refused(content):
    with pytest.raises(InputError, match="it must be a DSSE envelope"):
        Envelope.from_dict(content, "it")
