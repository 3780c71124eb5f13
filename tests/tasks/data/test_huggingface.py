"""Sets from Hugging Face: Parquet files by path and URL, local repositories, and a hub."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pydantic import ValidationError
from support.hub import COMMIT, serving

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import download, huggingface
from biasgate.tasks.data.freezing import SOURCES, check_source, freeze_source

COMMENTS = [f"comment {n}" for n in range(8)]
OTHER = "f" * 40
OPTIONS = {
    "name": "chats",
    "source": "huggingface",
    "id": "key",
    "text": "text",
    "identities": {"column": "groups", "names": ["gay", "muslim"]},
}
HUB = {"dataset": "acme/chats", "revision": COMMIT, "split": "test"}


def build_rows(start, stop):
    chosen = range(start, stop)
    return pa.table(
        {
            "key": [f"k{n}" for n in chosen],
            "text": COMMENTS[start:stop],
            "label": [n % 2 for n in chosen],
            "groups": [["gay"] if n % 2 else [] for n in chosen],
        }
    )


def make_source(base=None, **options):
    context = None if base is None else {"folder": base}
    return SOURCES.validate_python(OPTIONS | options, context=context)


@pytest.fixture
def files(tmp_path):
    pq.write_table(build_rows(0, 5), tmp_path / "0.parquet")
    pq.write_table(build_rows(5, 8), tmp_path / "1.parquet")
    return tmp_path


def compute_sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_values(frozen, column):
    return frozen.column(column).to_pylist()


def test_parquet_files_become_one_set_in_their_order(files):
    frozen = freeze_source(make_source(files, parquet=["0.parquet", "1.parquet"]), files / "store")
    assert read_values(frozen, "text") == COMMENTS
    assert read_values(frozen, "identity/gay") == [0.0, 1.0] * 4


def test_row_numbers_go_on_in_the_next_file(files):
    chosen = make_source(files, parquet=["0.parquet", "1.parquet"], id="row_number")
    assert read_values(freeze_source(chosen, files / "store"), "id") == [str(n) for n in range(8)]


def test_the_order_of_the_files_counts_where_it_numbers_the_rows(files):
    store = files / "store"
    frozen, other = (
        freeze_source(make_source(files, parquet=names, id="row_number"), store)
        for names in (["0.parquet", "1.parquet"], ["1.parquet", "0.parquet"])
    )
    assert frozen.digest != other.digest


def test_files_of_the_same_name_are_both_read(files):
    (files / "a").mkdir()
    (files / "1.parquet").rename(files / "a" / "0.parquet")
    frozen = freeze_source(
        make_source(files, parquet=["0.parquet", "a/0.parquet"]), files / "store"
    )
    assert frozen.n_rows == 8
    assert len(frozen.record["source"]["files"]) == 2


def test_a_part_is_chosen_by_the_text(files):
    parts = [
        freeze_source(
            make_source(files, parquet=["0.parquet", "1.parquet"], part=part), files / "store"
        )
        for part in ("train", "test")
    ]
    assert sorted(read_values(parts[0], "text") + read_values(parts[1], "text")) == COMMENTS


def test_a_file_at_an_address_is_read_if_its_digest_is_as_written(files, monkeypatch):
    monkeypatch.setattr(download, "WAIT_S", 0.0)
    with serving(files, "acme/chats", kind="datasets") as hub:
        address = f"{hub.url}/datasets/acme/chats/resolve/{COMMIT}/0.parquet"
        pinned = {"url": address, "sha256": compute_sha256(files / "0.parquet")}
        assert freeze_source(make_source(parquet=[pinned]), files / "store").n_rows == 5
        with pytest.raises(InputError, match="must have SHA-256 0000"):
            freeze_source(make_source(parquet=[pinned | {"sha256": "0" * 64}]), files / "store")
    assert freeze_source(make_source(parquet=[pinned]), files / "store").n_rows == 5


def test_a_local_file_of_another_digest_is_refused(files):
    pinned = {"path": "0.parquet", "sha256": "0" * 64}
    with pytest.raises(InputError, match="It is a different file"):
        freeze_source(make_source(files, parquet=[pinned]), files / "store")


def test_a_missing_column_is_refused_by_the_check(files):
    with pytest.raises(InputError, match="must have the column 'comment'"):
        check_source(make_source(files, parquet=["1.parquet"], text="comment"))


def test_without_the_library_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(huggingface, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r'pip install "\.\[huggingface\]"'):
        check_source(make_source(**HUB))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either `dataset`, `folder` or `parquet`"),
        (HUB | {"folder": "repo"}, "give either"),
        (HUB | {"revision": "main"}, "must be the full hash of a commit.*such as 'main'"),
        (HUB | {"revision": COMMIT[:7]}, "must be the full hash of a commit"),
        ({"dataset": "acme/chats", "split": "test"}, "`revision` is the commit of `dataset`"),
        ({"folder": "repo", "revision": COMMIT, "split": "test"}, "`revision` is the commit"),
        (HUB | {"dataset": "csv"}, "should match pattern"),
        (HUB | {"dataset": "../repo/x"}, "should match pattern"),
        (HUB | {"split": None}, "give `split` with `dataset` or `folder`"),
        ({"parquet": ["a.parquet"], "split": "test"}, "not with `parquet`"),
        ({"parquet": ["a.parquet"], "config": "x"}, "`config` belongs to"),
        ({"parquet": []}, "at least 1 item"),
        ({"parquet": ["a.csv"]}, "must be named .parquet"),
        ({"parquet": ["https://acme.example/a.parquet"]}, "pinned by its digest"),
        ({"parquet": [{"url": "https://acme.example/a.parquet"}]}, "needs the file's `sha256`"),
        ({"parquet": [{"url": "ftp://a/b.parquet", "sha256": "0" * 64}]}, "should match pattern"),
        ({"parquet": [{"path": "a.parquet", "url": "https://a/b.parquet"}]}, "`path` or `url`"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        make_source(**options)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return a repository with class codes, two splits and a split in two shards."""
    datasets = pytest.importorskip("datasets")
    folder = tmp_path_factory.mktemp("hub") / "repo"
    classes = datasets.ClassLabel(names=["nontoxic", "toxic"])
    features = datasets.Features(
        {
            "key": datasets.Value("string"),
            "text": datasets.Value("string"),
            "label": classes,
            "groups": datasets.List(datasets.ClassLabel(names=["muslim", "gay"])),
        }
    )
    table = build_rows(0, 8).to_pydict() | {"groups": [[1] if n % 2 else [] for n in range(8)]}
    table["groups"][0] = None
    whole = datasets.Dataset.from_dict(table, features=features)
    (folder / "data").mkdir(parents=True)
    for name, start, stop in (("test-00000-of-00002", 0, 5), ("test-00001-of-00002", 5, 8)):
        whole.select(range(start, stop)).to_parquet(folder / "data" / f"{name}.parquet")
    whole.select(range(2)).to_parquet(folder / "data" / "train-00000-of-00001.parquet")
    return folder


