"""Frozen rows are the verdict's: whatever the record beside them says."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.partial import partial
from support.promoted import edit_json

from biasgate.tasks.common.files import file_digest, json_digest
from biasgate.tasks.data.evaluation_set import EvaluationSet, freeze_rows
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.files import frozen_rows

SOURCE = {"source": "table", "files": {"a.csv": "1"}}


@pytest.fixture
def world(tmp_path):
    """A store with a frozen set, and the documents of a verdict on it."""
    key = json_digest(["s", SOURCE, "all"])[:16]
    rows = pa.table({"id": ["a", "b"], "label": [0.0, 1.0]})
    folder = tmp_path / "sets" / f"s-{key}"
    frozen = freeze_rows([rows], folder, name="s", split="all", source=SOURCE)
    choices = {"split": "all", "source": SOURCE}
    judged = {"name": "s", "digest": frozen.digest}
    report = {"evaluation_set": {**judged, "choices": choices}}
    return folder, Documents(partial({"evaluation_set": judged}), partial(report), None, {})


def check(world):
    [found] = frozen_rows(world[0].parents[1], world[1], "s")
    return found


def edit_rows(folder):
    path = folder / "rows.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "label": np.array([1.0, 0.0])}), path)
    return path


def test_the_rows_of_the_verdict_hold(world):
    found = check(world)
    assert found.holds
    assert found.checked


def test_rows_and_the_digests_in_their_record_edited_together_are_found(world):
    path = edit_rows(world[0])
    edit_json(world[0] / "record.json", lambda one: one.update(file_sha256=file_digest(path)))
    digest = EvaluationSet.load(world[0]).content_digest()
    edit_json(world[0] / "record.json", lambda one: one.update(digest=digest))
    found = check(world)
    assert not found.holds
    assert digest in found.sentence


def test_a_record_that_names_another_set_hides_nothing(world):
    path = edit_rows(world[0])
    changes = {"file_sha256": file_digest(path), "name": "other", "source": {}}
    edit_json(world[0] / "record.json", lambda one: one.update(changes))
    assert not check(world).holds


def test_another_version_of_the_set_beside_it_changes_nothing(world):
    shutil.copytree(world[0], world[0].with_name("s-newer"))
    edit_rows(world[0].with_name("s-newer"))
    assert check(world).holds


def test_a_set_that_is_not_in_the_store_is_said_to_be_not_compared(world):
    shutil.rmtree(world[0])
    found = check(world)
    assert found.holds
    assert not found.checked
    assert "not compared" in found.sentence


def test_a_record_that_was_removed_is_found(world):
    (world[0] / "record.json").unlink()
    assert not check(world).holds


def test_another_split_in_the_record_is_found(world):
    content = json.loads((world[0] / "record.json").read_text("utf-8"))
    (world[0] / "record.json").write_text(json.dumps(content | {"split": "test"}), "utf-8")
    assert not check(world).holds
