"""Counts of shards in an object store equal those of files, and errors quote no secrets."""

import hashlib
import tempfile
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from support.s3 import serving_s3
from support.shards import N_SHARDS, POLICY, frame, write_file, write_shards

from biasgate.tasks.common.errors import InputError, SourceError
from biasgate.tasks.counting import stores
from biasgate.tasks.counting.results import judge_counts
from biasgate.tasks.counting.settings import read_count_file
from biasgate.tasks.counting.shards import add_shard, count_shard

SECRET = "hunter2hunter2"  # noqa: S105
DAY = "s3://chats/day 1/*.parquet"


@pytest.fixture(scope="module")
def s3():
    with serving_s3("chats") as client:
        yield client


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    yield tmp_path
    assert not list((tmp_path / "tmp").iterdir())


def uploaded(s3, home, prefix="day 1/"):
    """Upload the shards of a folder; return their digests as a manifest has them."""
    lines = []
    for path in sorted((home / "shards").iterdir()):
        s3.put_object(Bucket="chats", Key=prefix + path.name, Body=path.read_bytes())
        lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    return "".join(lines)


def count(path):
    settings, policy = read_count_file(path)
    total = None
    for shard in settings.list_shards():
        counts = count_shard.fn(settings, shard, "out/counts", send=False)
        total = add_shard(total, counts, "out/counts")
    return total, settings, policy


def test_counts_are_those_of_the_same_files(s3, home):
    here, *_ = count(write_shards(home))
    manifest = uploaded(s3, home)
    s3.put_object(Bucket="chats", Key="day 1/.hidden.parquet", Body=b"no shard")
    s3.put_object(Bucket="chats", Key="day 1/below/part-9.parquet", Body=b"no shard")
    s3.put_object(Bucket="chats", Key="sums/shards.sha256", Body=manifest.encode())
    path = write_file(home, path=DAY, manifest="s3://chats/sums/shards.sha256")
    for kept in Path("out/counts").iterdir():
        kept.unlink()
    total, settings, policy = count(path)
    assert total.to_bytes() == here.to_bytes()
    verdict = judge_counts.fn(total, settings, policy, "out")
    assert verdict.counts.n_shards == N_SHARDS
    s3.put_object(Bucket="chats", Key="day 1/part-0.parquet", Body=b"another")
    evidence = Path("out/evidence.counts").read_bytes()
    s3.put_object(Bucket="chats", Key="days/1/evidence.counts", Body=evidence)
    s3.put_object(Bucket="chats", Key="days/1/other.counts", Body=b"another")
    again = write_file(home, path="s3://chats/days/*/evidence.counts")
    assert count(again)[0].counts["candidate"].to_bytes() == total.counts["candidate"].to_bytes()
    earlier = write_file(home, earlier="s3://chats/days/*/evidence.counts")
    with pytest.raises(InputError, match=r"`earlier` must be counts of the same set on other days"):
        judge_counts.fn(*count(earlier), "out")


def test_csv_is_read_from_a_store(s3, home):
    (home / "shards").mkdir()
    for number in range(2):
        frame(number).to_csv(home / f"shards/c [{number}]%.csv.gz", index=False)
    uploaded(s3, home, "csv/")
    total, *_ = count(write_file(home, path="s3://chats/csv/c*.csv.gz", policy="default"))
    assert [shard.name for shard in total.record.shards] == ["c [0]%.csv.gz", "c [1]%.csv.gz"]
    local, *_ = count(write_file(home, path="shards/*", policy="default"))
    assert local.to_bytes() == total.to_bytes()


def test_a_file_url_is_a_path(home):
    here, *_ = count(write_shards(home))
    (home / "a folder").mkdir()
    (home / "shards").rename(home / "a folder/shards")
    url = f"file://{str(home).replace(' ', '%20')}/a%20folder/shards/*.parquet"
    assert count(write_file(home, path=url))[0].to_bytes() == here.to_bytes()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            f"s3://key:{SECRET}@chats/*.parquet",
            "must not contain credentials: set AWS_ACCESS_KEY_ID",
        ),
        ("https://host/*.parquet", r"must start with s3://bucket/…, gs://bucket/… or file:///…"),
        ("file://host/a.parquet", r"must start with s3://bucket/…"),
        ("s3://*/a.parquet", "must name a bucket"),
        ("s3://chats", "must name a bucket"),
        ("s3://chats/none/*.parquet", "`path` must name files.*; s3://chats/none/.* names none"),
        ("s3://chats/none.parquet", "`path` must name files"),
        ("s3://nobody/*.parquet", "must be in an existing bucket"),
        (f"s3://chats/a.parquet?secret_key={SECRET}", "must be a URL that pyarrow reads"),
    ],
)
def test_what_is_no_shard_in_a_store_is_refused(s3, home, url, told):
    del s3
    write_shards(home)
    with pytest.raises(InputError, match=told) as refused:
        read_count_file(write_file(home, path=url))
    assert refused.value.__suppress_context__ or refused.value.__cause__ is None
    if "@" in url:
        assert SECRET not in str(refused.value)


