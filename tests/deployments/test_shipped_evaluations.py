"""The evaluation files of the repository: those that ship, and those of the evidence pages."""

from pathlib import Path

import pytest
import yaml

from biasgate.tasks.gating.policy import read_policy

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "deployments" / "evaluations").glob("*.yaml"))
FILES = [*SHIPPED, *sorted((ROOT / "docs" / "reproduce").glob("*.yaml"))]


def test_there_are_shipped_evaluation_files():
    assert SHIPPED


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_policy_that_an_evaluation_file_names_can_be_read(path):
    content = yaml.safe_load(path.read_text("utf-8"))
    assert read_policy(content["policy"], path.parent).rules
