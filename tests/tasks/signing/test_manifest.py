"""Manifests: files of a folder, and differences from another folder."""

import hashlib
import os

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import folder_digest
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.common.untrusted import check_document
from biasgate.tasks.records import FileRecord
from biasgate.tasks.signing.manifest import Manifest

WEIGHTS = {
    "path": "weights/model.skops",
    "size": 7,
    "sha256": hashlib.sha256(b"weights").hexdigest(),
}


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "weights").mkdir(parents=True)
    (folder / "weights" / "model.skops").write_bytes(b"weights")
    (folder / "MLmodel").write_bytes(b"flavors: {}\n")
    (folder / "weights.txt").write_bytes(b"")
    return folder


def test_every_file_is_listed_with_its_size_and_digest(model):
    files = Manifest.from_path(model).files
    assert [file.path for file in files] == ["MLmodel", "weights/model.skops", "weights.txt"]
    assert files[1] == FileRecord(**WEIGHTS)
    assert Manifest.from_path(model).size == 12 + 7 + 0


def test_the_manifest_of_one_file_has_its_name_only(model):
    assert Manifest.from_path(model / "weights" / "model.skops").files == (
        FileRecord(**WEIGHTS | {"path": "model.skops"}),
    )


def test_its_digest_is_the_one_that_kept_scores_are_named_by(model):
    (model / "a-b").mkdir()
    (model / "a-b" / "c").write_text("1")
    (model / "a").mkdir()
    (model / "a" / "c").write_text("2")
    assert Manifest.from_path(model).digest == folder_digest(model)


def test_the_same_files_elsewhere_have_the_same_manifest(model, tmp_path):
    before = Manifest.from_path(model)
    assert before == Manifest.from_path(model.rename(tmp_path / "elsewhere"))


def test_each_difference_is_named(model):
    before = Manifest.from_path(model)
    (model / "weights" / "model.skops").write_bytes(b"Weights")
    (model / "weights.txt").unlink()
    (model / "weights" / "new\n").write_bytes(b"")
    now = Manifest.from_path(model)
    assert before.list_differences(now) == [
        "weights/model.skops: changed",
        "'weights/new\\n': added",
        "weights.txt: missing",
    ]
    assert before.digest != now.digest
    assert before.list_differences(before) == []


def test_a_file_that_is_left_out_may_be_there_or_not(model):
    before = Manifest.from_path(model)
    (model / "note").write_text("by a program")
    (model / "weights" / "note").write_text("by a stranger")
    assert before.list_differences(Manifest.from_path(model, leaving_out={"note"})) == [
        "weights/note: added"
    ]


@pytest.mark.parametrize("target", ["../MLmodel", "nowhere", "../weights"])
def test_a_symbolic_link_is_refused_even_where_its_name_is_left_out(model, target):
    (model / "weights" / "other").symlink_to(target)
    (model / "note").symlink_to(target)
    with pytest.raises(InputError, match=r"^note must be a regular file; it is a symbolic link"):
        Manifest.from_path(model, leaving_out={"note"})
    (model / "note").unlink()
    with pytest.raises(InputError, match=r"^weights/other must be a regular file; it is a symb"):
        Manifest.from_path(model)


def test_a_link_instead_of_the_folder_or_file_itself_is_refused(model, tmp_path):
    (tmp_path / "link").symlink_to(model)
    with pytest.raises(InputError, match=r"^link must be a regular file; it is a symbolic link"):
        Manifest.from_path(tmp_path / "link")


def test_links_to_files_are_followed_on_request_and_keep_their_names(model, tmp_path):
    """The cache of the Hugging Face hub consists of such links."""
    before = Manifest.from_path(model)
    (model / "weights" / "model.skops").rename(tmp_path / "blob")
    (model / "weights" / "model.skops").symlink_to(tmp_path / "blob")
    (tmp_path / "link").symlink_to(model)
    assert Manifest.from_path(tmp_path / "link", follow_links=True) == before
    (tmp_path / "named").symlink_to(tmp_path / "blob")
    assert Manifest.from_path(tmp_path / "named", follow_links=True).files[0].path == "named"


def test_a_named_pipe_is_refused_without_waiting_for_it(model):
    os.mkfifo(model / "pipe")
    with pytest.raises(InputError, match=r"^pipe must be a regular file; it is a device"):
        Manifest.from_path(model)


def test_a_file_that_changes_while_it_is_read_is_refused(model, monkeypatch):
    digest = hashlib.file_digest

    def slow(stream, name):
        found = digest(stream, name)
        with (model / "MLmodel").open("ab") as file:
            file.write(b"more")
        return found

    monkeypatch.setattr(hashlib, "file_digest", slow)
    with pytest.raises(InputError, match=r"^MLmodel must not change while it is read; it did"):
        Manifest.from_path(model)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(InputError, match="nowhere must be readable; got: No such file"):
        Manifest.from_path(tmp_path / "nowhere")


def read_files(content):
    """Read a list of files like the list in a verdict."""
    return Manifest.from_records(check_document(content, list[FileRecord], "a manifest"))


def test_a_manifest_survives_being_written(model):
    manifest = Manifest.from_path(model)
    assert read_files(convert_to_plain(manifest.files)) == manifest
    assert read_files(convert_to_plain(manifest.files)[::-1]) == manifest


@pytest.mark.parametrize(
    "path", ["../x", "/x", "a/../x", "a//x", "./x", "", ".", "a/", "a\\..\\x", "a\0", "MLmodel"]
)
def test_a_path_that_leaves_the_folder_or_occurs_twice_is_refused(path):
    with pytest.raises(InputError, match="must differ and stay inside the folder; got "):
        read_files([WEIGHTS | {"path": path}, WEIGHTS | {"path": "MLmodel"}])


@pytest.mark.parametrize(
    "content",
    [
        *(
            [WEIGHTS | wrong]
            for wrong in (
                {"path": 1},
                {"size": -1},
                {"size": True},
                {"size": "7"},
                {"sha256": "0"},
                {"sha256": "G" * 64},
                {"mode": 1},
            )
        ),
        None,
        {},
        "x",
        [["MLmodel", 1, "0"]],
    ],
)
def test_anything_but_a_list_of_files_with_plain_path_size_and_digest_is_refused(content):
    expected = r"a manifest must (list path, size and sha256 of each file; got|be as biasgate)"
    with pytest.raises(InputError, match=expected):
        read_files(content)
