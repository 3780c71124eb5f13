"""Commands name the flows that they run; each of these is there."""

import re
from pathlib import Path

import pytest

import biasgate
from biasgate.running import import_flow

PAGES = [one.read_text("utf-8") for one in Path(biasgate.__file__).parent.glob("*.py")]
RUN = re.compile(r"run_(?:flow|evaluation)\(\s*\"(\w+)\"")
NAMES = sorted({name for page in PAGES for name in RUN.findall(page)})


def test_every_command_that_runs_a_flow_is_looked_at():
    assert {"evaluate", "nightly", "train", "mitigate"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_flow_that_a_command_runs_is_there(name):
    assert callable(import_flow(name))
