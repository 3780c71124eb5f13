"""A store with frozen sets and MLflow's tables, made once and copied for each test."""

import shutil

import pytest
from support.promoted import (
    MODEL,
    frozen_set,
    judged_version,
    local,
    promote_one,
    signing_key,
    trust,
)


@pytest.fixture(scope="session")
def empty(tmp_path_factory):
    """A store with two sets frozen and MLflow's tables made, to be copied."""
    folder = tmp_path_factory.mktemp("empty")
    frozen_set(folder)
    frozen_set(folder, "other")
    assert local(folder).alias(MODEL, "champion") is None
    return folder


@pytest.fixture
def store(tmp_path, empty, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return shutil.copytree(empty, tmp_path / "store")


@pytest.fixture
def gateway(store):
    return local(store)


@pytest.fixture
def key(monkeypatch, tmp_path):
    """This machine evaluates and signs, and trusts its key."""
    made = signing_key(monkeypatch, tmp_path / "secret")
    trust(monkeypatch, tmp_path / "trusted", evaluations=made)
    return made


@pytest.fixture
def attacker(monkeypatch, key, tmp_path):
    """Forge something without the private key; afterwards this machine evaluates again."""
    del key

    def forge(call, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.delenv("BIASGATE_PRIVATE_KEY")
            trust(patch, tmp_path / "nobody")
            return call(*arguments, **options)

    return forge


@pytest.fixture
def promoted(gateway, store, tmp_path):
    """Judge and promote one version after the other."""
    made = []

    def next_one(**options):
        champion = made[-1] if made else None
        name = f"v{len(made)}"
        found = judged_version(
            gateway, store, tmp_path / name, champion=champion, seed=len(made), **options
        )
        assert promote_one([found[1]], found[0], gateway).promoted
        made.append(found)
        return found

    next_one.made = made
    return next_one
