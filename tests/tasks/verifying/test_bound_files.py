"""Comparison of deployed files with judged files; errors name the files that differ."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.partial import partial
from support.promoted import (
    MODEL,
    artifact,
    bound,
    edit_json,
    frozen_set,
    judged_version,
    local,
    promote_one,
)
from support.registry import Template

import biasgate
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.promoting.by_hand import promote_version, roll_back
from biasgate.tasks.promoting.verify import NotVerifiedError, require_champion, verify_model
from biasgate.tasks.records import Rival
from biasgate.tasks.reporting.version_tags import FILES_DIGEST, build_tags
from biasgate.tasks.signing.manifest import Manifest


def three_versions(gateway, store, folder):
    frozen_set(store)
    first = judged_version(gateway, store, folder / "first")
    assert promote_one([first[1]], first[0], gateway).promoted
    second = judged_version(gateway, store, folder / "second", champion=first, seed=1)
    assert promote_one([second[1]], second[0], gateway).promoted
    blocked = judged_version(gateway, store, folder / "third", champion=second, noise=40)
    assert blocked[1].outcome == "fail"


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A store whose second version is champion; the third was blocked."""
    return Template(three_versions, tmp_path_factory)


@pytest.fixture(autouse=True)
def _temporary(tmp_path, monkeypatch):
    """A folder for temporary files, which tests must leave empty."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def find_files(gateway, version):
    """The folder of a version's files, in the store."""
    return Path(
        gateway.find_files_uri(gateway.resolve(f"models:/{MODEL}/{version}")).removeprefix(
            "file://"
        )
    )


def list_failures(gateway, store):
    return [
        finding.sentence
        for finding in verify_model(MODEL, None, gateway, store)
        if not finding.holds
    ]


def collect_refusals(gateway, store):
    """Return the errors of `verify`, `require_champion` and `open_champion`."""
    with pytest.raises(NotVerifiedError) as required:
        require_champion(MODEL, gateway)
    with pytest.raises(ValueError) as opened:  # noqa: PT011 - the callers compare the text
        biasgate.open_champion(MODEL, store)
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    return [" ".join(list_failures(gateway, store)), str(required.value), str(opened.value)]


def test_an_untouched_champion_is_opened_as_a_folder_with_its_files(gateway, store):
    assert list_failures(gateway, store) == []
    folder = biasgate.open_champion(MODEL, store)
    assert (folder / "weights").read_text() == "second"
    assert (folder / "tokenizer" / "vocabulary").read_text() == "a b c"
    assert folder.stat().st_mode & 0o077 == 0
    champion = require_champion(MODEL, gateway)
    assert champion.tags[FILES_DIGEST] == gateway.read_manifest(champion).digest


def test_what_is_opened_is_a_copy_that_later_changes_do_not_reach(gateway, store, tmp_path):
    folder = biasgate.open_champion(MODEL, store, folder=tmp_path / "temporary")
    (find_files(gateway, 2) / "weights").write_text("third")
    assert (folder / "weights").read_text() == "second"
    assert folder.parent == tmp_path / "temporary"


