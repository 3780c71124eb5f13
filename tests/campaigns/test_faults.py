"""No fault during a promotion leaves a wrong champion, and the next run completes it.

Every step, and every kind at least twice; `python -m benchmarks.campaigns.faults` has all kinds
before all steps.
"""

from itertools import cycle

import pytest

from benchmarks.campaigns.faults import KINDS, STEPS, World, can_mount, run_trial

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World.make(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize(("step", "kind"), list(zip(STEPS, cycle(KINDS), strict=False)))
def test_a_disturbed_promotion_is_healed_by_the_next_run(world, kind, step):
    if kind == "disk full" and not can_mount():
        pytest.skip("a small disk to fill needs the right to mount one")
    trial = run_trial(world, kind, step)
    assert trial.n_fired
    assert trial.problems == []
