"""The flow on a Dask cluster, selected by an option of the command."""

import pytest
from prefect.settings import PREFECT_API_URL
from support.cluster import evaluate_on_cluster, kill_worker, scores_in

from benchmarks.campaigns.kills import N_ROWS, World, score_bytes, wrong_runs

pytestmark = pytest.mark.slow
GPU = ("--resources", "GPU=1")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, prefect_server):
    del prefect_server
    return World.make(tmp_path_factory.mktemp("undisturbed"), str(PREFECT_API_URL.value()))


def test_workers_with_the_resources_share_a_candidate_and_give_the_same_scores(
    undisturbed, tmp_path
):
    workers = {"first": GPU, "second": GPU, "without": ()}
    # None scores before two have begun.
    code, asked = evaluate_on_cluster(
        tmp_path, undisturbed, workers, meeting=2, resources={"GPU": 1}, tags=["gpu"]
    )
    assert code == 0, (tmp_path / "command.log").read_text()[-3000:]
    assert asked.keys() == {"first", "second"}
    every = [text for texts in asked.values() for text in texts]
    assert sorted(every) == sorted(f"comment {number}" for number in range(N_ROWS))
    assert scores_in(tmp_path / "store") == {score_bytes(scores) for scores in undisturbed.scored()}
    assert list(wrong_runs(tmp_path / "store")) == []


def test_a_killed_worker_costs_the_shard_that_it_was_at(undisturbed):
    trial = kill_worker(undisturbed)
    assert trial.n_fired
    assert trial.problems == []
