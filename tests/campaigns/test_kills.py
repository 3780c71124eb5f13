"""An evaluation killed at any point loses nothing: the next run resumes it.

Points of each kind; `python -m benchmarks.campaigns.kills` has all.
"""

import pytest
from prefect.settings import PREFECT_API_URL

from benchmarks.campaigns.kills import N_ROWS, World, run_trial

pytestmark = pytest.mark.slow
# Rows of both candidates in whole shards by then.
KEPT = {
    "during a shard's write": 0,
    "between shards": 40,
    "between scoring and tracking": 2 * N_ROWS,
    "tracking: its files are logged": 2 * N_ROWS,
    "tracking: the champion has moved": 2 * N_ROWS,
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, prefect_server):
    del prefect_server
    return World.make(tmp_path_factory.mktemp("undisturbed"), str(PREFECT_API_URL.value()))


@pytest.mark.parametrize(("point", "n_kept"), KEPT.items())
def test_a_killed_evaluation_is_gone_on_with(undisturbed, point, n_kept):
    trial = run_trial(undisturbed, point)
    assert trial.n_fired
    assert trial.problems == []
    assert trial.n_finished == n_kept
    assert trial.n_again == 2 * N_ROWS - n_kept
