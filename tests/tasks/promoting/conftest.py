"""A store with frozen sets and MLflow's tables, made once and copied for each test."""

import shutil

import pytest
from support.promoted import MODEL, frozen_set, local


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