def test_an_error_in_an_object_names_its_url_and_not_the_copy(s3, home):
    write_shards(home)
    pd.DataFrame({"id": [1]}).to_parquet("shards/part-0.parquet")
    uploaded(s3, home, "wrong/")
    with pytest.raises(InputError, match=r"s3://chats/wrong/part-0\.parquet") as refused:
        read_count_file(write_file(home, path="s3://chats/wrong/*.parquet"))
    assert "biasgate-shard" not in str(refused.value)
    with pytest.raises(InputError, match="must be an object in the store; it was not found"):
        read_count_file(
            write_file(home, path="s3://chats/wrong/part-1.parquet", manifest="s3://chats/no")
        )


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "jsonl"])
def test_a_column_that_a_later_shard_lacks_is_told_before_any_is_counted(s3, home, ending):
    (home / "shards").mkdir()
    for number in range(3):
        rows = frame(number).drop(columns="old" if number == 2 else [])
        path = home / f"shards/part-{number}.{ending}"
        if ending == "parquet":
            rows.to_parquet(path)
        elif ending == "jsonl":
            rows.to_json(path, orient="records", lines=True)
        else:
            rows.to_csv(path, index=False)
    (home / "own.yaml").write_text(yaml.safe_dump(POLICY))
    uploaded(s3, home, f"lacking-{ending}/")
    url = f"s3://chats/lacking-{ending}/*.{ending}"
    with pytest.raises(InputError, match=rf"part-2\.{ending} must have the column 'old'"):
        read_count_file(write_file(home, path=url))


def test_of_parquet_and_csv_the_rows_are_not_copied_to_check_columns(s3, home, monkeypatch):
    write_shards(home)
    pd.concat([frame(0)] * 10).to_csv("shards/large.csv", index=False)
    uploaded(s3, home, "columns/")
    monkeypatch.setattr(stores, "_copy", lambda *_: pytest.fail("a whole shard was copied"))
    read_count_file(write_file(home, path="s3://chats/columns/*"))


class Denying(BaseHTTPRequestHandler):
    """A store that denies access, with secrets in its messages."""

    def do_GET(self):
        body = f"<Error><Code>AccessDenied</Code><Message>{SECRET}</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


def test_a_store_that_denies_access_says_which_credentials_to_set(home, monkeypatch):
    write_shards(home)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Denying)
    Thread(target=server.serve_forever, daemon=True).start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(home / "none"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    place = f"127.0.0.1%3A{server.server_port}"
    options = f"?endpoint_override={place}&scheme=http&region=us-east-1"
    try:
        with pytest.raises(InputError, match=r"denies access.*AWS_ACCESS_KEY_ID") as error:
            read_count_file(write_file(home, path=f"s3://chats/*.parquet{options}"))
    finally:
        server.shutdown()
        server.server_close()
    assert SECRET not in str(error.value)


class Stream(nullcontext):
    """A stream that reads by calling a function."""

    def read(self, size):
        return self.enter_result(size)


class Breaking:
    """A store whose stream breaks after the first block, or whose object changes meanwhile."""

    def __init__(self, system, how):
        self._system, self._how, self._asked = system, how, 0

    def get_file_info(self, path):
        found = self._system.get_file_info(path)
        self._asked += 1
        size = found.size + (self._how == "changes" and self._asked > 1)
        return SimpleNamespace(size=size, mtime_ns=found.mtime_ns)

    def open_input_stream(self, path, **options):
        stream = self._system.open_input_stream(path, **options)
        if self._how == "changes":
            return stream
        blocks = iter([stream.read(100)])

        def read(_):
            for block in blocks:
                return block
            msg = f"AWS Error NETWORK_CONNECTION during GetObject operation: {SECRET}"
            raise OSError(msg)

        stream.close()
        return Stream(read)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("breaks", r"the store of s3://chats/.*part-1.parquet must answer.*\(NETWORK_CONNECTION\)"),
        ("changes", r"part-1.parquet must not change while it is read"),
    ],
)
def test_a_store_that_fails_in_the_middle_is_asked_again_and_nothing_counts_twice(
    s3, home, monkeypatch, how, told
):
    here, *_ = count(write_shards(home))
    uploaded(s3, home, f"{how}/")
    settings, _ = read_count_file(write_file(home, path=f"s3://chats/{how}/*.parquet"))
    first, second, third = settings.list_shards()
    for path in Path("out/counts").iterdir():
        path.unlink()
    total = add_shard(None, count_shard.fn(settings, first, "out/counts", send=False), "out/counts")
    with monkeypatch.context() as patch:
        real = stores._open_store
        patch.setattr(
            stores, "_open_store", lambda url: (Breaking(real(url)[0], how), real(url)[1])
        )
        with pytest.raises(SourceError, match=told) as failed:
            count_shard.fn(settings, second, "out/counts", send=False)
    assert SECRET not in str(failed.value)
    assert not list(Path("tmp").iterdir())
    assert len(list(Path("out/counts").iterdir())) == 1
    for shard in (second, third):
        counts = count_shard.fn(settings, shard, "out/counts", send=False)
        total = add_shard(total, counts, "out/counts")
    assert total.to_bytes() == here.to_bytes()
    with pytest.raises(InputError, match="a shard must be counted once"):
        add_shard(total, counts, "out/counts")


def test_a_shard_that_was_counted_is_copied_but_not_counted_again(s3, home, monkeypatch):
    write_shards(home)
    uploaded(s3, home)
    path = write_file(home, path=DAY)
    once, *_ = count(path)
    monkeypatch.setattr(
        "biasgate.tasks.counting.shards.count_scores", lambda *_: pytest.fail("again")
    )
    assert count(path)[0].to_bytes() == once.to_bytes()
