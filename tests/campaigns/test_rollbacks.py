"""A rollback that is killed at any call of MLflow, or made twice at once, is one rollback."""

import pytest

from benchmarks.campaigns.faults import KILLED, UNDISTURBED
from benchmarks.campaigns.rollbacks import killed, make_world, run_trial

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"))


def test_the_call_after_a_kill_completes_the_rollback_and_the_next_changes_nothing(world):
    trials = list(killed(world))
    assert [one.problems for one in trials] == [[]] * len(trials)
    assert all(one.ended == [KILLED] for one in trials)
    # Some kills are before the alias moves, and some after it.
    assert {one.moved for one in trials} == {False, True}


def test_two_at_once_are_one_rollback(world):
    for _ in range(3):
        trial = run_trial(world, (0, 0))
        assert (trial.ended, trial.problems) == ([UNDISTURBED] * 2, [])
