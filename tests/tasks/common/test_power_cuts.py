"""Files are flushed before they are renamed, so that a power cut leaves no partial file."""

import os
from pathlib import Path

import pytest

from biasgate.tasks.common.files import whole_file, whole_folder
from biasgate.tasks.mlflow_server.runs import Gateway


@pytest.fixture
def happened(monkeypatch):
    """The names of flushed files and of renamed files, in order."""
    events, flush, rename = [], os.fsync, Path.replace

    def note_flush(opened):
        events.append(("flush", Path(f"/proc/self/fd/{opened}").readlink().name))
        flush(opened)

    def note_rename(path, target):
        events.append(("rename", target.name))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note_flush)
    monkeypatch.setattr(Path, "replace", note_rename)
    return events


def test_a_file_is_flushed_before_it_gets_its_name_and_its_folder_after(tmp_path, happened):
    with whole_file(tmp_path / "record.json") as temporary:
        temporary.write_text("{}")
    named = [("flush", "record.json"), ("rename", "record.json"), ("flush", tmp_path.name)]
    assert happened == named


def test_a_folder_is_flushed_with_its_files_before_it_gets_its_name(tmp_path, happened):
    with whole_folder(tmp_path / "set") as temporary:
        (temporary / "rows.parquet").write_text("rows")
    assert happened[-2:] == [("rename", "set"), ("flush", tmp_path.name)]
    assert sorted(happened[:-2]) == [("flush", "rows.parquet"), ("flush", "set")]


def test_a_working_folder_is_not_flushed(tmp_path, happened):
    with whole_folder(tmp_path / "arrays", durable=False) as temporary:
        (temporary / "scores.npy").write_text("numbers")
    assert happened == [("rename", "arrays")]


def test_the_files_of_a_run_in_a_local_store_are_flushed(tmp_path, happened):
    gateway = Gateway.from_store(tmp_path / "store")
    run = gateway.ensure_run(gateway.ensure_experiment("any"), "key", "name")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "evidence.parquet").write_text("rows")
    happened.clear()
    gateway.log_folder(run, tmp_path / "results")
    assert ("flush", "evidence.parquet") in happened
