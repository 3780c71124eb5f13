"""Required OpenSSF signatures of candidates: model_signing signs, the gate verifies."""

import base64
import hashlib
import json
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from model_signing import hashing, signing
from support.evaluations import change, evaluate, write_inputs
from support.promoted import edit_json, flip_byte

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.tfidf import EXAMPLE, Tfidf
from biasgate.tasks.scoring.registered_candidates import RegisteredCandidates
from biasgate.tasks.signing import model_signature
from biasgate.tasks.signing.manifest import Manifest
from biasgate.tasks.signing.model_signature import require_model_signature
from biasgate.tasks.store import Workplace

ROOT = Path(__file__).parents[3]

PUBLIC = serialization.PublicFormat.SubjectPublicKeyInfo
PEM = serialization.Encoding.PEM


def new_key(folder, name, curve=None):
    """Write a private and a public key; return the path of the public one."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    kept = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / f"{name}.pem").write_bytes(kept)
    (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(PEM, PUBLIC))
    return folder / f"{name}.pub"


def sign_files(model, key, signature, hashed=None):
    config = signing.Config().use_elliptic_key_signer(private_key=key.with_suffix(".pem"))
    config.set_hashing_config(hashed or hashing.Config()).sign(model, signature)


@pytest.fixture
def vendor(tmp_path):
    """A model with two files, signed by its vendor."""
    model = tmp_path / "model"
    (model / "parts").mkdir(parents=True)
    (model / "weights").write_bytes(b"\0" * 100)
    (model / "parts" / "words").write_text("you are vile", "utf-8")
    sign_files(model, new_key(tmp_path, "vendor"), model / "model.sig")
    return tmp_path


def require_signature(vendor, key="vendor.pub", signature=None, model="model"):
    files = vendor / model
    return require_model_signature(files, Manifest.from_path(files), vendor / key, signature, "it")


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_files_that_the_vendor_signed_hold_and_the_key_is_named_as_signatures_name_it(
    tmp_path, curve
):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"1")
    signature = tmp_path / "model" / "model.sig"
    sign_files(tmp_path / "model", new_key(tmp_path, "vendor", curve), signature)
    bundle = json.loads(signature.read_text("utf-8"))
    assert require_signature(tmp_path) == bundle["verificationMaterial"]["publicKey"]["hint"]


def test_a_signature_may_lie_elsewhere(vendor):
    (vendor / "model" / "model.sig").rename(vendor / "elsewhere.sig")
    assert require_signature(vendor, signature=vendor / "elsewhere.sig")


def test_a_single_file_may_be_signed(vendor):
    (vendor / "scores.csv").write_text("id,prediction\n", "utf-8")
    sign_files(vendor / "scores.csv", vendor / "vendor.pub", vendor / "scores.sig")
    named = {"signature": vendor / "scores.sig", "model": "scores.csv"}
    assert require_signature(vendor, **named)
    (vendor / "scores.csv").write_text("id,prediction\nc1,1\n", "utf-8")
    with pytest.raises(InputError, match=r"differ from the signed files: scores.csv: changed"):
        require_signature(vendor, **named)


def test_files_of_git_need_no_signature_as_the_standards_tool_leaves_them_out(vendor):
    (vendor / "model" / ".gitattributes").write_text("x", "utf-8")
    assert require_signature(vendor)


def flip_weights(vendor):
    flip_byte(vendor / "model" / "weights")


def rename_file(vendor):
    (vendor / "model" / "weights").rename(vendor / "model" / "heights")


def exchange_keys(vendor):
    sign_files(vendor / "model", new_key(vendor, "other"), vendor / "model" / "model.sig")


def edit_bundle(vendor, change):
    """Edit the bundle of the signature."""
    edit_json(vendor / "model" / "model.sig", change)


def change_digest(vendor):
    """Change a byte, and the digest in the statement, but not the signature."""
    flip_weights(vendor)
    [weights] = [o for o in Manifest.from_path(vendor / "model").files if o.path == "weights"]

    def change(bundle):
        statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
        statement["predicate"]["resources"][1].update(digest=weights.sha256)
        payload = base64.b64encode(json.dumps(statement).encode()).decode()
        bundle["dsseEnvelope"]["payload"] = payload

    edit_bundle(vendor, change)


def drop_signatures(vendor):
    edit_bundle(vendor, lambda bundle: bundle["dsseEnvelope"].update(signatures=[]))


def use_certificate(bundle):
    bundle["verificationMaterial"] = {"certificate": {"rawBytes": "AAAA"}}
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = "AAAA"


def write_signature(text):
    return lambda vendor: (vendor / "model" / "model.sig").write_text(text, "utf-8")


def add_file(name):
    return lambda vendor: (vendor / "model" / name).write_text("x", "utf-8")


def remove_file(name):
    return lambda vendor: (vendor / "model" / name).unlink()


def link_signature(vendor):
    (vendor / "model" / "model.sig").rename(vendor / "a")
    (vendor / "model" / "model.sig").symlink_to(vendor / "a")


def ignore_file(vendor):
    """Exempt a file in the vendor's own signature."""
    hashed = hashing.Config().set_ignored_paths(paths=[vendor / "model" / "parts"])
    sign_files(vendor / "model", vendor / "vendor.pub", vendor / "model" / "model.sig", hashed)


