"""Offline verification of attestations in a file, with public keys only."""

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from support.judging import policy_of
from support.promoted import (
    MODEL,
    POLICY,
    frozen_set,
    judged_version,
    local,
    promote_one,
    signing_key,
    trust,
)
from typer.testing import CliRunner

from biasgate import require_attestation
from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.promoting.attest import write_attestation
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import PAYLOAD
from biasgate.tasks.verifying.attestation import Pins, verify_attestation

FILE = "model.intoto.jsonl"
pytestmark = pytest.mark.mlflow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with a signed champion; key, attestation and files of the champion."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        gateway = local(folder / "store")
        frozen_set(folder / "store")
        key = signing_key(patch, folder / "secret")
        version, verdict, _ = judged_version(gateway, folder / "store", folder / "first")
        assert promote_one([verdict], version, gateway).promoted
        write_attestation(MODEL, None, folder / FILE, gateway)
        shutil.copytree(folder / "first", folder / "model", ignore=shutil.ignore_patterns("judged"))
    return folder, key


@pytest.fixture
def world(made, tmp_path, monkeypatch):
    """A copy of attestation and model, on a machine that trusts the key and has no registry."""
    folder, key = made
    shutil.copy(folder / FILE, tmp_path)
    shutil.copytree(folder / "model", tmp_path / "model")
    trust(monkeypatch, tmp_path / "trusted", evaluations=key)
    return tmp_path


def list_failures(world):
    findings = verify_attestation(world / FILE, world / "model")
    return {finding.what for finding in findings if not finding.holds}


def sign_changed(world, key, change):
    """Change the statement and sign it with a key."""
    path = world / FILE
    envelope = Envelope.from_dict(json.loads(path.read_text("utf-8")), "it")
    statement = json.loads(envelope.payload)
    change(statement)
    signed = Envelope.sign(json.dumps(statement).encode(), PAYLOAD, key)
    path.write_text(json.dumps(signed.to_record().to_dict()) + "\n", "utf-8")


def get_annotations(statement):
    return statement["predicate"]["configuration"][0]["annotations"]


def test_the_files_that_were_judged_hold(world):
    assert list_failures(world) == set()
    assert "Different" not in verify_attestation(world / FILE, world / "model")[-1].sentence


def test_a_pass_says_for_whom_it_is_proven_and_how_much_limits_it(world, made):
    def less(statement):
        get_annotations(statement)["holdsFor"]["identities"] = []
        get_annotations(statement).update({"exceptions": ["a", "b"], "reservations": ["c"]})

    sign_changed(world, made[1], less)
    told = [finding.sentence for finding in verify_attestation(world / FILE, world / "model")]
    [text] = [sentence for sentence in told if " by policy p is " in sentence]
    assert " for 0 of " in text
    assert text.endswith("identities; it lists 2 exceptions, 1 reservation.")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("flipped", " Different: {file}: changed."),
        ("added", " Different: more: added."),
        ("removed", " Different: {file}: missing."),
        ("linked", "{file}"),
    ],
)
def test_another_file_is_found_and_named(world, change, told):
    weights = next(path for path in (world / "model").rglob("*") if path.is_file())
    if change == "flipped":
        content = bytearray(weights.read_bytes())
        content[0] ^= 1
        weights.write_bytes(content)
    elif change == "added":
        (world / "model" / "more").write_text("x", "utf-8")
    elif change == "removed":
        weights.unlink()
    else:
        weights.rename(world / "elsewhere")
        weights.symlink_to(world / "elsewhere")
    assert list_failures(world) == {"model"}
    model = verify_attestation(world / FILE, world / "model")[-1].sentence
    assert told.format(file=weights.relative_to(world / "model")) in model


def test_a_forged_attestation_is_found(world):
    sign_changed(world, PrivateKey.generate(), lambda one: one.update())
    assert list_failures(world) == {"signature"}


def test_where_no_key_is_trusted_nothing_holds(world, monkeypatch):
    trust(monkeypatch, world / "none")
    assert list_failures(world) == {"signature"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda statement: statement["predicate"].update(result="FAILED"), {"verdict"}),
        (lambda statement: get_annotations(statement).update(reportOnly=True), {"verdict"}),
        (
            lambda statement: get_annotations(statement).update(requiredSets=["comments", "other"]),
            {"verdict"},
        ),
        (lambda statement: get_annotations(statement).update(requiredSets=[]), {"verdict"}),
        (lambda statement: get_annotations(statement).update(bound="nothing"), {"model"}),
        (lambda statement: statement["predicate"].update(configuration=[]), {"verdict", "model"}),
    ],
)
def test_what_is_signed_but_no_complete_pass_does_not_hold(world, made, change, what):
    sign_changed(world, made[1], change)
    assert list_failures(world) == what


