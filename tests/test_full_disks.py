"""Full, read-only and oddly named places end in one sentence, and the next run goes on."""

import errno
import logging
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from support.evaluations import evaluate, run, write_inputs

from biasgate.output import describe_disk_error


@pytest.fixture
def quiet(prefect_server, tmp_path, monkeypatch):
    del prefect_server
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs", "mlflow.store.db.utils"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    monkeypatch.chdir(write_inputs(tmp_path))


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "a disk is full: store "),
        (pa.ArrowException("[Errno 28] No space left on device"), "a disk is full: store "),
        (RuntimeError("(sqlite3.OperationalError) database or disk is full\n[SQL: x]"), "is full"),
        (OSError(errno.EROFS, "Read-only", "/data/x"), "/data/x is read-only. Make it writable"),
        (RuntimeError("attempt to write a readonly database"), "is read-only: store "),
        (RuntimeError("unable to open database file"), "cannot be read or written: store "),
    ],
    ids=["system", "pyarrow", "database", "read-only", "read-only database", "no database"],
)
def test_an_error_of_a_disk_is_told_with_its_place(tmp_path, error, sentence):
    said = describe_disk_error(error, {"store": tmp_path / "not yet there"})
    assert sentence in said
    assert "SQL" not in said
    caused = RuntimeError("anything")
    caused.__cause__ = error
    assert describe_disk_error(caused, {"store": tmp_path / "not yet there"}) == said


def test_other_errors_are_not_blamed_on_a_disk(tmp_path):
    for error in (ValueError("full"), OSError(errno.ENOENT, "No such file", "x"), KeyError("x")):
        assert describe_disk_error(error, {"store": tmp_path}) is None


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("kib", [16, 256, 900, 1300])
def test_an_evaluation_on_a_full_disk_says_so_and_the_next_one_completes_it(disk, kib):
    folder, change = disk
    change(f"size={kib}k")
    code, said = evaluate("--store", folder / "store")
    if code != 0:
        assert code in {1, 2}
        sentence = said.rpartition("error: ")[2]
        assert str(folder / "store") in sentence
        assert "is full" in sentence or "No space left on device" in sentence
        assert "SQL" not in sentence
    change("size=64m")
    code, said = evaluate("--store", folder / "store")
    assert code == 0, said
    code, said = run("verify", "toxicity", "--store", folder / "store")
    assert code == 0, said


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_a_read_only_store_is_refused_for_evaluations_and_can_be_read(disk):
    folder, change = disk
    change("size=64m")
    assert evaluate("--store", folder / "store")[0] == 0
    store = folder / "store"  # it cannot be mounted read-only again while it is open
    subprocess.run(["mount", "--bind", str(store), str(store)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(store)], check=True)
        refuse_to_change(store)
    finally:
        subprocess.run(["umount", "-l", str(store)], check=True)


def refuse_to_change(store):
    code, said = evaluate("--store", store)
    assert code == 2
    assert f"store {store} must be a folder that can be written to" in said
    for command in (["history", "toxicity"], ["verify", "toxicity"]):
        code, said = run(*command, "--store", store)
        assert code == 0, said


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", ["a#b", "a*b", "a[b]", "a b"])
def test_a_store_with_any_name_is_where_it_was_named(name):
    code, said = evaluate("--store", name)
    assert code == 0, said
    code, said = run("verify", "toxicity", "--store", name)
    assert code == 0, said
    new = {one.name for one in Path().iterdir()} - {"rows.csv", "scores.csv", "own.yaml"}
    assert new == {"file.yaml", "out", name}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", ["what?", "100%", "a%23b"])
def test_a_store_whose_name_has_a_meaning_in_addresses_is_refused(name):
    code, said = evaluate("--store", name)
    assert code == 2
    assert f"must not have `{'?' if '?' in name else '%'}` in its path" in said
