"""Attestations in a file: verified offline, from public keys alone."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
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

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.promoting.attestation import verify_attestation, write_attestation
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import PAYLOAD

FILE = "model.intoto.jsonl"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store whose champion is signed, its key, its attestation, and its model's files."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        gateway = local(folder / "store")
        frozen_set(folder / "store")
        key = signing_key(patch, folder / "secret")
        version, verdict, _ = judged_version(gateway, folder / "store", folder / "first")
        assert promote_one([verdict], version, gateway)["promoted"]
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


def wrong(world):
    found = verify_attestation(world / FILE, world / "model")
    return {one.what for one in found if not one.holds}


def resign(world, key, change):
    """Change the statement and sign it with a key."""
    path = world / FILE
    envelope = Envelope.of_dict(json.loads(path.read_text("utf-8")), "it")
    statement = json.loads(envelope.payload)
    change(statement)
    signed = Envelope.sign(json.dumps(statement).encode(), PAYLOAD, key)
    path.write_text(json.dumps(signed.to_dict()) + "\n", "utf-8")


def said(statement):
    return statement["predicate"]["configuration"][0]["annotations"]


def test_the_files_that_were_judged_hold(world):
    assert wrong(world) == set()


@pytest.mark.parametrize("change", ["flipped", "added", "removed", "linked"])
def test_another_file_is_found(world, change):
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
    assert wrong(world) == {"model"}


def test_a_forged_attestation_is_found(world):
    resign(world, PrivateKey.new(), lambda one: one.update())
    assert wrong(world) == {"signature"}


def test_where_no_key_is_trusted_nothing_holds(world, monkeypatch):
    trust(monkeypatch, world / "none")
    assert wrong(world) == {"signature"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda one: one["predicate"].update(result="FAILED"), {"verdict"}),
        (lambda one: said(one).update(reportOnly=True), {"verdict"}),
        (lambda one: said(one).update(requiredSets=["comments", "other"]), {"verdict"}),
        (lambda one: said(one).update(requiredSets=[]), {"verdict"}),
        (lambda one: said(one).update(bound="nothing"), {"model"}),
        (lambda one: one["predicate"].update(configuration=[]), {"verdict", "model"}),
    ],
)
def test_what_is_signed_but_no_complete_pass_does_not_hold(world, made, change, what):
    resign(world, made[1], change)
    assert wrong(world) == what


@pytest.mark.parametrize("content", ["", "text", '{"payload": 1}\n'])
def test_what_is_no_attestation_is_refused(world, content):
    (world / FILE).write_text(content, "utf-8")
    with pytest.raises(InputError, match=r"model\.intoto\.jsonl"):
        wrong(world)


def test_an_unsigned_version_is_not_attested(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    gateway = local(tmp_path / "store")
    frozen_set(tmp_path / "store")
    judged_version(gateway, tmp_path / "store", tmp_path / "first", policy=POLICY)
    with pytest.raises(InputError, match="must be signed; it is not"):
        write_attestation(MODEL, "1", tmp_path / "a.jsonl", gateway)


def test_the_commands_attest_and_verify(made, world):
    run, folder = CliRunner(), made[0]
    file = world / "again.intoto.jsonl"
    arguments = ["attest", MODEL, "--output", str(file), "--store", str(folder / "store")]
    assert run.invoke(app, arguments).exit_code == 0
    offline = ["verify", "--attestation", str(file), "--model", str(world / "model")]
    assert run.invoke(app, offline).exit_code == 0
    (world / "model" / "more").write_text("x", "utf-8")
    assert run.invoke(app, offline).exit_code == 3
    assert run.invoke(app, ["verify"]).exit_code == 2
    assert run.invoke(app, ["verify", MODEL, "--model", str(world)]).exit_code == 2


def test_the_example_of_an_init_container_runs(world):
    path = Path(__file__).parents[3] / "deployments" / "kubernetes" / "verify-init-container.yaml"
    [container] = yaml.safe_load(path.read_text("utf-8"))["spec"]["initContainers"]
    name, *arguments = container["command"]
    mounted = {"/model": world / "model", "/attestation/model.intoto.jsonl": world / FILE}
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
