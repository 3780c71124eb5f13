"""The evaluation files that ship with the repository."""

from pathlib import Path

import pytest
import yaml

from biasgate.tasks.gating.policy import read_policy

FILES = sorted((Path(__file__).parents[2] / "deployments" / "evaluations").glob("*.yaml"))


def test_there_are_shipped_evaluation_files():
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_policy_that_a_shipped_evaluation_file_names_can_be_read(path):
    content = yaml.safe_load(path.read_text("utf-8"))
    assert read_policy(content["policy"], path.parent).rules
