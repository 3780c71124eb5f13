"""Models from a hub on this machine: downloaded, resumed, kept, and refused with what to do."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.hub import COMMIT, serving

pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")

from support.encoders import save

pytestmark = pytest.mark.slow

OTHER = "f" * 40
TEXTS = ["you are kind", "vile", "w1 w2 w3"]
# In a process of its own: the address of the hub is read when the library is imported.
CODE = """
import json, logging, shutil, sys
import pyarrow as pa
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.transformer import TransformerScorer
settings, texts, before = json.loads(sys.argv[1])
logging.basicConfig(format="%(message)s")
logging.getLogger("biasgate.steps").setLevel(logging.INFO)
exec(before)
try:
    candidate = CANDIDATES.validate_python({"name": "far", "kind": "transformer"} | settings)
    if not texts:
        print(candidate.fetch_files(), flush=True)
        sys.stdin.readline()
        print(candidate.fetch_files())
        sys.exit()
    with TransformerScorer(candidate, candidate.fetch_files()) as scorer:
        scores = scorer.score(pa.RecordBatch.from_pydict({"id": texts, "text": texts})).scores
        print(json.dumps([scorer.digest, scores.tolist()]))
except InputError as error:
    sys.exit(f"InputError: {error} <- {type(error.__cause__).__name__}")
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = save(tmp_path_factory.mktemp("models") / "tiny", {0: "neutral", 1: "toxic"})
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    return folder


@pytest.fixture
def hub(model):
    with serving(model, "acme/tiny") as hub:
        yield hub


def start(hub, home, /, *, texts=(), before="", variables=None, **options):
    arguments = [{"hub": "acme/tiny", "toxic_label": "toxic"} | options, list(texts), before]
    return subprocess.Popen(
        [sys.executable, "-c", CODE, json.dumps(arguments)],
        env=os.environ | hub.environment(home) | (variables or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(hub, home, /, **options):
    with start(hub, home, **options) as process:
        printed, logged = process.communicate(timeout=300)
    assert process.returncode == 0, logged
    return (json.loads(printed) if options.get("texts") else printed.split()), logged


def expect_refusal(hub, home, /, **options):
    with start(hub, home, **options) as process:
        _, logged = process.communicate(timeout=300)
    assert process.returncode == 1
    assert logged.splitlines()[-1].startswith("InputError: "), logged
    return logged.splitlines()[-1]


def read_weights(home):
    [weights] = home.glob("hub/models--acme--tiny/snapshots/*/model.safetensors")
    return weights.read_bytes()


@pytest.mark.parametrize("revision", [None, COMMIT])
def test_a_model_is_downloaded_once_and_scores_as_its_folder(model, hub, tmp_path, revision):
    (digest, scores), said = run(hub, tmp_path, texts=TEXTS, revision=revision)
    (_, expected), _ = run(hub, tmp_path, texts=TEXTS, hub=None, folder=str(model))
    np.testing.assert_array_equal(scores, expected)
    n_bytes = sum(
        file.stat().st_size for file in model.iterdir() if file.name != "pytorch_model.bin"
    )
    size = f"{n_bytes / 1e6:,.1f} MB"
    assert said == f"downloading acme/tiny, commit {COMMIT}, from the hub: {size}\n"
    n_requests = len(hub.requests)
    assert not [one for one in hub.requests if ".bin" in one]
    (again, _), said = run(hub, tmp_path, texts=TEXTS, revision=revision)
    assert again == digest
    assert said == ""
    assert not [one for one in hub.requests[n_requests:] if "/resolve/" in one]


def test_a_branch_names_one_commit_in_all_tasks_of_a_run(model, hub, tmp_path):
    with start(hub, tmp_path, revision="main") as process:
        first = process.stdout.readline()
        hub.add(model, "acme/tiny", commit=OTHER)
        second, said = process.communicate("\n", timeout=300)
    assert first == second, said
    assert first.strip().endswith(COMMIT)
    found, _ = run(hub, tmp_path, revision="main")
    assert found[0].endswith(OTHER)


def test_a_connection_that_is_cut_is_resumed(model, hub, tmp_path):
    hub.cut_at = 10_000
    run(hub, tmp_path)
    of_weights = [one for one in hub.requests if one.startswith("GET") and "safetensors" in one]
    assert hub.cut_at is None
    assert len(of_weights) == 2
    assert read_weights(tmp_path) == (model / "model.safetensors").read_bytes()


def test_a_download_that_is_killed_is_made_by_the_next_run(model, hub, tmp_path):
    hub.pause_s = 60
    with start(hub, tmp_path) as process:
        deadline = time.monotonic() + 120
        while not any("GET" in one and "safetensors" in one for one in hub.requests):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert not list(tmp_path.glob("hub/models--acme--tiny/snapshots/*/model.safetensors"))
    hub.pause_s = 0.0
    run(hub, tmp_path)
    assert read_weights(tmp_path) == (model / "model.safetensors").read_bytes()


@pytest.mark.parametrize("revision", ["v9", OTHER])
def test_a_revision_that_the_hub_lacks_is_refused(hub, tmp_path, revision):
    said = expect_refusal(hub, tmp_path, revision=revision)
    assert "`revision` of model acme/tiny of candidate 'far' must be a commit" in said
    assert f"got {revision!r}" in said
    assert said.endswith("<- RevisionNotFoundError")


@pytest.mark.parametrize("revision", [None, COMMIT])
def test_a_model_that_the_hub_lacks_is_refused(hub, tmp_path, revision):
    said = expect_refusal(hub, tmp_path, hub="acme/none", revision=revision)
    assert "model acme/none of candidate 'far' must be on the hub and readable" in said
    assert "the hub answers 404" in said
    assert "HF_TOKEN" in said


def test_a_gated_model_is_read_with_a_token(hub, tmp_path):
    hub.gated.add("acme/tiny")
    assert "the hub answers 401" in expect_refusal(hub, tmp_path)
    run(hub, tmp_path, variables={"HF_TOKEN": "hf_made_up"})


def test_without_the_hub_a_model_in_the_cache_is_used_and_another_is_refused(model, tmp_path):
    with serving(model, "acme/tiny") as hub:
        found, _ = run(hub, tmp_path)
    assert run(hub, tmp_path)[0] == found
    said = expect_refusal(hub, tmp_path, hub="acme/other")
    assert f"the hub {hub.url} does not answer as expected (ConnectError)" in said
    assert "as `folder`" in said
    assert "HF_HUB_OFFLINE=1" in said


def test_offline_a_model_in_the_cache_is_used_and_another_is_refused(hub, tmp_path):
    found, _ = run(hub, tmp_path)
    offline, n_requests = {"HF_HUB_OFFLINE": "1"}, len(hub.requests)
    assert run(hub, tmp_path, variables=offline)[0] == found
    said = expect_refusal(hub, tmp_path, revision="v2", variables=offline)
    assert "at revision 'v2' must be in the hub's cache" in said
    assert "since HF_HUB_OFFLINE is set" in said
    assert len(hub.requests) == n_requests


def test_a_disk_that_is_too_small_is_refused_before_the_download(hub, tmp_path):
    before = (
        "from biasgate.tasks.scoring.kinds import hugging_face\n"
        "from types import SimpleNamespace\n"
        "hugging_face.disk_usage = lambda _: SimpleNamespace(free=1000)"
    )
    said = expect_refusal(hub, tmp_path, before=before)
    assert "must have room for model acme/tiny of candidate 'far'; 0.1 MB are needed" in said
    assert "HF_HOME" in said
    assert not [one for one in hub.requests if one.startswith("GET") and "/resolve/" in one]
