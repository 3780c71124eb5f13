"""The statement about a verdict, which in-toto's own implementation reads."""

import base64
import json
from dataclasses import replace

import pytest
from support.promoted import POLICY, artifact, frozen_set, judged_version, local, signing_key

from bias_metrics.gate.exceptions import PassException
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.records import FileRecord, HoldsFor
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import (
    PAYLOAD,
    VERDICT_FILES,
    build_statement,
    compute_verdict_digest,
    read_annotations,
    read_statement,
)

WARNING = POLICY.model_copy(
    update={
        "rules": [*POLICY.rules[:2], POLICY.rules[2].model_copy(update={"action": "warn"})],
        "not_measured": [],
    }
)


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """Key, run folder and content of a signed verdict in a registry."""
    store = tmp_path_factory.mktemp("store")
    gateway = local(store)
    frozen_set(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        key = signing_key(patch, store / "secret")
        version, verdict, _ = judged_version(gateway, store, store / "first", policy=WARNING)
        return key, artifact(gateway, version, "."), verdict


def read_envelope(folder):
    return Envelope.from_dict(json.loads((folder / "attestation.json").read_text("utf-8")), "it")


@pytest.fixture
def statement(signed):
    return read_statement(read_envelope(signed[1]), "it")


def test_it_names_the_bytes_of_every_file_that_the_verdict_rests_on(signed, statement):
    named = {file.name: file.digest["sha256"] for file in statement.predicate.configuration}
    assert named == {name: file_digest(signed[1] / name) for name in VERDICT_FILES}


def test_it_says_what_decides_on_a_promotion(signed, statement):
    annotations = read_annotations(statement)
    assert annotations.verdict_digest == compute_verdict_digest(signed[2])
    assert (annotations.model, annotations.evaluation_set, annotations.required) == (
        "models:/toxicity/1",
        "comments",
        True,
    )


def test_a_rule_that_only_warns_warns_and_a_passed_one_passes(statement):
    predicate = statement.predicate
    assert predicate.result == "WARNED"
    assert predicate.warned_tests == ["subgroup_auc/each/floor/gay"]
    assert "auc/overall/floor" in predicate.passed_tests
    assert predicate.failed_tests == []


def test_it_says_for_whom_a_pass_is_proven_and_what_limits_it(signed):
    statement = rebuild_statement(
        signed,
        holds_for=HoldsFor(identities=["muslim"], of=2),
        exceptions=[PassException(None, "no_rule", 0, groups=("gay",))],
        reservations=["2 comments have no score."],
    )
    annotations = read_annotations(statement)
    assert annotations.holds_for == HoldsFor(identities=["muslim"], of=2)
    assert annotations.exceptions == ["no blocking rule covers gay."]
    assert annotations.reservations == ["2 comments have no score."]


def rebuild_statement(signed, **changes):
    """Return the statement about a changed verdict."""
    digests = dict.fromkeys(VERDICT_FILES, "0" * 64)
    return build_statement(replace(signed[2], **changes), digests, "now")


@pytest.mark.parametrize("outcome", ["fail", "insufficient", "error"])
def test_everything_but_a_pass_is_failed(signed, outcome):
    assert rebuild_statement(signed, outcome=outcome).predicate.result == "FAILED"


def test_its_subject_is_the_files_of_the_model(signed):
    files = [FileRecord(path="a/b", size=1, sha256="1" * 64)]
    known = signed[2].candidate
    candidate = replace(known, bound=replace(known.bound, what="files", files=files))
    made = rebuild_statement(signed, candidate=candidate)
    assert made.to_dict()["subject"] == [{"name": "a/b", "digest": {"sha256": "1" * 64}}]


def test_keys_of_other_programs_in_a_statement_are_ignored_as_in_toto_says(statement):
    content = convert_to_plain(statement.to_dict())
    content |= {"more": 1, "subject": [one | {"uri": "x"} for one in content["subject"]]}
    payload = json.dumps(content).encode()
    assert read_statement(Envelope.sign(payload, PAYLOAD, None), "it") == statement


@pytest.mark.parametrize(
    "payload", [b"x", b"[]", b"{}", b'{"_type": "https://in-toto.io/Statement/v0.1"}']
)
def test_another_statement_is_refused(payload):
    envelope = Envelope.sign(payload, "application/vnd.in-toto+json", None)
    with pytest.raises(InputError, match=r"must be (an in-toto statement|JSON)"):
        read_statement(envelope, "it")


# ------------------------------------------------------------------ their implementation


def their_key(key):
    signer = pytest.importorskip("securesystemslib.signer")
    return signer.SSlibKey(
        key.public.key_id, "ed25519", "ed25519", {"public": key.public.raw.hex()}
    )


@pytest.mark.slow
def test_the_reference_implementation_verifies_our_envelope_and_reads_our_statement(signed):
    dsse = pytest.importorskip("securesystemslib.dsse")
    pb_json = pytest.importorskip("google.protobuf.json_format")
    in_toto = pytest.importorskip("in_toto_attestation.v1.statement")
    pb = pytest.importorskip("in_toto_attestation.v1.statement_pb2")
    result = pytest.importorskip("in_toto_attestation.predicates.test_result.v0.test_result_pb2")
    key, folder, _ = signed
    content = json.loads((folder / "attestation.json").read_text("utf-8"))
    envelope = dsse.Envelope.from_dict(content)
    assert set(envelope.verify([their_key(key)], 1)) == {key.public.key_id}
    found = json.loads(envelope.payload)
    in_toto.Statement.copy_from_pb(pb_json.ParseDict(found, pb.Statement())).validate()
    predicate = pb_json.ParseDict(found["predicate"], result.TestResult())
    assert (predicate.result, len(predicate.configuration)) == ("WARNED", len(VERDICT_FILES))


@pytest.mark.slow
@pytest.mark.parametrize("change", ["payload", "type", "signature", "key"])
def test_the_reference_implementation_refuses_a_tampered_envelope(signed, change):
    dsse = pytest.importorskip("securesystemslib.dsse")
    exceptions = pytest.importorskip("securesystemslib.exceptions")
    key, folder, _ = signed
    content = json.loads((folder / "attestation.json").read_text("utf-8"))
    payload = base64.b64decode(content["payload"])
    signature = bytearray(base64.b64decode(content["signatures"][0]["sig"]))
    if change == "payload":
        payload = payload.replace(b'"WARNED"', b'"PASSED"')
    elif change == "type":
        content["payloadType"] = "application/json"
    elif change == "signature":
        signature[0] ^= 1
    content["payload"] = base64.b64encode(payload).decode()
    content["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    other = PrivateKey.generate() if change == "key" else key
    envelope = dsse.Envelope.from_dict(content)
    with pytest.raises(exceptions.VerificationError):
        envelope.verify([their_key(other)], 1)
