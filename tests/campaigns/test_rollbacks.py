"""A rollback that is killed at any call of MLflow, or made twice at once, is one rollback."""

import pytest

from benchmarks.campaigns.rollbacks import kill_each_call, make_world, run_trial

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"))


def test_the_call_after_a_kill_completes_the_rollback_and_the_next_changes_nothing(world):
    trials = list(kill_each_call(world))
    assert [trial.problems for trial in trials] == [[]] * len(trials)
    # Some kills are before the alias moves, and some after it.
    assert {trial.has_moved for trial in trials} == {False, True}


def test_two_at_once_are_one_rollback(world):
    for _ in range(3):
        assert run_trial(world, "two at once", (0, 0)).problems == []
