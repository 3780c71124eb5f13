import hashlib
import io
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from support.release import rows_of_release, write_archive

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import civil_comments
from biasgate.tasks.data.civil_comments import IDENTITIES, KNOWN_ARCHIVES, OFFICIAL_URL
from biasgate.tasks.data.freezing import SOURCES, freeze_source


def make_source(folder=None, **options):
    options |= {} if folder is None else {"folder": folder}
    return SOURCES.validate_python({"name": "cc", "source": "civil_comments", **options})


@pytest.fixture
def sha256(tmp_path, file_server, release):
    """Serve a zip of the public archive's layout; return its SHA-256."""
    stream = io.BytesIO()
    folder = tmp_path / "made"
    folder.mkdir()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.write(release.public_archive(folder) / "civil_comments.csv", "civil_comments.csv")
        zipped.writestr("README.txt", "not needed")
    file_server.content = stream.getvalue()
    return hashlib.sha256(file_server.content).hexdigest()


def test_an_archive_is_downloaded_resumed_verified_and_converted(tmp_path, file_server, sha256):
    file_server.cuts = [len(file_server.content) // 2]
    chosen = make_source(url=file_server.url("cc_v9.zip"), sha256=sha256)
    frozen = freeze_source(chosen, tmp_path / "store")
    assert [headers.get("Range") is None for headers in file_server.seen] == [True, False]
    assert frozen.n_rows == 21
    assert frozen.record["source"]["archive"] == {"name": "cc_v9.zip", "sha256": sha256}
    assert set(frozen.record["source"]["files"]) == {"civil_comments.csv"}
    assert [p.name for p in (tmp_path / "store").rglob("*.csv")] == ["civil_comments.csv"]
    assert not list((tmp_path / "store").rglob("README.txt"))


def test_an_unchanged_nightly_asks_the_server_nothing(tmp_path, file_server, sha256):
    del sha256
    first = freeze_source(make_source(url=file_server.url()), tmp_path / "store")
    file_server.seen = []
    second = freeze_source(make_source(url=file_server.url()), tmp_path / "store")
    assert file_server.seen == []
    assert second.folder == first.folder


def test_another_split_of_a_fetched_archive_needs_no_further_download(
    tmp_path, file_server, release
):
    stream = io.BytesIO()
    folder = tmp_path / "made"
    folder.mkdir()
    release.kaggle_files(folder)
    with zipfile.ZipFile(stream, "w") as zipped:
        for path in folder.iterdir():
            zipped.write(path, f"jigsaw/{path.name}")
    file_server.content = stream.getvalue()
    store = tmp_path / "store"
    freeze_source(make_source(url=file_server.url()), store)
    assert not list(store.rglob("train.csv"))
    assert freeze_source(make_source(url=file_server.url(), split="train"), store).n_rows == 40
    assert len(file_server.seen) == 1


def test_an_archive_of_the_wrong_digest_freezes_nothing(tmp_path, file_server, sha256):
    del sha256
    with pytest.raises(InputError, match=f"must have SHA-256 {'0' * 64}"):
        freeze_source(make_source(url=file_server.url(), sha256="0" * 64), tmp_path / "store")
    assert not (tmp_path / "store" / "sets").exists()
    assert not list((tmp_path / "store").rglob("data.zip"))


def test_a_mirror_of_a_known_archive_is_recorded_as_that_release(
    tmp_path, file_server, sha256, monkeypatch
):
    known = {"https://example.org/cc/release_v9.zip": (1, sha256)}
    monkeypatch.setattr(civil_comments, "KNOWN_ARCHIVES", known)
    frozen = freeze_source(make_source(url=file_server.url("mirrored.zip")), tmp_path / "store")
    assert frozen.record["source"]["archive"] == {"name": "release_v9.zip", "sha256": sha256}


def test_an_archive_of_something_else_is_named(tmp_path, file_server):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as zipped:
        zipped.writestr("cats.csv", "id\n1\n")
    file_server.content = stream.getvalue()
    with pytest.raises(InputError, match=r"data\.zip must hold the test rows of Civil Comments"):
        freeze_source(make_source(url=file_server.url()), tmp_path / "store")


def test_without_network_the_text_says_to_give_a_folder(tmp_path, file_server):
    url = file_server.url()
    file_server.server_close()
    with pytest.raises(InputError, match=r"unpack it and give its folder as `folder:`\.$"):
        freeze_source(make_source(url=url), tmp_path / "store")


def test_the_public_archive_and_its_known_digest_are_the_default(tmp_path, monkeypatch):
    request = {}

    def refuse_download(url, path, **expected):
        request.update(expected, url=url, name=path.name)
        raise InputError("stop")

    monkeypatch.setattr("biasgate.tasks.data.civil_comments.download_file", refuse_download)
    with pytest.raises(InputError, match="stop"):
        freeze_source(make_source(), tmp_path)
    size, sha256 = KNOWN_ARCHIVES[OFFICIAL_URL]
    assert (request["url"], request["name"]) == (OFFICIAL_URL, "civil_comments_v1.2.zip")
    assert (request["size"], request["sha256"]) == (size, sha256)


N_GENERATED = 3_000


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Return an archive of generated rows in the layout of the public archive, and its rows."""
    folder = tmp_path_factory.mktemp("generated")
    rows = pa.concat_tables(rows_of_release(N_GENERATED, 5))
    return write_archive(folder / "archive.zip", N_GENERATED, 5), rows


@pytest.mark.parametrize(
    "splits", [["train"], ["test"], ["train", "test_public", "test_private"]], ids="-".join
)
def test_the_rows_of_an_archive_are_read_as_they_were_written(
    tmp_path, file_server, generated, splits
):
    file_server.content, rows = generated
    file_server.cuts = [file_server.size // 3]
    frozen = freeze_source(make_source(url=file_server.url(), split=splits), tmp_path / "store")
    assert len(file_server.sent) == 2
    assert sum(file_server.sent) == file_server.size
    names = [name for name in set(rows["split"].to_pylist()) if name.startswith(tuple(splits))]
    expected = rows.filter(pa.compute.is_in(rows["split"], pa.array(names)))
    assert frozen.n_rows == len(expected) > 0
    columns = {"text": "comment_text", "label": "toxicity", "cluster": "article_id"}
    columns |= {f"identity/{name}": name for name in IDENTITIES}
    for ours, theirs in columns.items():
        written = expected[theirs]
        written = written.cast(pa.string()) if ours == "cluster" else written
        assert read_values(frozen, "id", ours) == dict(
            zip(map(str, expected["id"].to_pylist()), written.to_pylist(), strict=True)
        ), ours
    assert frozen.column("identity/muslim").null_count == expected["muslim"].null_count > 0


def read_values(frozen, key, column):
    keys = frozen.column(key).to_pylist()
    return dict(zip(keys, frozen.column(column).to_pylist(), strict=True))


def test_generated_rows_are_like_those_of_the_release(generated):
    rows = generated[1].to_pandas()
    assert list(rows.columns[:3]) == ["id", "comment_text", "split"]
    assert rows["split"].value_counts().to_dict() == {
        "train": 2708,
        "test_public": 146,
        "test_private": 146,
    }
    assert rows["id"].is_unique
    assert 0.74 < rows["muslim"].isna().mean() < 0.82
    assert 0.06 < (rows["toxicity"] >= 0.5).mean() < 0.13
    sizes = rows.groupby("article_id").size()
    assert (sizes <= 3).mean() > 0.5
    assert sizes.max() > 100
    texts = rows["comment_text"]
    assert 0.2 < (texts.str.len() < 100).mean() < 0.7
    assert all(
        texts.str.contains(mark, regex=False).any() for mark in ',"\n\N{SLIGHTLY SMILING FACE}'
    )
    assert texts.duplicated().mean() < 0.01


def test_a_bias_changes_training_labels_of_harmless_mentions_only(generated):
    plain = generated[1].to_pandas()
    biased = pa.concat_tables(rows_of_release(N_GENERATED, 5, bias={"female": 0.5})).to_pandas()
    assert biased["comment_text"].equals(plain["comment_text"])
    changed = biased["toxicity"] != plain["toxicity"]
    assert set(biased["split"][changed]) == {"train"}
    assert (biased["toxicity"][changed] >= 0.5).all()
    at_risk = (plain["split"] == "train") & (plain["toxicity"] < 0.5) & (plain["female"] >= 0.5)
    assert 0.3 < changed[at_risk].mean() < 0.7


@pytest.mark.usefixtures("file_server")  # without proxies
def test_the_command_serves_an_archive_and_prints_its_address(tmp_path):
    tests = Path(rows_of_release.__code__.co_filename).parents[1]
    command = [sys.executable, "-m", "support.release", "--rows", "500", "--folder", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tests) as process:
        lines = [process.stdout.readline().split() for _ in range(3)]
        try:
            assert {word for word, _ in lines} == {"export"}
            printed = dict(setting.split("=", 1) for _, setting in lines)
            url, size, sha256 = (
                printed[f"BIASGATE_CIVIL_COMMENTS_{name}"] for name in ("URL", "SIZE", "SHA256")
            )
            chosen = make_source(url=url, size=int(size), sha256=sha256, split=["train", "test"])
            assert freeze_source(chosen, tmp_path / "store").n_rows == 500
        finally:
            process.terminate()


FREEZE = """
import sys
from pathlib import Path
from biasgate.tasks.data.freezing import SOURCES, freeze_source
options = {"name": "cc", "source": "civil_comments", "url": sys.argv[1]}
print(freeze_source(SOURCES.validate_python(options), Path(sys.argv[2])).digest)
"""


def test_a_killed_download_is_resumed_by_the_next_process(tmp_path, file_server, generated):
    file_server.content, store = generated[0], tmp_path / "store"
    file_server.bytes_per_s = file_server.size // 20
    command = [sys.executable, "-c", FREEZE, file_server.url(), str(store)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not any(part.stat().st_size for part in store.rglob("*.part")):
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
    n_kept = next(store.rglob("*.part")).stat().st_size
    assert 0 < n_kept < file_server.size
    file_server.bytes_per_s = None
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert file_server.seen[1]["Range"] == f"bytes={n_kept}-"
    assert file_server.sent[1] == file_server.size - n_kept
    with zipfile.ZipFile(generated[0]) as packed:
        packed.extractall(tmp_path / "folder")
    assert done.stdout.strip() == freeze_source(make_source(tmp_path / "folder"), store).digest
