"""Each candidate says which files decide its scores, and is scored from those and no others."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.comments import batch
from support.frozen import freeze_table
from support.registered import save_words

from biasgate.tasks.common.errors import CandidateError, InputError
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.data import reading
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.signing.manifest import Manifest
from biasgate.tasks.store import Workplace

SETTINGS = CANDIDATES.validate_python(
    {"name": "own", "kind": "scores", "path": "unused.csv", "rows_a_shard": 8}
)


@pytest.fixture
def rows(tmp_path):
    return freeze_table(pd.DataFrame({"id": [f"c{n:02}" for n in range(24)]}), tmp_path)


class FileScorer(Scorer):
    """Scores rows by the number in its file, which it replaces in the n-th call."""

    columns = ("id",)
    not_bound = None

    def __init__(self, path, exchanged_in=None, after=None):
        self.files, self.calls = path, 0
        self.exchanged_in, self.after = exchanged_in, after
        self.digest = self.files_digest

    def score(self, rows):
        self.calls += 1
        if self.calls == self.exchanged_in:
            self.files.write_text(self.after)
        return float(self.files.read_text()) + np.arange(rows.num_rows) / 100


@pytest.mark.parametrize("call", [1, 3])
def test_a_file_that_changes_while_it_is_scored_is_found_and_its_scores_are_removed(
    rows, tmp_path, call
):
    weights = tmp_path / "weights"
    weights.write_text("1")
    with pytest.raises(CandidateError, match=r"must not change while they are scored; got: weig"):
        score_rows(FileScorer(weights, call, "2"), rows, SETTINGS, str(tmp_path / "scores"))
    assert not list((tmp_path / "scores").rglob("0*.parquet"))
    weights.write_text("1")
    kept = score_rows(FileScorer(weights), rows, SETTINGS, str(tmp_path / "scores"))
    assert kept.table()["score"].to_numpy().max() < 2


def test_kept_scores_say_which_files_decided_them(rows, tmp_path):
    (tmp_path / "weights").write_text("1")
    kept = score_rows(FileScorer(tmp_path / "weights"), rows, SETTINGS, str(tmp_path / "scores"))
    manifest = Manifest.from_path(tmp_path / "weights")
    assert convert_to_plain(ScoredSet.open(kept.url).record.bound) == {
        "what": "files",
        "digest": manifest.digest,
        "files": convert_to_plain(manifest.files),
        "not_bound": None,
    }


def test_a_record_that_lacks_a_key_is_written_again_and_no_score_is_made_again(rows, tmp_path):
    (tmp_path / "weights").write_text("1")
    first = score_rows(FileScorer(tmp_path / "weights"), rows, SETTINGS, str(tmp_path / "scores"))
    record = Path(first.url) / "record.json"
    whole = json.loads(record.read_text())
    rate = whole.pop("rows_per_second")
    before = {name: value for name, value in whole.items() if name != "bound"}
    record.write_text(json.dumps(before))
    again = FileScorer(tmp_path / "weights")
    assert score_rows(again, rows, SETTINGS, str(tmp_path / "scores")).record.bound
    now = json.loads(record.read_text())
    # It is written anew, and says when.
    assert (again.calls, now | {"made": None}) == (0, whole | {"made": None})
    assert rate > 0


def test_a_file_of_scores_binds_the_file_and_a_function_what_there_is(tmp_path):
    (tmp_path / "s.csv").write_text("id,prediction\n1,0.5\n")
    (tmp_path / "f.py").write_text("def score(texts):\n    return [0.5] * len(texts)\n")
    options = [
        {"kind": "scores", "path": tmp_path / "s.csv"},
        {"kind": "python", "call": f"{tmp_path}/f.py:score", "version": "1"},
        {"kind": "python", "call": "numpy:size", "version": "1"},
        {"kind": "http", "url": "http://127.0.0.1:9/invocations", "version": "1"},
    ]
    found = []
    for one in options:
        with CANDIDATES.validate_python(one | {"name": "c"}).open(Workplace(tmp_path)) as scorer:
            found.append(scorer.bound)
    assert [one.what for one in found] == ["scores", "files", "nothing", "nothing"]
    named = [[file.path for file in one.files] for one in found]
    assert named == [["s.csv"], ["f.py"], [], []]
    assert all(one.not_bound.endswith(".") for one in found)


def test_a_file_of_scores_that_changes_while_it_is_read_is_found(tmp_path, monkeypatch):
    path = tmp_path / "s.csv"
    path.write_text("id,prediction\n1,0.5\n")
    original = reading.convert_ids

    def replace_file(*arguments):
        path.write_text("id,prediction\n1,0.9\n")
        return original(*arguments)

    monkeypatch.setattr(reading, "convert_ids", replace_file)
    candidate = CANDIDATES.validate_python({"name": "c", "kind": "scores", "path": path})
    with pytest.raises(CandidateError, match="must not change while they are scored"):
        candidate.open(None)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A store with a registered model, as biasgate saves it."""
    folder = tmp_path_factory.mktemp("registry")
    save_words(folder / "model")
    gateway = Gateway.from_store(folder / "store")
    run_id = gateway.ensure_run(gateway.ensure_experiment("models"), "words", "words")
    gateway.log_folder(run_id, folder / "model", "model")
    gateway.register("words", run_id, "model", {})
    return folder / "store"


@pytest.fixture
def store(registry, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return shutil.copytree(registry, tmp_path / "store")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["mlflow", "tfidf"])
def test_a_version_is_scored_from_a_copy_that_is_removed_afterwards(store, kind):
    gateway = Gateway.from_store(store)
    version = gateway.resolve("models:/words/1")
    settings = {"name": "words", "kind": kind, "model": version.uri}
    with CANDIDATES.validate_python(settings).open(Workplace(store)) as scorer:
        assert scorer.bound.digest == gateway.read_manifest(version).digest
        assert scorer.bound.not_bound is None
        weights = Path(gateway.find_files_uri(version).removeprefix("file://")) / "model.skops"
        weights.write_bytes(b"exchanged")
        low, high = scorer.score(batch(["kind words", "vile insult"]))
        assert low < 0.5 < high
        scorer.refuse_changes()
        assert list((store / "work").iterdir())
    assert not list((store / "work").iterdir())
    with pytest.raises(InputError, match="not in the format of skops"):
        CANDIDATES.validate_python(settings).open(Workplace(store))
    assert not list((store / "work").iterdir())


def test_a_version_with_a_symbolic_link_is_not_scored(store):
    gateway = Gateway.from_store(store)
    place = gateway.find_files_uri(gateway.resolve("models:/words/1")).removeprefix("file://")
    (Path(place) / "conda.yaml").unlink()
    (Path(place) / "conda.yaml").symlink_to("MLmodel")
    settings = {"name": "words", "kind": "mlflow", "model": "models:/words/1"}
    with pytest.raises(InputError, match=r"conda\.yaml must be a regular file; it is a symbolic"):
        CANDIDATES.validate_python(settings).open(Workplace(store))


def test_a_kind_that_says_nothing_binds_nothing():
    class Silent(Scorer):
        def score(self, rows):
            return np.zeros(rows.num_rows)

    assert convert_to_plain(Silent().bound) == {
        "what": "nothing",
        "digest": None,
        "files": [],
        "not_bound": "This kind of candidate does not say which files decide its scores.",
    }
