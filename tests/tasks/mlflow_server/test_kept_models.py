"""The files of a version on another machine are downloaded once per store, not per task."""

import shutil
import threading

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server import artifacts, versions
from biasgate.tasks.mlflow_server.artifacts import open_kept_copy
from biasgate.tasks.mlflow_server.versions import ModelVersion, Registry


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Files of a version on a server, and the number of their downloads."""
    folder = tmp_path / "server"
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "weights").write_text("1 2 3", "utf-8")
    (folder / "tokenizer" / "vocabulary").write_text("a b", "utf-8")
    downloads = []

    def fetch(_, __, target):
        downloads.append(target)
        return shutil.copytree(folder, target / "model")

    def listed(*_):
        files = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}

    monkeypatch.setattr(artifacts, "fetch", fetch)
    monkeypatch.setattr(artifacts, "list_artifact_sizes", listed)
    return folder, downloads


def read(store, version="models:/toxicity/1 5"):
    place = "https://mlflow.example.org/api/2.0/mlflow-artifacts/artifacts/1"
    with open_kept_copy(place, "https://mlflow.example.org", version, store) as folder:
        return (folder / "weights").read_text("utf-8"), folder


def test_the_second_task_uses_the_copy_of_the_first(server, tmp_path):
    _, downloads = server
    first, second = read(tmp_path / "store"), read(tmp_path / "store")
    assert first == second == ("1 2 3", first[1])
    assert len(downloads) == 1


def test_tasks_at_the_same_time_wait_for_one_download(server, tmp_path):
    threads = [threading.Thread(target=read, args=[tmp_path / "store"]) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server[1]) == 1


def test_another_version_or_one_that_was_made_anew_has_a_copy_of_its_own(server, tmp_path):
    for version in ("models:/toxicity/1 5", "models:/toxicity/2 5", "models:/toxicity/1 9"):
        read(tmp_path / "store", version)
    assert len(server[1]) == 3


def test_a_copy_that_was_changed_is_downloaded_again(server, tmp_path):
    _, folder = read(tmp_path / "store")
    (folder / "weights").write_text("9 9 9", "utf-8")
    assert read(tmp_path / "store")[0] == "1 2 3"
    (folder / "more").write_text("x", "utf-8")
    read(tmp_path / "store")
    (folder.parent / "record.json").write_text("[]", "utf-8")
    read(tmp_path / "store")
    assert len(server[1]) == 4


@pytest.mark.parametrize("change", ["longer", "another file", "no file"])
def test_files_that_the_server_lists_otherwise_are_downloaded_again(server, tmp_path, change):
    folder, downloads = server
    read(tmp_path / "store")
    if change == "longer":
        (folder / "weights").write_text("1 2 3 4", "utf-8")
    elif change == "another file":
        (folder / "config").write_text("x", "utf-8")
    else:
        (folder / "tokenizer" / "vocabulary").unlink()
    read(tmp_path / "store")
    assert len(downloads) == 2


def test_a_size_that_the_server_does_not_tell_is_no_difference(server, tmp_path, monkeypatch):
    names = ["weights", "tokenizer/vocabulary"]
    monkeypatch.setattr(artifacts, "list_artifact_sizes", lambda *_: dict.fromkeys(names))
    read(tmp_path / "store")
    read(tmp_path / "store")
    assert len(server[1]) == 1


def test_what_mlflow_adds_to_a_copy_is_no_change(server, tmp_path):
    _, folder = read(tmp_path / "store")
    (folder / "registered_model_meta").write_text("x", "utf-8")
    read(tmp_path / "store")
    assert len(server[1]) == 1


def test_a_download_that_fails_leaves_no_copy(server, tmp_path, monkeypatch):
    def fails(*_):
        message = "artifacts must be there"
        raise InputError(message)

    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "fetch", fails)
        with pytest.raises(InputError):
            read(tmp_path / "store")
    assert read(tmp_path / "store")[0] == "1 2 3"
    assert len(server[1]) == 1


@pytest.mark.parametrize(("place", "kept"), [("s3://bucket/1", True), ("file:///models/1", False)])
def test_files_of_this_machine_are_not_kept(tmp_path, monkeypatch, place, kept):
    used = []

    class Elsewhere(Registry):
        def find_files_uri(self, _):
            return place

        def fetch(self, _, folder):
            used.append("copied")
            return folder

    def keep(*given):
        used.append(given)
        return versions.create_work_folder(None)

    monkeypatch.setattr(versions, "open_kept_copy", keep)
    version = ModelVersion("toxicity", "1", None, {}, 5)
    registry = Elsewhere("https://mlflow.example.org", work=tmp_path / "work")
    with registry.open_download(version):
        pass
    expected = (place, registry.uri, "models:/toxicity/1 5", tmp_path)
    assert used == [expected if kept else "copied"]
