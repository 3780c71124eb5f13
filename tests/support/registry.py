"""A store with two frozen sets: in memory, or on MLflow for a test that is marked `mlflow`."""

import shutil

import pytest
from support import memory
from support.promoted import (
    MODEL,
    frozen_set,
    judged_version,
    local,
    promote_one,
    signing_key,
    trust,
)

from biasgate.tasks.mlflow_server.runs import Gateway


class Template:
    """A store that is made once in memory and, where a test asks for it, once in MLflow."""

    def __init__(self, make, tmp_path_factory):
        self.make, self.factory, self.made = make, tmp_path_factory, {}

    def copied(self, request, target):
        """Return a copy of it for one test."""
        real = request.node.get_closest_marker("mlflow") is not None
        if real not in self.made:
            folder = self.factory.mktemp("template")
            with pytest.MonkeyPatch.context() as patch:
                patch.delenv("MLFLOW_TRACKING_URI", raising=False)
                gateway = (local if real else memory.in_memory)(folder / "store")
                self.make(gateway, folder / "store", folder)
            self.made[real] = folder / "store"
        copy = shutil.copytree if real else memory.copied
        copy(self.made[real], target)
        return target


def two_sets(gateway, store, _):
    frozen_set(store)
    frozen_set(store, "other")
    assert gateway.get_alias(MODEL, "champion") is None


@pytest.fixture(scope="session")
def empty(tmp_path_factory):
    """A store with two sets frozen."""
    return Template(two_sets, tmp_path_factory)


@pytest.fixture
def registries(monkeypatch):
    """Open a store in memory as such, whoever names its folder."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(Gateway, "from_store", staticmethod(memory.gateway_of))


@pytest.fixture
def store(request, tmp_path, empty, registries):
    del registries
    yield empty.copied(request, tmp_path / "store")
    memory.forget(tmp_path / "store")


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
