"""A plugin of pytest: which tests run a line, and how long each takes, in the folder TRACED."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

FOLDER = Path(os.environ["TRACED"])
SECONDS: dict[str, float] = {}
TRACER = coverage.Coverage(
    data_file=str(FOLDER / "lines"), data_suffix=True, source=["bias_metrics", "tasks"]
)


def pytest_configure() -> None:
    """Begin before the code is imported."""
    TRACER.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what runs as this test's."""
    TRACER.switch_context(item.nodeid)
    began = time.monotonic()
    noted = yield
    SECONDS[item.nodeid] = time.monotonic() - began
    TRACER.switch_context("")
    return noted


def pytest_sessionfinish() -> None:
    """Keep what was noted, except in the process that only hands out the tests."""
    TRACER.stop()
    if not SECONDS:
        return
    TRACER.save()
    (FOLDER / f"{os.getpid()}.json").write_text(json.dumps(SECONDS), "utf-8")