def test_the_folder_in_which_a_champion_is_opened_must_exist(store, tmp_path):
    with pytest.raises(ValueError, match=r"`folder` must be an existing folder; got .*missing"):
        biasgate.open_champion(MODEL, store, folder=tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def replace_folder(folder):
    shutil.rmtree(folder)
    folder.write_text("weights")
    return "added, 7 bytes"


def add_pipe(folder):
    os.mkfifo(folder / "pipe")
    return "pipe must be a regular file"


def make_unreadable(folder):
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (folder / "weights").chmod(0)
    return "weights must be readable"


@pytest.mark.parametrize("change", [replace_folder, add_pipe, make_unreadable])
def test_what_cannot_be_copied_is_an_error_in_one_sentence_that_leaves_nothing(
    gateway, store, change
):
    said = change(find_files(gateway, 2))
    with pytest.raises(InputError, match=said):
        biasgate.open_champion(MODEL, store)
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


SPARSE = 200 * 10**9  # bytes; it takes no space on the disk, and minutes to read


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param(
            "large", f"large: added, {SPARSE:,} bytes. Not read.", marks=pytest.mark.mlflow
        ),
        ("weights", f"weights: has {SPARSE:,} bytes; it had 6. Not read."),
    ],
)
def test_a_file_of_another_size_than_judged_is_refused_before_it_is_read(
    gateway, store, monkeypatch, name, said
):
    with (find_files(gateway, 2) / name).open("ab") as stream:
        stream.truncate(SPARSE)
    monkeypatch.setattr(shutil, "copyfile", lambda *_: pytest.fail("copied"))
    monkeypatch.setattr(Manifest, "from_path", lambda *_, **__: pytest.fail("read"))
    for refused in collect_refusals(gateway, store):
        assert said in refused


def exchange_files(folder, other):
    (folder / "weights").rename(other / "kept")
    (other / "weights").rename(folder / "weights")
    (other / "kept").rename(other / "weights")


def flip_byte(name):
    def change(folder, _):
        content = bytearray((folder / name).read_bytes())
        content[-1] ^= 1
        (folder / name).write_bytes(content)

    return change


def add_file(folder, _):
    (folder / "tokenizer" / "hook.py").write_text("print()")


def remove_file(folder, _):
    (folder / "tokenizer" / "vocabulary").unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            exchange_files, "weights: has 5 bytes; it had 6. Not read", marks=pytest.mark.mlflow
        ),
        (flip_byte("weights"), "weights: changed"),
        (flip_byte("tokenizer/vocabulary"), "tokenizer/vocabulary: changed"),
        (add_file, "tokenizer/hook.py: added, 7 bytes. Not read"),
        (remove_file, "tokenizer/vocabulary: missing"),
    ],
)
def test_each_change_of_a_file_is_found_by_every_check(gateway, store, change, said):
    change(find_files(gateway, 2), find_files(gateway, 3))
    for found in collect_refusals(gateway, store):
        assert "the files of models:/toxicity/2 match the files judged on comments" in found
        assert f": {said}." in found


