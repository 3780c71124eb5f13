"""DSSE envelopes: encoding, and checks of signatures."""

import base64
import json

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.signing.envelope import Envelope, decode_base64, pae
from biasgate.tasks.signing.keys import PrivateKey, TrustedKey, TrustedKeys

MINE, THEIRS = PrivateKey.generate(), PrivateKey.generate()


def make_trusted_keys(*keys, revoked=None):
    return TrustedKeys(
        {key.public.key_id: TrustedKey(key.public, "k", "", revoked) for key in keys}
    )


def test_the_encoding_is_the_one_of_the_specification():
    """The example of DSSE's protocol.md."""
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae("http://example.com/HelloWorld", b"hello world") == expected


def test_lengths_count_bytes_not_characters():
    assert pae("ä", "ö".encode()) == b"DSSEv1 2 \xc3\xa4 2 \xc3\xb6"


def test_an_envelope_is_read_as_it_was_written():
    envelope = Envelope.sign(b"text", "kind", MINE)
    again = Envelope.from_dict(json.loads(json.dumps(envelope.to_record().to_dict())), "it")
    assert again.check_signatures(make_trusted_keys(MINE)).status == "trusted"
    assert again.payload == b"text"


def test_keys_of_other_programs_in_an_envelope_are_ignored_as_dsse_says():
    content = Envelope.sign(b"text", "kind", MINE).to_record().to_dict()
    content |= {
        "more": 1,
        "signatures": [one | {"cert": "x"} for one in convert_to_plain(content)["signatures"]],
    }
    assert (
        Envelope.from_dict(content, "it").check_signatures(make_trusted_keys(MINE)).status
        == "trusted"
    )


@pytest.mark.parametrize(
    ("trusted", "standing"),
    [
        (make_trusted_keys(MINE), "trusted"),
        (make_trusted_keys(THEIRS, MINE), "trusted"),
        (make_trusted_keys(THEIRS), "unknown"),
        (make_trusted_keys(MINE, revoked="2026-01-01"), "revoked"),
        (make_trusted_keys(), "unchecked"),
    ],
)
def test_a_signature_counts_if_its_key_is_trusted(trusted, standing):
    assert Envelope.sign(b"text", "kind", MINE).check_signatures(trusted).status == standing


def test_an_unsigned_envelope_is_never_trusted():
    assert (
        Envelope.sign(b"text", "kind", None).check_signatures(make_trusted_keys(MINE)).status
        == "unsigned"
    )


@pytest.mark.parametrize(
    ("trusted", "words"),
    [
        (make_trusted_keys(MINE), "not signed"),
        (TrustedKeys({}), "not signed, which is accepted where no key is trusted"),
    ],
)
def test_a_missing_signature_is_told_with_whether_one_is_needed(trusted, words):
    assert Envelope.sign(b"text", "kind", None).check_signatures(trusted).description == words


@pytest.mark.parametrize(("payload", "kind"), [(b"texT", "kind"), (b"text", "Kind")])
def test_a_changed_payload_or_type_is_found(payload, kind):
    signatures = Envelope.sign(b"text", "kind", MINE).signatures
    assert (
        Envelope(payload, kind, signatures).check_signatures(make_trusted_keys(MINE)).status
        == "unknown"
    )


def test_a_key_id_beside_a_signature_decides_nothing():
    """The key id is not signed; DSSE calls it a hint."""
    content = Envelope.sign(b"text", "kind", THEIRS).to_record().to_dict()
    content["signatures"][0]["keyid"] = MINE.public.key_id
    assert (
        Envelope.from_dict(content, "it").check_signatures(make_trusted_keys(MINE)).status
        == "unknown"
    )


def test_a_trusted_signature_beside_a_revoked_one_counts():
    one, other = (Envelope.sign(b"text", "kind", key) for key in (MINE, THEIRS))
    both = Envelope(b"text", "kind", [*one.signatures, *other.signatures])
    keys = make_trusted_keys(MINE, revoked="2026-01-01").add_key(TrustedKey(THEIRS.public, "k", ""))
    assert both.check_signatures(keys).status == "trusted"


def test_base64_is_read_in_both_alphabets():
    raw = bytes(range(250, 256)) * 2
    assert decode_base64(base64.urlsafe_b64encode(raw).decode()) == raw
    assert decode_base64(base64.b64encode(raw).decode().rstrip("=")) == raw


@pytest.mark.parametrize("content", [None, [], {}, {"payload": "", "payloadType": ""}, "text"])
def test_what_is_no_envelope_is_refused(content):
    with pytest.raises(InputError, match="it must be a DSSE envelope"):
        Envelope.from_dict(content, "it")
