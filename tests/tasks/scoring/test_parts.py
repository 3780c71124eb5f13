"""Ranges of shards for workers: every shard once, and none if nothing is missing."""

from contextlib import contextmanager

import pandas as pd
import pytest
from prefect.task_runners import ThreadPoolTaskRunner
from support.frozen import freeze_table

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import make_task_runner
from biasgate.tasks.scoring import scored as module
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_candidate
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.store import Workplace

N = 500


@pytest.fixture
def rows(tmp_path):
    table = pd.DataFrame({"id": [f"c{i}" for i in range(N)]})
    table.assign(prediction=table.index / N).to_csv(tmp_path / "scores.csv", index=False)
    return str(freeze_table(table, tmp_path).folder)


@pytest.fixture
def store(tmp_path):
    return Workplace(tmp_path / "store")


@pytest.fixture
def make_candidate(tmp_path):
    def make(rows_a_shard):
        path = str(tmp_path / "scores.csv")
        settings = {"name": "one", "kind": "scores", "path": path}
        return CANDIDATES.validate_python(settings | {"rows_a_shard": rows_a_shard})

    return make


@pytest.fixture
def spread(monkeypatch):
    monkeypatch.setattr(module, "is_distributed", lambda: True)


@pytest.mark.usefixtures("spread")
@pytest.mark.parametrize(
    ("rows_a_shard", "n_shards", "n_parts"), [(1000, 1, 1), (100, 5, 5), (10, 50, 32), (1, N, 32)]
)
def test_every_shard_is_in_one_range(rows, store, make_candidate, rows_a_shard, n_shards, n_parts):
    shared = module.divide_shards.fn(make_candidate(rows_a_shard), rows, store)
    ranges = [range(one.first, one.last + 1) for one in shared]
    assert len(shared) == n_parts
    assert [number for one in ranges for number in one] == list(range(n_shards))
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


@pytest.mark.usefixtures("spread")
def test_what_workers_made_is_not_made_again(rows, store, make_candidate, monkeypatch):
    for part in module.divide_shards.fn(make_candidate(100), rows, store):
        module.score_part.fn(part, make_candidate(100), rows, store)
    monkeypatch.setattr(
        "biasgate.tasks.scoring.kinds.score_file.ScoreTable.score", lambda *_: 1 / 0
    )
    scored = ScoredSet.open(score_candidate.fn(make_candidate(100), rows, store))
    assert scored.table()["score"].to_pylist() == [i / N for i in range(N)]
    assert module.divide_shards.fn(make_candidate(100), rows, store) == []


@pytest.mark.usefixtures("spread")
def test_a_worker_tells_its_progress_through_its_own_range(
    rows, store, make_candidate, monkeypatch
):
    told = []

    @contextmanager
    def record_progress(what, *, total, unit, always):
        assert (unit, always) == ("rows", True)
        assert what.endswith(f" on rows, shards {len(told)} to {len(told)}")
        told.append([total, 0])
        yield lambda n: told[-1].__setitem__(1, told[-1][1] + n)

    monkeypatch.setattr("biasgate.tasks.scoring.scored.show_progress", record_progress)
    for part in module.divide_shards.fn(make_candidate(120), rows, store):
        module.score_part.fn(part, make_candidate(120), rows, store)
    assert told == [[120, 120]] * 4 + [[20, 20]]


@pytest.mark.usefixtures("spread")
def test_workers_write_where_the_flow_says_whatever_their_own_environment(
    rows, store, make_candidate, monkeypatch, tmp_path
):
    monkeypatch.setenv("BIASGATE_SCORES", str(tmp_path / "elsewhere"))
    shared = module.divide_shards.fn(make_candidate(100), rows, store)
    monkeypatch.delenv("BIASGATE_SCORES")
    for part in shared:
        module.score_part.fn(part, make_candidate(100), rows, store)
    assert len(list((tmp_path / "elsewhere").rglob("*.parquet"))) == 5
    assert not (tmp_path / "store" / "scores").exists()


def test_in_one_process_nothing_is_shared_out(rows, store, make_candidate):
    assert module.divide_shards.fn(make_candidate(10), rows, store) == []


def test_tasks_run_in_threads_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.delenv("BIASGATE_TASK_RUNNER", raising=False)
    assert make_task_runner() is None
    monkeypatch.setenv("BIASGATE_TASK_RUNNER", "prefect.task_runners:ThreadPoolTaskRunner")
    monkeypatch.setenv("BIASGATE_TASK_RUNNER_OPTIONS", '{"max_workers": 3}')
    assert make_task_runner() == ThreadPoolTaskRunner(max_workers=3)


@pytest.mark.parametrize(
    ("named", "options"),
    [
        ("nowhere:Runner", ""),
        ("prefect.task_runners:Nothing", ""),
        ("prefect.task_runners", ""),
        ("prefect.task_runners:ThreadPoolTaskRunner", '{"workers": 3}'),
        ("prefect.task_runners:ThreadPoolTaskRunner", "{"),
    ],
)
def test_a_task_runner_that_is_not_there_is_refused(monkeypatch, named, options):
    monkeypatch.setenv("BIASGATE_TASK_RUNNER", named)
    monkeypatch.setenv("BIASGATE_TASK_RUNNER_OPTIONS", options)
    with pytest.raises(InputError, match=f"BIASGATE_TASK_RUNNER must be .* got '{named}'"):
        make_task_runner()