REFUSED = "it must be signed with the key in .*; model-signing does not accept signature"
ATTACKS = {
    "a byte is changed": (
        flip_weights,
        r"differ from the signed files: weights: changed \(signature",
    ),
    "a file is added": (add_file("tokenizer"), "tokenizer: added"),
    "a file is added that git would leave out below the top": (
        add_file("parts/.gitignore"),
        r"parts/\.gitignore: added",
    ),
    "a file is removed": (remove_file("weights"), "weights: missing"),
    "a file is renamed": (rename_file, "heights: added; weights: missing"),
    "the signature is missing": (
        remove_file("model.sig"),
        r"signature .*model\.sig does not exist. Set `signature` to its file",
    ),
    "the signature is of another key": (exchange_keys, "Key mismatch"),
    "the signature is of a certificate": (
        lambda vendor: edit_bundle(vendor, use_certificate),
        REFUSED,
    ),
    "the statement lists the changed byte": (change_digest, REFUSED),
    "the statement is unsigned": (drop_signatures, REFUSED),
    "the vendor left a file out": (ignore_file, "parts/words: added"),
    "the signature is a link": (link_signature, "must be a regular file"),
    "the signature is no JSON": (write_signature("x"), "must be JSON"),
    "the signature is other JSON": (write_signature("{}"), REFUSED),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_files_are_refused_where(vendor, attack):
    change, message = ATTACKS[attack]
    change(vendor)
    with pytest.raises(InputError, match=message):
        require_signature(vendor)


@pytest.mark.parametrize("ways", ["shards", "blake2"])
def test_a_signature_that_lists_no_plain_digests_is_refused(vendor, ways):
    hashed = hashing.Config()
    if ways == "shards":
        hashed.use_shard_serialization()
    else:
        hashed.use_file_serialization(hashing_algorithm="blake2")
    sign_files(vendor / "model", vendor / "vendor.pub", vendor / "model" / "model.sig", hashed)
    with pytest.raises(InputError, match="its files differ from the signed files: "):
        require_signature(vendor)


def test_the_library_is_an_extra_that_is_named_if_it_is_missing(vendor, monkeypatch):
    monkeypatch.setattr(model_signature, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"need the library model-signing: pip install .*oms"):
        require_signature(vendor)


# ------------------------------------------------------------------ as a candidate


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model that scikit-learn saved as skops, signed by its vendor."""
    folder = tmp_path_factory.mktemp("saved")
    settings = Tfidf(name="words", kind="tfidf", model="models:/words/1")
    texts = [f"{word} {n}" for n in range(20) for word in ("kind words", "vile insult")]
    save_classifier(settings.pipeline().fit(texts, [0, 1] * 20), folder / "model", EXAMPLE)
    sign_files(folder / "model", new_key(folder, "vendor"), folder / "model" / "model.sig")
    return folder


@pytest.fixture
def version(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "registry")
    return tmp_path / "registry"


def open_version(folder, released=None, **options):
    """Open a registered version; a copy that is released is counted in a list."""

    @contextmanager
    def download(_):
        yield folder / "model"
        if released is not None:
            released.append(True)

    settings = {"name": "bought", "kind": "mlflow", "model": "models:/bought/1"}
    settings |= {"signed_by": folder / "vendor.pub"} | options
    gateway = SimpleNamespace(resolve=lambda uri: uri, open_download=download)
    return CANDIDATES.validate_python(settings).open_verified(SimpleNamespace(gateway=gateway))


def test_a_verdict_says_by_whom_a_version_was_signed_where_a_signature_is_demanded(version):
    with open_version(version) as scorer:
        assert scorer.bound.signed_by == require_signature(version)
        assert "model.sig" in {file.path for file in scorer.bound.files}
    with open_version(version, signed_by=None) as scorer:
        assert scorer.bound.signed_by is None
        assert "signed_by" not in scorer.bound.to_dict()


def test_a_registered_version_with_one_other_byte_is_not_opened_and_its_copy_is_released(version):
    with (version / "model" / "requirements.txt").open("a") as file:
        file.write("#")
    released = []
    with pytest.raises(InputError, match=r"'bought' must be signed .* requirements\.txt: changed"):
        open_version(version, released)
    assert released == [True]


@pytest.mark.parametrize(
    "call", [{"call": "math:sqrt"}, {"kind": "http", "url": "http://127.0.0.1:9", "version": "1"}]
)
def test_a_candidate_without_files_cannot_be_signed(tmp_path, call):
    settings = {"name": "own", "kind": "python", "version": "1", **call}
    settings |= {"signed_by": new_key(tmp_path, "vendor")}
    with pytest.raises(InputError, match="'own' must have files that are signed"):
        CANDIDATES.validate_python(settings).open_verified(Workplace(tmp_path))


# ------------------------------------------------------------------ in an evaluation


@pytest.fixture
def signed_scores(tmp_path, monkeypatch, prefect_server):
    """An evaluation of scores with a required, valid signature."""
    del prefect_server
    monkeypatch.chdir(write_inputs(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    sign_files(tmp_path / "scores.csv", new_key(tmp_path, "vendor"), tmp_path / "scores.sig")
    demand = "path: scores.csv\n    signed_by: vendor.pub\n    signature: scores.sig\n"
    change("file.yaml", "path: scores.csv\n", demand)
    return tmp_path


@pytest.mark.evaluates
def test_a_candidate_is_judged_only_if_the_signature_that_is_demanded_holds(signed_scores):
    assert evaluate("--store", "store")[0] in {0, 3, 4}
    [verdict] = (signed_scores / "out").glob("*/*/verdict.json")
    bound = json.loads(verdict.read_text("utf-8"))["candidate"]["bound"]
    pem = (signed_scores / "vendor.pub").read_bytes()
    assert bound["signed_by"] == hashlib.sha256(pem).hexdigest()

    with (signed_scores / "scores.csv").open("a") as file:
        file.write("\n")  # one byte, and the same numbers
    code, output = evaluate("--store", "store", "--overwrite")
    assert code == 2
    assert "must be signed with the key in" in output
    assert "scores.csv: changed" in output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("signed_by: vendor.pub", "signed_by: vendor.pem", "must be a public key in PEM format"),
        ("signed_by: vendor.pub", "signed_by: none.pub", "none.pub is not"),
        ("    signed_by: vendor.pub\n", "", "`signature` of candidate .* needs `signed_by`"),
        ("signed_by: vendor.pub", "signed_by: own.pub", "on one of the curves secp256r1, secp"),
    ],
)
def test_a_demand_that_cannot_be_met_is_refused_before_any_work(signed_scores, old, new, message):
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    (signed_scores / "own.pub").write_bytes(key.public_bytes(PEM, PUBLIC))
    change("file.yaml", old, new)
    with pytest.raises(InputError, match=message):
        read_evaluation(signed_scores / "file.yaml")


def test_a_model_that_is_trained_here_cannot_be_signed(tmp_path):
    training = {"name": "training", "source": "templates", "terms": ["gay", "straight"]}
    settings = {"name": "words", "kind": "tfidf", "train_on": training}
    settings |= {"signed_by": new_key(tmp_path, "vendor")}
    with pytest.raises(InputError, match="trained here, so it is not signed"):
        CANDIDATES.validate_python(settings).check_signature()


def test_versions_that_are_found_are_asked_for_the_signature_of_a_key_beside_the_file(tmp_path):
    found = RegisteredCandidates.model_validate(
        {"tags": {"stage": "new"}, "open_as": {"kind": "mlflow", "signed_by": "vendor.pub"}},
        context={"folder": tmp_path},
    )
    assert found.make_candidate("bought", "1").signed_by == tmp_path / "vendor.pub"


def test_nothing_opens_a_candidate_past_the_demand():
    """Only `opened` calls `open` of a kind."""
    callers = {
        f"{path.parent.name}/{path.name}"
        for room in ("tasks", "flows", "biasgate", "deployments")
        for path in (ROOT / room).rglob("*.py")
        if re.search(r"\.open\((?:self\.)?(?:run\.)?workplace\)", path.read_text("utf-8"))
    }
    assert callers == {"scoring/candidate.py"}