@pytest.mark.parametrize(
    ("change", "said_of_sets"),
    [
        (dict, "comments."),
        (
            lambda statement: get_annotations(statement).update(requiredSets=["other", "comments"]),
            "Missing: other.",
        ),
        (
            lambda statement: get_annotations(statement).update(requiredSets=[]),
            "each required set: unknown.",
        ),
    ],
)
def test_the_required_sets_are_named_and_those_that_are_missing(world, made, change, said_of_sets):
    sign_changed(world, made[1], change)
    sentences = [finding.sentence for finding in verify_attestation(world / FILE, world / "model")]
    [text] = [sentence for sentence in sentences if "each required set" in sentence]
    assert text.endswith(said_of_sets)


def test_an_attestation_without_what_biasgate_says_is_no_verdict(world, made):
    sign_changed(world, made[1], lambda statement: statement["predicate"].update(configuration=[]))
    findings = verify_attestation(world / FILE, world / "model")
    [silent] = [
        finding
        for finding in findings
        if "lacks the fields that biasgate writes" in finding.sentence
    ]
    assert not silent.holds


# ------------------------------------------------------------------ what is pinned


def list_pin_failures(world, **pins):
    findings = verify_attestation(world / FILE, world / "model", Pins(**pins))
    return {finding.what for finding in findings if not finding.holds}


SETS = {"comments": ""}


@pytest.mark.parametrize(
    "pins",
    [
        {"model": MODEL},
        {"model": MODEL, "version": "1"},
        {"policy_digest": POLICY.digest},
        {"policy_digest": POLICY.digest[:12]},
        {"sets": SETS},
    ],
)
def test_the_pinned_model_policy_and_sets_hold(world, pins):
    assert list_pin_failures(world, **pins) == set()


@pytest.mark.parametrize(
    ("pins", "what"),
    [
        ({"model": "toxicit"}, "model"),
        ({"model": "toxicity/1"}, "model"),
        ({"model": MODEL, "version": "11"}, "model"),
        ({"policy_digest": "0" * 64}, "policy"),
        ({"sets": {"other": ""}}, "dataset"),
        ({"sets": {**SETS, "other": ""}}, "dataset"),
        ({"sets": {"comments": "0" * 64}}, "dataset"),
    ],
)
def test_an_attestation_of_something_else_than_what_is_pinned_does_not_hold(world, pins, what):
    assert list_pin_failures(world, **pins) == {what}


def test_another_model_that_the_same_key_attested_is_found_only_by_its_pin(world, made):
    sign_changed(
        world, made[1], lambda statement: get_annotations(statement).update(model="models:/spam/1")
    )
    assert list_failures(world) == set()
    assert list_pin_failures(world, model=MODEL) == {"model"}


def test_a_lenient_policy_that_the_same_key_attested_is_found_only_by_its_pin(world, made):
    sign_changed(
        world,
        made[1],
        lambda statement: get_annotations(statement).update(
            policyDigest="1" * 64, policy="lenient"
        ),
    )
    assert list_failures(world) == set()
    assert list_pin_failures(world, policy_digest=POLICY.digest) == {"policy"}


def test_a_pin_does_not_hold_where_nothing_is_said(world, made):
    sign_changed(world, made[1], lambda statement: statement["predicate"].update(configuration=[]))
    findings = list_pin_failures(world, model=MODEL, policy_digest=POLICY.digest, sets=SETS)
    assert {"model", "policy", "dataset"} <= findings


def test_what_is_attested_is_said_and_that_it_is_not_pinned(world):
    output = " ".join(
        finding.sentence for finding in verify_attestation(world / FILE, world / "model")
    )
    for part in (f"models:/{MODEL}/1", POLICY.digest, "comments", "would be accepted: give"):
        assert part in output


