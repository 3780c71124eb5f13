"""Several calls of `score` at a time: the device never waits, and no row is lost or doubled."""

import threading
import time
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from support.frozen import freeze_table

from biasgate.tasks.common.errors import CandidateError
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import open_mapper, score_rows
from biasgate.tasks.scoring.scorer import Scorer

N, ROWS = 60, 10
SETTINGS = CANDIDATES.validate_python(
    {"name": "one", "kind": "scores", "path": "unused.csv", "rows_a_shard": ROWS}
)


class PairedScorer(Scorer):
    """Scores only if two threads call it at the same time."""

    columns = ("id",)
    at_once = 2
    digest = "a" * 64

    def __init__(self, fails_at=None):
        self.pair, self.fails_at, self.asked = threading.Barrier(2), fails_at, []

    def score(self, rows):
        with suppress(threading.BrokenBarrierError):
            self.pair.wait(timeout=60)
        ids = rows.column("id").to_pylist()
        if self.fails_at in ids:
            self.pair.abort()  # other threads stop waiting
            raise ConnectionError("gone")
        self.asked += ids
        return np.array([int(one[1:]) / 1000 for one in ids])


class SingleScorer(PairedScorer):
    """Scores in the caller's thread."""

    at_once = 1

    def __init__(self):
        super().__init__()
        self.pair, self.threads = threading.Barrier(1), set()

    def score(self, rows):
        self.threads.add(threading.current_thread())
        return super().score(rows)


@pytest.fixture
def rows(tmp_path):
    return freeze_table(pd.DataFrame({"id": [f"c{i:03}" for i in range(N)]}), tmp_path)


def score_set(scorer, rows, tmp_path):
    return score_rows(scorer, rows, SETTINGS, str(tmp_path / "scores"))


def test_two_shards_are_scored_at_a_time_and_every_row_once(rows, tmp_path):
    scorer = PairedScorer()
    table = score_set(scorer, rows, tmp_path).table()
    assert table["id"].to_pylist() == rows.column("id").to_pylist()
    assert table["score"].to_pylist() == [at / 1000 for at in range(N)]
    assert sorted(scorer.asked) == rows.column("id").to_pylist()
    assert not scorer.pair.broken


def test_most_kinds_score_in_the_thread_of_the_caller(rows, tmp_path):
    scorer = SingleScorer()
    score_set(scorer, rows, tmp_path)
    assert scorer.threads == {threading.current_thread()}


def test_the_other_shard_of_a_pair_is_kept_when_one_fails(rows, tmp_path):
    failing = PairedScorer(fails_at="c025")
    with pytest.raises(CandidateError, match="ConnectionError"):
        score_set(failing, rows, tmp_path)
    assert len(failing.asked) % ROWS == 0
    again = SingleScorer()
    table = score_set(again, rows, tmp_path).table()
    assert table["score"].to_pylist() == [at / 1000 for at in range(N)]
    assert sorted(failing.asked + again.asked) == rows.column("id").to_pylist()


@pytest.mark.parametrize("at_once", [1, 3])
def test_results_come_in_the_order_of_the_values(at_once):
    def multiply_slowly(value):
        time.sleep(0.02 * (4 - value))
        return value * 10

    with open_mapper(at_once) as each:
        assert list(each(multiply_slowly, range(5))) == [0, 10, 20, 30, 40]


def test_after_an_error_no_other_call_begins():
    begun = []

    def fail_first(value):
        begun.append(value)
        if value == 0:
            raise ValueError("first")
        time.sleep(0.2)

    with pytest.raises(ValueError, match="first"), open_mapper(2) as each:
        list(each(fail_first, range(50)))
    assert len(begun) <= 4