@pytest.mark.parametrize("name", [pytest.param("weights", marks=pytest.mark.mlflow), "tokenizer"])
def test_a_symbolic_link_is_found_even_if_it_leads_to_the_same_bytes(
    gateway, store, name, tmp_path
):
    path = find_files(gateway, 2) / name
    shutil.move(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    for found in collect_refusals(gateway, store):
        assert f"{name} must be a regular file; it is a symbolic link" in found


@pytest.mark.mlflow
def test_a_version_whose_source_was_pointed_to_another_is_found(gateway, store):
    other = find_files(gateway, 3)
    with closing(sqlite3.connect(store / "mlflow.db")) as database, database:
        database.execute(
            "UPDATE model_versions SET source = :source, storage_location = :source "
            "WHERE version = 2 AND name = :name",
            {"source": other.as_uri(), "name": MODEL},
        )
    for found in collect_refusals(local(store), store):
        assert f"Different in {other.as_uri()}: weights: has 5 bytes; it had 6. Not read." in found


def test_files_that_were_deleted_are_found(gateway, store):
    shutil.rmtree(find_files(gateway, 2))
    for found in collect_refusals(gateway, store):
        assert "artifacts must be at" in found


def test_the_file_that_mlflow_writes_when_it_loads_a_version_changes_nothing(gateway, store):
    note = find_files(gateway, 2) / "registered_model_meta"
    note.write_text("model_name: toxicity\nmodel_version: '2'\n")
    assert list_failures(gateway, store) == []
    assert not (biasgate.open_champion(MODEL, store) / note.name).exists()
    (find_files(gateway, 2) / "tokenizer" / note.name).write_text("")
    assert f"tokenizer/{note.name}: added" in " ".join(list_failures(gateway, store))
    note.unlink()
    note.symlink_to("weights")
    assert "registered_model_meta must be a regular file" in " ".join(list_failures(gateway, store))


def test_an_exchanged_version_is_neither_promoted_by_hand_nor_rolled_back_to(gateway):
    exchange_files(find_files(gateway, 1), find_files(gateway, 3))
    for act in (
        lambda: promote_version(MODEL, "1", "why", gateway),
        lambda: roll_back(MODEL, "x", gateway),
    ):
        with pytest.raises(
            NotVerifiedError, match=r"model: the files of models:/toxicity/1 .*chang"
        ):
            act()
    assert gateway.get_alias(MODEL, "champion").version == "2"


def test_a_version_whose_files_changed_since_they_were_scored_is_not_promoted(
    gateway, store, tmp_path
):
    champion = gateway.resolve(f"models:/{MODEL}/2")
    version, verdict, _ = judged_version(gateway, store, tmp_path / "fourth", seed=4)
    settings = {"name": "champion", "kind": "mlflow", "model": champion.uri, "digest": "d"}
    verdict = replace(verdict, champion=Rival(**settings, bound=bound(gateway, champion)))
    flip_byte("weights")(find_files(gateway, version.version), None)
    with pytest.raises(InputError, match=r"toxicity/4 must not become champion: .*weights: chan"):
        promote_one([verdict], version, gateway)
    assert gateway.get_alias(MODEL, "champion").version == "2"


def rewrite_verdict(gateway, change):
    """Change the champion's verdict, and its digest and tags consistently."""
    version = gateway.resolve(f"models:/{MODEL}/2")
    for name in ("verdict.json", "report.json"):
        edit_json(artifact(gateway, version, name), change)
    verdict = gateway.read_json(version.run_id, "verdict.json")
    gateway.tag_version(version, build_tags([partial(verdict | {"run_id": version.run_id})]))


def test_a_verdict_that_does_not_say_which_files_were_judged_is_none(gateway, store):
    version = gateway.resolve(f"models:/{MODEL}/2")
    edit_json(
        artifact(gateway, version, "verdict.json"),
        lambda content: content["candidate"].pop("bound"),
    )
    assert any(
        "the verdict on comments must be as biasgate writes it; candidate.bound: Field" in sentence
        for sentence in list_failures(gateway, store)
    )


def test_a_verdict_that_binds_no_file_is_told_and_cannot_be_opened(gateway, store):
    nothing = {"what": "nothing", "digest": None, "files": [], "not_bound": "It is elsewhere."}
    rewrite_verdict(gateway, lambda content: content["candidate"].update(bound=nothing))
    failures = [
        finding for finding in verify_model(MODEL, None, gateway, store) if finding.what == "model"
    ]
    text = "the files of models:/toxicity/2 were not recorded with the verdict on comments."
    assert [failure.holds for failure in failures] == [True, True]
    assert failures[0].sentence == f"{text} It is elsewhere. Not checked."
    assert failures[1].sentence.startswith("the champion in the comparison on comments")
    with pytest.raises(NotVerifiedError, match=r"model: .* It is elsewhere. Not checked"):
        biasgate.open_champion(MODEL, store)


def test_a_list_of_files_that_was_edited_is_found(gateway, store):
    rewrite_verdict(gateway, lambda content: content["candidate"]["bound"]["files"].pop())
    assert any(
        "does not have the digest that the verdict names" in sentence
        for sentence in list_failures(gateway, store)
    )
    rewrite_verdict(
        gateway, lambda content: content["candidate"]["bound"]["files"][0].update(path="../x")
    )
    assert any(
        "must differ and stay inside the folder" in sentence
        for sentence in list_failures(gateway, store)
    )


def test_verifying_leaves_nothing_in_the_folder_for_temporary_files(gateway, store):
    assert list_failures(gateway, store) == []
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert not list((store / "work").glob("*"))
