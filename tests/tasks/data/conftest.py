from types import SimpleNamespace

import pytest

from biasgate.tasks.common import files


@pytest.fixture
def set_free_bytes(monkeypatch):
    """Return a function that simulates a number of free bytes on the disk."""
    return lambda n_bytes: monkeypatch.setattr(
        files.shutil, "disk_usage", lambda _: SimpleNamespace(free=n_bytes)
    )