LOCAL = {"folder": "repo", "split": "test", "label_values": {"toxic": 1, "nontoxic": 0}}


def freeze_repository(repository, store, **options):
    return freeze_source(make_source(repository.parent, **LOCAL | options), store)


def read_mtimes(store):
    return {path: path.stat().st_mtime_ns for path in store.rglob("huggingface/*.parquet")}


@pytest.mark.slow
def test_a_local_repository_is_read_with_the_names_of_its_classes(repository, tmp_path):
    frozen = freeze_repository(repository, tmp_path)
    assert read_values(frozen, "text") == COMMENTS
    assert read_values(frozen, "label") == [0.0, 1.0] * 4
    assert read_values(frozen, "identity/gay") == [None, 1.0] + [0.0, 1.0] * 3
    assert read_values(frozen, "identity/muslim") == [None] + [0.0] * 7


@pytest.mark.slow
def test_what_was_read_once_is_not_read_again_until_the_repository_changes(repository, tmp_path):
    freeze_repository(repository, tmp_path)
    mtimes = read_mtimes(tmp_path)
    freeze_repository(repository, tmp_path, label_threshold=0.7)
    assert read_mtimes(tmp_path) == mtimes
    (repository / "README.md").write_text("# Chats\n")
    freeze_repository(repository, tmp_path)
    (repository / "README.md").unlink()
    assert len(list(tmp_path.rglob("huggingface/*.parquet"))) == 2
    assert not list(tmp_path.rglob(".loading-*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tset"}, "must have the split 'tset'; it has train, test. Did you mean 'test'?"),
        ({"config": "big"}, "needs a `config` from .*; it is 'big'"),
        ({"text": "txt"}, "must have the column 'txt'.* Did you mean 'text'?"),
        ({"folder": "none"}, "must be a folder"),
        ({"label_values": None}, r"label_values: \{toxic: 1, nontoxic: 0\}"),
    ],
)
def test_what_a_repository_lacks_is_named(repository, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        freeze_repository(repository, tmp_path, **options)


def write_repository(folder, **files):
    for name, content in files.items():
        path = folder / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder / "repo"


ELSEWHERE = (
    "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: {}\n---\n"
)
CSV = "key,text,label,groups\nk0,secretword,1,gay\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"repo.py": "raise SystemExit('ran')", "t.csv": CSV}, "scripts of data sets are not run"),
        ({"README.md": "# nothing"}, "must have data files in a format of tables"),
        ({"a.txt": "secretword\n"}, "must be Parquet, CSV, JSON lines or Arrow; it is read as"),
        ({"README.md": ELSEWHERE.format("../out.csv")}, "its README names a file elsewhere"),
        ({"data/test.csv": CSV + 'k1,"secretword'}, "message withheld"),
    ],
)
def test_a_repository_that_cannot_be_trusted_or_read_is_refused(tmp_path, files, message):
    pytest.importorskip("datasets")
    (tmp_path / "out.csv").write_text(CSV)
    write_repository(tmp_path, **files)
    with pytest.raises(InputError, match=message) as refused:
        freeze_source(make_source(tmp_path, folder="repo", split="test"), tmp_path / "store")
    assert "secretword" not in str(refused.value)


