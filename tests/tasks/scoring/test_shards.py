"""Shards: finished work is kept, anything doubtful is scored again, nothing is mixed up."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest
from support.frozen import freeze_table
from support.partial import partial

from biasgate.tasks.common.errors import CandidateError, InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.outcomes import PartlyScored
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.scoring.scorer import Scorer

N, ROWS = 60, 8
N_SHARDS = 8  # 60 rows, 8 a shard
SETTINGS = CANDIDATES.validate_python(
    {"name": "one", "kind": "scores", "path": "unused.csv", "rows_a_shard": ROWS}
)


class Counting(Scorer):
    """Scores row `c017` with 0.017, truncates every third row, and records the rows."""

    columns = ("id",)

    def __init__(self, digest="a" * 64, *, fails_at=None, precision="float64"):
        self.digest = digest
        self.precision = precision
        self.fails_at = fails_at
        self.asked = []

    def score(self, rows):
        ids = rows.column("id").to_pylist()
        if self.fails_at in ids:
            raise ConnectionError("gone")
        self.asked += ids
        numbers = np.array([int(row_id[1:]) for row_id in ids])
        return PartlyScored(numbers / 1000, truncated=numbers % 3 == 0)


def freeze_ids(tmp_path, order, name="rows"):
    table = pd.DataFrame({"id": [f"c{i:03}" for i in order], "label": np.array(order) % 2})
    return freeze_table(table, tmp_path, name)


@pytest.fixture
def rows(tmp_path):
    return freeze_ids(tmp_path, np.random.default_rng(1).permutation(N))


@pytest.fixture(params=["folder", "memory"])
def root(request, tmp_path):
    if request.param == "folder":
        yield str(tmp_path / "scores")
        return
    yield "memory://scores"
    fsspec.filesystem("memory").rm("/scores", recursive=True)


def score(scorer, rows, root):
    return score_rows(scorer, rows, SETTINGS, root)


def read_files(scored):
    system, path = fsspec.core.url_to_fs(scored.url)
    return {
        file.rsplit("/", 1)[-1]: system.cat_file(file)
        for file in system.ls(path, detail=False)
        if file.endswith((".parquet", ".json"))
    }


def replace_file(scored, name, content):
    system, path = fsspec.core.url_to_fs(scored.url)
    if content is None:
        system.rm_file(f"{path}/{name}")
    else:
        system.pipe_file(f"{path}/{name}", content)


def check_scores(scored, rows):
    table = scored.table()
    ids = rows.column("id").to_pylist()
    assert table["id"].to_pylist() == ids
    numbers = [int(row_id[1:]) for row_id in ids]
    assert table["score"].to_pylist() == [number / 1000 for number in numbers]
    assert table["truncated"].to_pylist() == [number % 3 == 0 for number in numbers]


def test_every_row_is_scored_once_in_shards_of_bounded_size(rows, root):
    scorer = Counting()
    scored = score(scorer, rows, root)
    check_scores(scored, rows)
    assert sorted(scorer.asked) == sorted(rows.column("id").to_pylist())
    assert sorted(read_files(scored)) == [
        *(f"{i:06}.parquet" for i in range(N_SHARDS)),
        "record.json",
    ]


def test_the_record_tells_candidate_set_and_precision(rows, root):
    scored = score(Counting(precision="bfloat16"), rows, root)
    record = json.loads(read_files(scored)["record.json"])
    assert datetime.now(UTC) - datetime.fromisoformat(record.pop("made")) < timedelta(minutes=5)
    assert record.pop("rows_per_second") > 0
    assert record == {
        "candidate_digest": "a" * 64,
        "set_digest": rows.digest,
        "precision": "bfloat16",
        "n_rows": N,
        "n_shards": N_SHARDS,
        "bound": Counting().bound.to_dict(),
    }
    assert ScoredSet.open(scored.url).precision == "bfloat16"


def test_unchanged_inputs_score_nothing(rows, root):
    first = read_files(score(Counting(), rows, root))
    again = Counting()
    assert read_files(score(again, rows, root)) == first
    assert again.asked == []


def test_another_candidate_or_set_shares_nothing(rows, root, tmp_path):
    score(Counting(), rows, root)
    other = Counting("b" * 64)
    score(other, rows, root)
    assert len(other.asked) == N
    scorer = Counting()
    score(scorer, freeze_ids(tmp_path, range(N + 1), "more"), root)
    assert len(scorer.asked) == N + 1


def test_a_digest_that_only_begins_alike_shares_nothing(rows, root):
    score(Counting("a" * 64), rows, root)
    other = Counting("a" * 16 + "b" * 48)
    check_scores(score(other, rows, root), rows)
    assert len(other.asked) == N


def test_the_same_rows_in_another_order_are_never_mixed(rows, root, tmp_path):
    failing = Counting(fails_at=rows.column("id")[N - 1].as_py())
    with pytest.raises(CandidateError):
        score(failing, rows, root)
    sorted_rows = freeze_ids(tmp_path, range(N), "sorted")
    assert sorted_rows.digest == rows.digest
    check_scores(score(Counting(), sorted_rows, root), sorted_rows)


def test_a_run_that_failed_is_resumed_where_it_was(rows, root):
    failing = Counting(fails_at=rows.column("id")[20].as_py())
    with pytest.raises(CandidateError):
        score(failing, rows, root)
    resumed = Counting()
    check_scores(score(resumed, rows, root), rows)
    assert not set(resumed.asked) & set(failing.asked)
    assert len(resumed.asked) + len(failing.asked) == N


def damage_content(content):
    yield "torn", content[: len(content) // 2]
    yield "empty", b""
    yield "no parquet", b"x" * len(content)
    for at in range(4, len(content) - 4, max(1, len(content) // 20)):
        yield f"byte {at}", content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


def test_a_torn_or_altered_shard_is_found_and_only_that_is_made_again(rows, root):
    scored = score(Counting(), rows, root)
    good = read_files(scored)["000003.parquet"]
    ids = rows.column("id").to_pylist()[3 * ROWS : 4 * ROWS]
    for what, content in damage_content(good):
        replace_file(scored, "000003.parquet", content)
        again = Counting()
        check_scores(score(again, rows, root), rows)
        # Some bytes of a Parquet file say nothing (padding, the writer's name).
        assert again.asked in ([], ids), what
        if len(content) != len(good) or what == "no parquet":
            assert again.asked == ids, what


class Silent(Counting):
    """Does not report truncated comments."""

    def score(self, rows):
        return super().score(rows).scores


def test_truncation_is_unknown_unless_a_model_reports_it_or_reads_whole_comments(rows, root):
    assert score(Silent(), rows, root).table().column_names == ["id", "score"]
    reading = Silent("b" * 64)
    reading.reads_whole = True
    assert score(reading, rows, root).table()["truncated"].to_pylist() == [False] * N


@pytest.mark.parametrize(
    ("column", "edit"), [("score", lambda one: one + 0.5), ("truncated", np.logical_not)]
)
def test_what_is_edited_in_good_parquet_is_found(rows, root, column, edit):
    scored = score(Counting(), rows, root)
    system, path = fsspec.core.url_to_fs(scored.url)
    with system.open(f"{path}/000002.parquet", "rb") as stream:
        frame = pd.read_parquet(stream)
    frame[column] = edit(frame[column])
    with system.open(f"{path}/000002.parquet", "wb") as stream:
        frame.to_parquet(stream)
    assert ScoredSet.load(scored.url) is None
    with pytest.raises(InputError, match="number 2 is not"):
        scored.table()
    check_scores(score(Counting(), rows, root), rows)


def remove_times(files):
    """Return files of scores without the time and the rate in their record."""
    record = json.loads(files["record.json"])
    return files | {"record.json": record | {"made": None, "rows_per_second": None}}


@pytest.mark.parametrize("name", ["record.json", "000005.parquet"])
def test_a_file_that_is_gone_is_made_again(rows, root, name):
    scored = score(Counting(), rows, root)
    before = read_files(scored)
    replace_file(scored, name, None)
    again = Counting()
    check_scores(score(again, rows, root), rows)
    assert len(again.asked) == (0 if name == "record.json" else ROWS)
    assert remove_times(read_files(scored)) == remove_times(before)


def test_a_shard_under_another_number_is_found(rows, root):
    scored = score(Counting(), rows, root)
    replace_file(scored, "000001.parquet", read_files(scored)["000000.parquet"])
    check_scores(score(Counting(), rows, root), rows)


def test_a_copied_folder_of_another_candidate_is_not_believed(rows, root):
    good = score(Counting(), rows, root)
    system, path = fsspec.core.url_to_fs(good.url)
    system.copy(path, path.replace("a" * 16, "b" * 16), recursive=True)
    other = Counting("b" * 64)
    assert score(other, rows, root).candidate_digest == "b" * 64
    assert len(other.asked) == N


def test_two_runs_at_once_score_every_row_once(rows, tmp_path):
    scorers = [Counting(), Counting()]
    for one in scorers:
        quick = one.score
        one.score = lambda rows, quick=quick: (time.sleep(0.01), quick(rows))[1]
    runs = [
        threading.Thread(target=score, args=(one, rows, str(tmp_path / "scores")))
        for one in scorers
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert sorted(scorers[0].asked + scorers[1].asked) == sorted(rows.column("id").to_pylist())
    idle = Counting()
    check_scores(score(idle, rows, str(tmp_path / "scores")), rows)
    assert idle.asked == []


SLOW_RUN = """
import sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1], sys.argv[2], sys.argv[2] + "/tests"]
import test_shards as t
class Slow(t.Counting):
    def score(self, rows):
        time.sleep(0.05)
        print("scored", flush=True)
        return super().score(rows)
