"""A deploy script that asks `require_champion` gets a version, or does not get past it."""

import doctest
import os
import subprocess
import sys

import pytest
from support.promoted import MODEL, frozen_set, judged_version, local, promote_one

import biasgate.deploy
from biasgate import require_champion
from biasgate.tasks.ledger.ledger import CHAMPION

SCRIPT = """
import sys
from biasgate import require_champion
heavy = {"mlflow", "prefect", "pandas", "numpy", "biasgate.tasks"} & set(sys.modules)
assert not heavy, heavy
print("deploying", require_champion("toxicity", **eval(sys.argv[1])))
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("BIASGATE_STORE", raising=False)
    frozen_set(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def deploy(tmp_path):
    """Run the deploy script in a process of its own, from an empty folder."""

    def deploy(environment=None, **where):
        environment = os.environ | (environment or {})
        environment.setdefault("PYTHONPATH", os.pathsep.join(sys.path))
        return subprocess.run(
            [sys.executable, "-c", SCRIPT, repr({key: str(value) for key, value in where.items()})],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return deploy


def promoted(store, folder):
    version, verdict, _ = judged_version(local(store), store, folder)
    assert promote_one([verdict], version, local(store)).promoted
    return version


def test_a_promoted_version_is_returned_pinned(store, tmp_path, deploy):
    promoted(store, tmp_path / "a")
    done = deploy(store=store)
    assert done.stdout == f"deploying models:/{MODEL}/1\n", done.stderr


def test_the_registry_may_be_named_in_four_ways(store, tmp_path, monkeypatch):
    promoted(store, tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    uri, found = local(store).uri, f"models:/{MODEL}/1"
    assert require_champion(MODEL, store=store) == found
    assert require_champion(MODEL, tracking_uri=uri) == found
    for name, value in (("BIASGATE_STORE", str(store)), ("MLFLOW_TRACKING_URI", uri)):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert require_champion(MODEL) == found
    with pytest.raises(ValueError, match=r"store \.biasgate must be a folder"):
        require_champion(MODEL)


def test_a_blocked_version_under_the_alias_is_refused(store, tmp_path, deploy):
    gateway = local(store)
    promoted(store, tmp_path / "a")
    blocked, verdict, _ = judged_version(gateway, store, tmp_path / "b", noise=40)
    assert verdict.outcome == "fail"
    gateway.set_alias(MODEL, CHAMPION, blocked.version)
    done = deploy(store=store)
    assert (done.returncode, done.stdout) == (1, "")
    assert " on comments by policy p is not a pass" in done.stderr
    assert "champion is version 2; last promoted: 1." in done.stderr


def test_a_store_that_is_missing_is_refused_and_not_made(tmp_path, deploy, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    done = deploy(store=tmp_path / "nowhere")
    assert done.returncode == 1
    assert "nowhere must be a folder that an evaluation wrote" in done.stderr
    assert not (tmp_path / "nowhere").exists()


def test_the_example_in_the_docstring_is_true(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tried = doctest.testmod(biasgate.deploy, optionflags=doctest.ELLIPSIS)
    assert (tried.attempted, tried.failed) == (1, 0)
