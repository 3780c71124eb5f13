"""An evaluation killed at any point loses nothing: the next run resumes it."""

import pytest
from prefect.settings import PREFECT_API_URL

from benchmarks.campaigns.kills import N_ROWS, POINTS, World, run_trial

pytestmark = pytest.mark.slow
# Rows of both candidates in whole shards by then; while tracking all are.
KEPT = {
    "before the first shard": 0,
    "during a shard's write": 0,
    "between shards": 40,
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, prefect_server):
    del prefect_server
    return World.make(tmp_path_factory.mktemp("undisturbed"), str(PREFECT_API_URL.value()))


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_evaluation_is_gone_on_with(undisturbed, point):
    trial = run_trial(undisturbed, point)
    assert trial.fired
    assert trial.problems == []
    assert trial.n_finished == KEPT.get(point, 2 * N_ROWS)
    assert trial.n_again == 2 * N_ROWS - trial.n_finished
