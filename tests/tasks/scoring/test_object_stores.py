"""Two runs that make the same shard on an object store: one is kept, and both use it."""

import errno
import threading
import uuid

import fsspec
import numpy as np
import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.frozen import freeze_table
from support.s3 import serving_s3

from biasgate.tasks.common.errors import CandidateError
from biasgate.tasks.common.folders import Folder
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.outcomes import PartlyScored
from biasgate.tasks.scoring.scored import locate_shards, score_rows, score_shards
from biasgate.tasks.scoring.scorer import Scorer

N, SHARD = 12, 4
SETTINGS = CANDIDATES.validate_python(
    {"name": "one", "kind": "scores", "path": "unused.csv", "rows_a_shard": SHARD}
)


class Drifting(Scorer):
    """Adds a constant to all scores, as the rounding of another GPU may."""

    columns = ("id",)
    digest = "a" * 64
    precision = "float32"

    def __init__(self, drift, before=lambda: None, changed=()):
        self.drift, self.before, self.changed = drift, before, list(changed)

    def score(self, rows):
        self.before()
        return np.arange(rows.num_rows) / 100 + self.drift

    def refuse_changes(self):
        if self.changed and self.changed.pop():
            raise CandidateError("the model's files changed")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    table = pd.DataFrame({"id": [f"c{i:02}" for i in range(N)]})
    return freeze_table(table, tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def s3():
    s3fs = pytest.importorskip("s3fs")
    with serving_s3("scores") as client:
        yield client
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def bucket(s3):
    del s3
    return f"s3://scores/{uuid.uuid4().hex}"


def score(scorer, rows, root):
    return score_rows(scorer, rows, SETTINGS, root).table()["score"].to_pylist()


def test_a_run_that_is_overtaken_on_s3_uses_what_the_faster_one_kept(rows, bucket):
    kept = []

    def overtake():
        if not kept:
            kept.append(score(Drifting(0.5), rows, bucket))

    assert score(Drifting(0.0, overtake), rows, bucket) == kept[0]


def test_of_two_writers_of_one_shard_on_s3_exactly_one_wins(rows, bucket):
    both, ids = threading.Barrier(2), rows.column("id")[:SHARD].combine_chunks()
    won, read = {}, {}

    def write(number):
        shards = locate_shards(Drifting(number), rows, bucket)
        for shard in range(5):
            both.wait()
            won[number, shard] = shards.write(
                shard, ids, PartlyScored(np.full(SHARD, float(number)))
            )
            both.wait()
            read[number, shard] = shards.read(shard)["score"].to_pylist()

    writers = [threading.Thread(target=write, args=(number,)) for number in (0, 1)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    for shard in range(5):
        [winner] = [number for number in (0, 1) if won[number, shard]]
        assert read[0, shard] == read[1, shard] == [float(winner)] * SHARD


def test_a_damaged_shard_on_s3_is_replaced(rows, bucket, s3):
    first = score(Drifting(0.0), rows, bucket)
    shards = locate_shards(Drifting(0.0), rows, bucket)
    key = shards.folder.url.removeprefix("s3://scores/") + "/000001.parquet"
    s3.put_object(Bucket="scores", Key=key, Body=b"torn")
    assert score(Drifting(0.5), rows, bucket)[SHARD : 2 * SHARD] == [0.5, 0.51, 0.52, 0.53]
    assert score(Drifting(0.9), rows, bucket)[:SHARD] == first[:SHARD]


def test_a_run_whose_model_changed_removes_only_its_own_shards(rows, bucket):
    faster = Drifting(0.5)
    shards = locate_shards(faster, rows, bucket)

    def overtake():
        score_shards(faster, rows, SETTINGS, shards, [0])

    # After the first call in each of two shards it is unchanged, at the end no longer.
    changing = Drifting(0.0, overtake, changed=[True, False, False])
    with pytest.raises(CandidateError, match="changed"):
        score_shards(changing, rows, SETTINGS, shards, [0, 1])
    assert shards.read(0)["score"].to_pylist() == [0.5, 0.51, 0.52, 0.53]
    assert shards.read(1) is None


class WithoutMode(MemoryFileSystem):
    """A store without exclusive create in its fsspec implementation."""

    protocol = "withoutmode"

    def pipe_file(self, path, value):
        super().pipe_file(path, value)


class Refusing(MemoryFileSystem):
    """A store that answers 501 to an exclusive create, as s3fs passes it on."""

    protocol = "refusing"

    def pipe_file(self, path, value, mode="overwrite"):
        if mode == "create":
            raise OSError(errno.ENOSYS, "A header you provided implies functionality ...")
        super().pipe_file(path, value)


class Colliding(MemoryFileSystem):
    """A store that first refuses two simultaneous writers, as S3 does with 409."""

    protocol = "colliding"
    refusals = 0

    def pipe_file(self, path, value, mode="overwrite"):
        if mode == "create" and Colliding.refusals:
            Colliding.refusals -= 1
            raise OSError(errno.EIO, "ConditionalRequestConflict")
        super().pipe_file(path, value, mode)


@pytest.fixture(params=[WithoutMode, Refusing])
def unable(request):
    fsspec.register_implementation(request.param.protocol, request.param, clobber=True)
    yield f"{request.param.protocol}://{uuid.uuid4().hex}"
    request.param.store.clear()


def test_a_store_without_exclusive_creates_keeps_the_last_one(rows, unable):
    assert score(Drifting(0.0), rows, unable)[:2] == [0.0, 0.01]
    folder = Folder(unable)
    assert folder.create("file", b"first")
    assert folder.create("file", b"second")
    assert folder.read("file") == b"second"


@pytest.mark.parametrize(("before", "wrote"), [(None, True), (b"first", False)])
def test_a_writer_who_collides_tries_again(before, wrote, monkeypatch):
    fsspec.register_implementation("colliding", Colliding, clobber=True)
    folder = Folder(f"colliding://{uuid.uuid4().hex}")
    if before:
        folder.write("file", before)
    monkeypatch.setattr(Colliding, "refusals", 1)
    assert folder.create("file", b"mine") is wrote
    assert folder.read("file") == (before or b"mine")
