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
    flip_byte,
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


def collect_failures(world):
    findings = verify_attestation(world / FILE, world / "model")
    return {finding.what for finding in findings if not finding.holds}


def sign_changed(world, key, change):
    """Change the statement, or its annotations by name, and sign it with a key."""
    path = world / FILE
    envelope = Envelope.from_dict(json.loads(path.read_text("utf-8")), "it")
    statement = json.loads(envelope.payload)
    if callable(change):
        change(statement["predicate"])
    else:
        statement["predicate"]["configuration"][0]["annotations"].update(change)
    signed = Envelope.sign(json.dumps(statement).encode(), PAYLOAD, key)
    path.write_text(json.dumps(signed.to_record().to_dict()) + "\n", "utf-8")


def test_a_pass_says_for_whom_it_is_proven_and_how_much_limits_it(world, made):
    limits = {"exceptions": ["a", "b"], "reservations": ["c"]}
    sign_changed(world, made[1], limits | {"holdsFor": {"identities": [], "of": 1}})
    told = [finding.sentence for finding in verify_attestation(world / FILE, world / "model")]
    [text] = [sentence for sentence in told if " by policy p is " in sentence]
    assert text.endswith(" for 0 of 1 identities; it lists 2 exceptions, 1 reservation.")


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
        flip_byte(weights)
    elif change == "added":
        (world / "model" / "more").write_text("x", "utf-8")
    elif change == "removed":
        weights.unlink()
    else:
        weights.rename(world / "elsewhere")
        weights.symlink_to(world / "elsewhere")
    assert collect_failures(world) == {"model"}
    model = verify_attestation(world / FILE, world / "model")[-1].sentence
    assert told.format(file=weights.relative_to(world / "model")) in model


def test_a_forged_attestation_is_found(world, monkeypatch):
    sign_changed(world, PrivateKey.generate(), {})
    assert collect_failures(world) == {"signature"}
    trust(monkeypatch, world / "none")  # nothing holds where no key is trusted
    assert collect_failures(world) == {"signature"}


SETS = {"comments": ""}
SILENT = {"configuration": []}
SPAM = {"model": "models:/spam/1"}
LENIENT = {"policyDigest": "1" * 64, "policy": "lenient"}


@pytest.mark.parametrize(
    ("change", "pins", "fails", "told"),
    [
        ({}, {}, set(), "each required set: comments."),
        # What is signed, but no complete pass.
        (lambda predicate: predicate.update(result="FAILED"), {}, {"verdict"}, ""),
        ({"reportOnly": True}, {}, {"verdict"}, ""),
        ({"requiredSets": ["other", "comments"]}, {}, {"verdict"}, "Missing: other."),
        ({"requiredSets": []}, {}, {"verdict"}, "each required set: unknown."),
        ({"bound": "nothing"}, {}, {"model"}, ""),
        (
            lambda predicate: predicate.update(SILENT),
            {},
            {"verdict", "model"},
            "lacks the fields that biasgate writes",
        ),
        # What is pinned, and holds.
        ({}, {"model": MODEL}, set(), ""),
        ({}, {"model": MODEL, "version": "1"}, set(), ""),
        ({}, {"policy_digest": POLICY.digest}, set(), ""),
        ({}, {"policy_digest": POLICY.digest[:12]}, set(), ""),
        ({}, {"sets": SETS}, set(), ""),
        # What a trusted key signed, and is found only by its pin.
        ({}, {"model": "toxicit"}, {"model"}, ""),
        ({}, {"model": "toxicity/1"}, {"model"}, ""),
        ({}, {"model": MODEL, "version": "11"}, {"model"}, ""),
        ({}, {"policy_digest": "0" * 64}, {"policy"}, ""),
        ({}, {"sets": {"other": ""}}, {"dataset"}, ""),
        ({}, {"sets": {**SETS, "other": ""}}, {"dataset"}, ""),
        ({}, {"sets": {"comments": "0" * 64}}, {"dataset"}, ""),
        (SPAM, {}, set(), ""),
        (SPAM, {"model": MODEL}, {"model"}, ""),
        (LENIENT, {}, set(), ""),
        (LENIENT, {"policy_digest": POLICY.digest}, {"policy"}, ""),
        (
            lambda predicate: predicate.update(SILENT),
            {"model": MODEL, "policy_digest": POLICY.digest, "sets": SETS},
            {"verdict", "model", "policy", "dataset"},
            "",
        ),
    ],
)
def test_an_attestation_of_something_else_than_what_is_pinned_does_not_hold(
    world, made, change, pins, fails, told
):
    sign_changed(world, made[1], change)
    findings = verify_attestation(world / FILE, world / "model", Pins(**pins))
    assert {finding.what for finding in findings if not finding.holds} == fails
    assert told in " ".join(finding.sentence for finding in findings)


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
        collect_failures(world)


@pytest.mark.parametrize("is_signed", [False, True])
def test_only_a_signed_version_is_attested_also_if_it_was_blocked(tmp_path, monkeypatch, is_signed):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    gateway, file = local(tmp_path / "store"), tmp_path / "a.jsonl"
    frozen_set(tmp_path / "store")
    strict = policy_of({"metric": "auc", "scope": "overall", "floor": 0.999})
    if is_signed:
        signing_key(monkeypatch, tmp_path / "secret")
    judged_version(gateway, tmp_path / "store", tmp_path / "first", policy=strict)
    if is_signed:
        assert write_attestation(MODEL, "1", file, gateway)[1] == {"comments": "FAILED"}
    else:
        with pytest.raises(InputError, match="must be signed; it is not"):
            write_attestation(MODEL, "1", file, gateway)


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


def write_key(path, key):
    kept = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    path.write_bytes(key.private_bytes(*kept, serialization.NoEncryption()))


def test_the_openssf_tool_verifies_the_files_of_a_promoted_version_and_notices_one_byte(
    made, world, monkeypatch
):
    store, signature, public = made[0] / "store", world / "model.sig", world / "model_key.pub"
    key = ec.generate_private_key(ec.SECP256R1())
    write_key(world / "model_key.pem", key)
    shown = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, shown))
    arguments = ["attest", MODEL, "--output", str(world / "a.jsonl"), "--store", str(store)]
    arguments += ["--model-signature", str(signature)]
    assert "BIASGATE_MODEL_KEY must name" in CliRunner().invoke(app, arguments).stderr
    monkeypatch.setenv("BIASGATE_MODEL_KEY", str(world / FILE))
    assert "on an elliptic curve" in CliRunner().invoke(app, arguments).stderr
    monkeypatch.setenv("BIASGATE_MODEL_KEY", str(world / "own.pem"))
    write_key(world / "own.pem", ed25519.Ed25519PrivateKey.generate())  # as the key of verdicts
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
    flip_byte(max((world / "model").rglob("*"), key=lambda one: one.is_file()))
    assert verified().returncode != 0


@pytest.mark.parametrize(
    ("name", "message"), [("a.jsonl", "must be two files"), ("model", "it is a folder")]
)
def test_a_place_for_the_signature_that_cannot_be_written_leaves_no_attestation(
    made, world, monkeypatch, name, message
):
    write_key(world / "key.pem", ec.generate_private_key(ec.SECP256R1()))
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