def freeze_from_hub(hub, folder, **options):
    """Freeze in a new process, since `datasets` reads the hub's address when it is imported."""
    code = (
        "import sys, yaml; from pathlib import Path\n"
        "from biasgate.tasks.data.freezing import SOURCES, freeze_source\n"
        "options = yaml.safe_load(sys.argv[1])\n"
        "print(freeze_source(SOURCES.validate_python(options), Path('store')).digest)"
    )
    content = yaml.safe_dump(OPTIONS | HUB | {"label_values": LOCAL["label_values"]} | options)
    done = subprocess.run(
        [sys.executable, "-c", code, content],
        env=os.environ | hub.environment(folder / "home"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.slow
def test_a_commit_of_a_hub_gives_the_same_rows_as_its_folder(repository, tmp_path):
    with serving(repository, "acme/chats", kind="datasets") as hub:
        hub_digest, stderr = freeze_from_hub(hub, tmp_path)
        n_requests = len(hub.requests)
        again, _ = freeze_from_hub(hub, tmp_path)
    assert hub_digest == freeze_repository(repository, tmp_path / "local").digest, stderr
    assert again == hub_digest
    assert len(hub.requests) == n_requests
    assert not [
        request for request in hub.requests if COMMIT not in request and "/datasets/" in request
    ]


@pytest.mark.slow
def test_a_commit_that_the_hub_lacks_is_refused(repository, tmp_path):
    with serving(repository, "acme/chats", kind="datasets") as hub:
        digest, stderr = freeze_from_hub(hub, tmp_path, revision=OTHER)
    assert not digest
    assert "must be on the hub at commit ffffffffffff" in stderr


@pytest.mark.slow
def test_a_folder_of_the_same_name_is_not_taken_for_the_hub(repository, tmp_path):
    (tmp_path / "acme").mkdir()
    Path(tmp_path / "acme" / "chats").symlink_to(repository)
    with serving(repository, "acme/chats", kind="datasets") as hub:
        freeze_from_hub(hub, tmp_path)
    assert hub.requests
