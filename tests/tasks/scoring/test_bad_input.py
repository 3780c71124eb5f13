"""Odd comments and broken models, from the table to the stored scores: nothing is lost."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.comments import ODD
from support.registered import save_words, workplace_of

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

COMMENTS = [*ODD, "an ordinary comment", "another one"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The odd comments as an evaluation set."""
    folder = tmp_path_factory.mktemp("odd")
    columns = {
        "id": [f"c{n}" for n in range(len(COMMENTS))],
        "comment": COMMENTS,
        "label": [n % 2 for n in range(len(COMMENTS))],
    }
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    source = {"name": "odd", "source": "table", "text": "comment", "terms": ["word"]}
    source["path"] = folder / "rows.parquet"
    return freeze_source(SOURCES.validate_python(source), folder / "store")


def score_comments(candidate, rows, folder, model=None):
    """Score in shards of four rows; return the kept scores by id."""
    settings = CANDIDATES.validate_python({"name": "model", "rows_a_shard": 4} | candidate)
    with settings.open(workplace_of(model, folder)) as scorer:
        scored = score_rows(scorer, rows, settings, str(folder / "scores"))
    table = scored.table()
    return dict(zip(table["id"].to_pylist(), table["score"].to_pylist(), strict=True))


SEEN = """\
import json
from pathlib import Path

def call(texts):
    with Path({seen!r}).open("a") as stream:
        stream.writelines(json.dumps(text) + "\\n" for text in texts)
    return [{score} for text in texts]
"""


@pytest.fixture
def make_function(monkeypatch, tmp_path):
    """Return a function that makes a candidate from code; the candidate records its texts."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "site").mkdir()

    def make(score, seen):
        code = SEEN.format(seen=str(tmp_path / seen), score=score)
        (tmp_path / "site" / "odd_model.py").write_text(code)
        return {"kind": "python", "call": "odd_model:call", "version": "1"}

    return make


def read_seen(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_odd_comment_reaches_the_model_as_it_is(rows, make_function, tmp_path):
    found = score_comments(make_function("float(len(text))", "seen"), rows, tmp_path)
    assert sorted(read_seen(tmp_path / "seen")) == sorted(COMMENTS)
    assert found == {f"c{n}": float(len(text)) for n, text in enumerate(COMMENTS)}


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_score_that_is_no_number_is_told_by_row_and_id_and_the_rest_is_kept(
    rows, make_function, tmp_path, value
):
    broken = make_function(f"float({value!r}) if text.startswith('x') else 0.5", "seen")
    with pytest.raises(InputError, match=rf"must be finite; got {value} .row 3, id c3") as error:
        score_comments(broken, rows, tmp_path)
    assert "xxx" not in str(error.value)
    assert len(score_comments(make_function("float(len(text))", "again"), rows, tmp_path)) == len(
        COMMENTS
    )
    assert set(COMMENTS[:4]) <= set(read_seen(tmp_path / "again"))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["tfidf", "mlflow"])
def test_a_registered_model_without_its_weights_is_told(rows, tmp_path, kind):
    model = save_words(tmp_path / "model")
    candidate = {"kind": kind, "model": "models:/words/1"}
    assert len(score_comments(candidate, rows, tmp_path / "whole", model)) == len(COMMENTS)
    (model / "model.skops").unlink()
    with pytest.raises(InputError, match=r"model models:/words/1 .*'model.skops' is missing"):
        score_comments(candidate, rows, tmp_path / "broken", model)