@pytest.mark.parametrize(
    "pins",
    [
        {"policy_digest": "abc"},
        {"policy_digest": ""},
        {"sets": {"comments": "x"}},
        {"version": "1"},
        {"model": ""},
    ],
)
def test_a_pin_that_pins_nothing_is_refused(pins):
    with pytest.raises(InputError, match="must"):
        Pins(**pins)


def test_the_function_of_a_deploy_script_pins_the_model(world):
    require_attestation(world / FILE, world / "model", MODEL, policy_digest=POLICY.digest)
    with pytest.raises(
        ValueError, match=r"must not be deployed, since these checks failed:\n  model: the attested"
    ):
        require_attestation(world / FILE, world / "model", "spam")


@pytest.mark.parametrize("content", ["", "text", '{"payload": 1}\n'])
def test_what_is_no_attestation_is_refused(world, content):
    (world / FILE).write_text(content, "utf-8")
    with pytest.raises(InputError, match=r"model\.intoto\.jsonl"):
        list_failures(world)


def test_an_unsigned_version_is_not_attested(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    gateway = local(tmp_path / "store")
    frozen_set(tmp_path / "store")
    judged_version(gateway, tmp_path / "store", tmp_path / "first", policy=POLICY)
    with pytest.raises(InputError, match="must be signed; it is not"):
        write_attestation(MODEL, "1", tmp_path / "a.jsonl", gateway)


def test_what_is_attested_of_a_blocked_version_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    gateway = local(tmp_path / "store")
    frozen_set(tmp_path / "store")
    signing_key(monkeypatch, tmp_path / "secret")
    strict = policy_of({"metric": "auc", "scope": "overall", "floor": 0.999})
    judged_version(gateway, tmp_path / "store", tmp_path / "first", policy=strict)
    _, results = write_attestation(MODEL, "1", tmp_path / "a.jsonl", gateway)
    assert results == {"comments": "FAILED"}


def test_an_attestation_that_its_run_lacks_is_named(made, tmp_path, monkeypatch):
    gateway = local(made[0] / "store")
    monkeypatch.setattr(type(gateway), "read_json", mock.Mock(side_effect=OSError("gone")))
    with pytest.raises(InputError, match="on comments must be in its run; it cannot be read"):
        write_attestation(MODEL, "1", tmp_path / "a.jsonl", gateway)
    assert not (tmp_path / "a.jsonl").exists()


def test_a_model_that_the_registry_lacks_is_refused_with_those_it_has(made, tmp_path):
    with pytest.raises(InputError, match=rf"'toxicty' must be in the registry.*known: {MODEL}"):
        write_attestation("toxicty", None, tmp_path / "a.jsonl", local(made[0] / "store"))
    assert not (tmp_path / "a.jsonl").exists()


def test_the_commands_attest_and_verify(made, world):
    run, folder = CliRunner(), made[0]
    file = world / "again.intoto.jsonl"
    arguments = ["attest", MODEL, "--output", str(file), "--store", str(folder / "store")]
    output = run.invoke(app, arguments).output
    assert "1 signed attestation of models:/toxicity/1: PASSED on comments" in " ".join(
        output.split()
    )
    offline = ["verify", "--attestation", str(file), "--model", str(world / "model")]
    assert run.invoke(app, offline).exit_code == 0
    pinned = [*offline, MODEL, "1", "--policy-digest", POLICY.digest]
    pinned += ["--evaluation-set", "comments"]
    assert run.invoke(app, pinned).exit_code == 0
    assert run.invoke(app, [*offline, "spam"]).exit_code == 3
    assert run.invoke(app, [*offline, "--policy-digest", "0" * 64]).exit_code == 3
    assert run.invoke(app, [*offline, "--evaluation-set", "other"]).exit_code == 3
    (world / "model" / "more").write_text("x", "utf-8")
    assert run.invoke(app, offline).exit_code == 3
    assert run.invoke(app, ["verify"]).exit_code == 2
    assert run.invoke(app, ["verify", MODEL, "--model", str(world)]).exit_code == 2
    assert run.invoke(app, ["verify", MODEL, "--policy-digest", POLICY.digest]).exit_code == 2


def test_the_openssf_tool_verifies_the_files_of_a_promoted_version_and_notices_one_byte(
    made, world, monkeypatch
):
    store, signature, public = made[0] / "store", world / "model.sig", world / "model_key.pub"
    key = ec.generate_private_key(ec.SECP256R1())
    kept = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (world / "model_key.pem").write_bytes(key.private_bytes(*kept, serialization.NoEncryption()))
    shown = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    public.write_bytes(key.public_key().public_bytes(*shown))
    arguments = ["attest", MODEL, "--output", str(world / "a.jsonl"), "--store", str(store)]
    arguments += ["--model-signature", str(signature)]
    assert "BIASGATE_MODEL_KEY must name" in CliRunner().invoke(app, arguments).stderr
    monkeypatch.setenv("BIASGATE_MODEL_KEY", str(world / FILE))
    assert "on an elliptic curve" in CliRunner().invoke(app, arguments).stderr
    monkeypatch.setenv("BIASGATE_MODEL_KEY", str(world / "own.pem"))
    own = ed25519.Ed25519PrivateKey.generate()  # as the key of verdicts is
    (world / "own.pem").write_bytes(own.private_bytes(*kept, serialization.NoEncryption()))
    refused = CliRunner().invoke(app, arguments)
    assert (refused.exit_code, "on an elliptic curve" in refused.stderr) == (2, True)
    assert not signature.exists()
    assert not (world / "a.jsonl").exists()
    monkeypatch.setenv("BIASGATE_MODEL_KEY", str(world / "model_key.pem"))
    assert CliRunner().invoke(app, arguments).exit_code == 0

    asked = [Path(sys.executable).with_name("model_signing"), "verify", "key", world / "model"]
    asked += ["--signature", signature, "--public_key", public]
    verified = partial(subprocess.run, asked, capture_output=True, check=False)
    assert verified().returncode == 0
    changed = max((world / "model").rglob("*"), key=lambda one: one.is_file())
    content = changed.read_bytes()
    changed.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert verified().returncode != 0


@pytest.mark.parametrize(
    ("name", "message"), [("a.jsonl", "must be two files"), ("model", "it is a folder")]
)
def test_a_place_for_the_signature_that_cannot_be_written_leaves_no_attestation(
    made, world, monkeypatch, name, message
):
    key = ec.generate_private_key(ec.SECP256R1())
    kept = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (world / "key.pem").write_bytes(key.private_bytes(*kept, serialization.NoEncryption()))
    monkeypatch.setenv("BIASGATE_MODEL_KEY", str(world / "key.pem"))
    arguments = ["attest", MODEL, "--output", str(world / "a.jsonl")]
    arguments += ["--store", str(made[0] / "store"), "--model-signature", str(world / name)]
    refused = CliRunner().invoke(app, arguments)
    assert (refused.exit_code, message in " ".join(refused.stderr.split())) == (2, True)
    assert not (world / "a.jsonl").exists()


def test_a_name_that_is_too_long_for_a_file_is_of_no_model(made):
    refused = CliRunner().invoke(app, ["verify", "a" * 300, "--store", str(made[0] / "store")])
    assert (refused.exit_code, "must be in the registry" in refused.stderr) == (2, True)


def test_the_example_of_an_init_container_runs(world):
    path = Path(__file__).parents[3] / "deployments" / "kubernetes" / "verify-init-container.yaml"
    [container] = yaml.safe_load(path.read_text("utf-8"))["spec"]["initContainers"]
    name, *arguments = container["command"]
    mounted = {"/model": world / "model", "/attestation/model.intoto.jsonl": world / FILE}
    mounted["DIGEST"] = POLICY.digest
    arguments = [str(mounted.get(one, one)) for one in arguments]
    assert name == "biasgate"
    assert CliRunner().invoke(app, arguments).exit_code == 0


def test_the_example_of_an_analysis_runs_on_the_registry(made, monkeypatch):
    path = Path(__file__).parents[3] / "deployments" / "kubernetes" / "analysis-template.yaml"
    [metric] = yaml.safe_load(path.read_text("utf-8"))["spec"]["metrics"]
    job = metric["provider"]["job"]["spec"]
    [container] = job["template"]["spec"]["containers"]
    name, command, model, *options = container["command"]
    assert (name, command, model) == ("biasgate", "verify", "{{args.model}}")
    assert (job["backoffLimit"], metric["failureLimit"]) == (0, 0)
    folder, key = made
    uri = f"sqlite:///{folder / 'store' / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    trust(monkeypatch, folder / "trusted", evaluations=key)
    assert CliRunner().invoke(app, [command, MODEL, *options]).exit_code == 0
