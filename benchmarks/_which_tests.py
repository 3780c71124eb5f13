"""A pytest plugin that records the tests per line, and their times, in the folder TRACED."""

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
    """Start tracing before the code is imported."""
    TRACER.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record the lines and the time of a test."""
    TRACER.switch_context(item.nodeid)
    start = time.monotonic()
    outcome = yield
    SECONDS[item.nodeid] = time.monotonic() - start
    TRACER.switch_context("")
    return outcome


def pytest_sessionfinish() -> None:
    """Save the records, except in the process that only distributes the tests."""
    TRACER.stop()
    if not SECONDS:
        return
    TRACER.save()
    (FOLDER / f"{os.getpid()}.json").write_text(json.dumps(SECONDS), "utf-8")