t.score(Slow(), t.EvaluationSet.load(Path(sys.argv[3])), sys.argv[4])
"""


def test_a_killed_run_leaves_whole_shards_and_no_others(rows, tmp_path):
    root = str(tmp_path / "scores")
    here = Path(__file__).resolve()
    command = [sys.executable, "-c", SLOW_RUN, str(here.parent), str(here.parents[3])]
    command += [str(rows.folder), root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as process:
        for _ in range(4):  # the first three shards are written, the fourth may be
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    # A shard that was being written lies in a hidden folder, under the name that it would get.
    found = Path(root).rglob("[0-9]*.parquet")
    kept = sum(not path.parent.name.startswith(".") for path in found)
    assert kept in {3, 4}
    again = Counting()
    check_scores(score(again, rows, root), rows)
    assert N_SHARDS * ROWS - kept * ROWS >= len(again.asked) >= N - kept * ROWS


@pytest.mark.parametrize(("start", "n_rows"), [(0, 60), (0, 7), (9, 10), (55, 10), (19, 2)])
def test_rows_are_read_from_anywhere_across_row_groups(tmp_path, monkeypatch, start, n_rows):
    monkeypatch.setattr("biasgate.tasks.data.evaluation_set._GROUP_ROWS", 10)
    rows = freeze_ids(tmp_path, range(N))
    wanted = [f"c{i:03}" for i in range(N)][start : start + n_rows]
    assert rows.read_rows(["id"], start, n_rows)["id"].to_pylist() == wanted
    assert isinstance(rows, EvaluationSet)


def test_scores_in_half_and_single_precision_are_not_comparable():
    def make_scored(precision):
        return ScoredSet("", partial({"precision": precision}))

    assert make_scored("float64").is_comparable(make_scored("float32"))
    assert make_scored("bfloat16").is_comparable(make_scored("bfloat16"))
    assert not make_scored("float32").is_comparable(make_scored("bfloat16"))
    assert not make_scored("float16").is_comparable(make_scored("bfloat16"))
