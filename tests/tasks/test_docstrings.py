"""The examples in the docstrings of the application run."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [
    "biasgate." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("tasks", "flows", "deployments")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name):
    tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert tried.attempted
    assert tried.failed == 0
