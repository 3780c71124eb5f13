from types import SimpleNamespace

import pytest

from biasgate.tasks.common import files


@pytest.fixture
def free(monkeypatch):
    """Pretend that a disk has this many free bytes."""
    return lambda n_bytes: monkeypatch.setattr(
        files.shutil, "disk_usage", lambda _: SimpleNamespace(free=n_bytes)
    )
