import hashlib
import io
import zipfile

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.civil_comments import KNOWN_ARCHIVES, OFFICIAL_URL
from biasgate.tasks.data.freezing import SOURCES, freeze


def source(folder=None, **options):
    options |= {} if folder is None else {"folder": folder}
    return SOURCES.validate_python({"name": "cc", "source": "civil_comments", **options})


@pytest.fixture
def archive(tmp_path, file_server, release):
    """Serve a zip of the public archive's layout; return its SHA-256."""
    stream = io.BytesIO()
    folder = tmp_path / "made"
    folder.mkdir()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.write(release.public_archive(folder) / "civil_comments.csv", "civil_comments.csv")
        zipped.writestr("README.txt", "not needed")
    file_server.content = stream.getvalue()
    return hashlib.sha256(file_server.content).hexdigest()


def test_an_archive_is_downloaded_resumed_verified_and_converted(tmp_path, file_server, archive):
    file_server.cuts = [len(file_server.content) // 2]
    chosen = source(url=file_server.url("cc_v9.zip"), sha256=archive)
    found = freeze(chosen, tmp_path / "store")
    assert [headers.get("Range") is None for headers in file_server.seen] == [True, False]
    assert found.n_rows == 21
    assert found.record["source"]["archive"] == {"name": "cc_v9.zip", "sha256": archive}
    assert set(found.record["source"]["files"]) == {"civil_comments.csv"}
    assert [p.name for p in (tmp_path / "store").rglob("*.csv")] == ["civil_comments.csv"]
    assert not list((tmp_path / "store").rglob("README.txt"))


def test_an_unchanged_nightly_asks_the_server_nothing(tmp_path, file_server, archive):
    del archive
    first = freeze(source(url=file_server.url()), tmp_path / "store")
    file_server.seen = []
    second = freeze(source(url=file_server.url()), tmp_path / "store")
    assert file_server.seen == []
    assert second.folder == first.folder


def test_an_archive_and_its_unpacked_folder_give_the_same_digest(tmp_path, file_server, archive):
    del archive
    one = freeze(source(url=file_server.url()), tmp_path / "store")
    other = freeze(source(tmp_path / "made"), tmp_path / "store")
    assert one.digest == other.digest


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
    freeze(source(url=file_server.url()), store)
    assert not list(store.rglob("train.csv"))
    assert freeze(source(url=file_server.url(), split="train"), store).n_rows == 40
    assert len(file_server.seen) == 1


def test_an_archive_of_the_wrong_digest_freezes_nothing(tmp_path, file_server, archive):
    del archive
    with pytest.raises(InputError, match=f"must have SHA-256 {'0' * 64}"):
        freeze(source(url=file_server.url(), sha256="0" * 64), tmp_path / "store")
    assert not (tmp_path / "store" / "sets").exists()
    assert not list((tmp_path / "store").rglob("data.zip"))


def test_an_archive_of_something_else_is_named(tmp_path, file_server):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as zipped:
        zipped.writestr("cats.csv", "id\n1\n")
    file_server.content = stream.getvalue()
    with pytest.raises(InputError, match=r"data\.zip must hold the test rows of Civil Comments"):
        freeze(source(url=file_server.url()), tmp_path / "store")


def test_without_network_the_text_says_to_give_a_folder(tmp_path, file_server):
    url = file_server.url()
    file_server.server_close()
    with pytest.raises(InputError, match=r"unpack it and give its folder as `folder:`\.$"):
        freeze(source(url=url), tmp_path / "store")


def test_the_public_archive_and_its_known_digest_are_the_default(tmp_path, monkeypatch):
    asked = {}

    def refuse(url, path, **known):
        asked.update(known, url=url, name=path.name)
        raise InputError("stop")

    monkeypatch.setattr("biasgate.tasks.data.civil_comments.download", refuse)
    with pytest.raises(InputError, match="stop"):
        freeze(source(), tmp_path)
    size, sha256 = KNOWN_ARCHIVES[OFFICIAL_URL]
    assert (asked["url"], asked["name"]) == (OFFICIAL_URL, "civil_comments_v1.2.zip")
    assert (asked["size"], asked["sha256"]) == (size, sha256)
