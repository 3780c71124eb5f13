"""Odd comments and broken models, from the table to the kept scores: nothing is lost."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.comments import ODD

from tasks.data.freezing import SOURCES, freeze
from tasks.errors import CandidateError, InputError
from tasks.mlflow_models import save_classifier
from tasks.scoring.candidate import Workplace
from tasks.scoring.kinds import CANDIDATES
from tasks.scoring.scored import score_rows
from tasks.scoring.tfidf import EXAMPLE, Tfidf

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
    return freeze(SOURCES.validate_python(source), folder / "store")


def kept(candidate, rows, folder, gateway=None):
    """Score in shards of four rows; what is kept, by id."""
    settings = CANDIDATES.validate_python({"name": "model", "rows_a_shard": 4} | candidate)
    with settings.open(Workplace(folder, gateway)) as scorer:
        scored = score_rows(scorer, rows, settings, str(folder / "scores"))
    table = scored.table()
    return dict(zip(table["id"].to_pylist(), table["score"].to_pylist(), strict=True))


@pytest.fixture
def function(monkeypatch):
    """Make a function of texts a candidate."""

    def made(call):
        import sys  # noqa: PLC0415 - only here

        monkeypatch.setitem(sys.modules, "odd_model", SimpleNamespace(call=call))
        return {"kind": "python", "call": "odd_model:call", "version": "1"}

    return made


def test_every_odd_comment_reaches_the_model_as_it_is(rows, function, tmp_path):
    seen = []

    def call(texts):
        seen.extend(texts)
        return [float(len(text)) for text in texts]

    found = kept(function(call), rows, tmp_path)
    assert sorted(seen) == sorted(COMMENTS)
    assert found == {f"c{n}": float(len(text)) for n, text in enumerate(COMMENTS)}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_told_by_row_and_id_and_the_rest_is_kept(
    rows, function, tmp_path, value
):
    def call(texts):
        return [value if text == COMMENTS[3] else float(len(text)) for text in texts]

    with pytest.raises(InputError, match=rf"must be finite; got {value} .row 3, id c3") as error:
        kept(function(call), rows, tmp_path)
    assert "xxx" not in str(error.value)
    again = []

    def mended(texts):
        again.extend(texts)
        return [float(len(text)) for text in texts]

    assert len(kept(function(mended), rows, tmp_path)) == len(COMMENTS)
    assert set(COMMENTS[:4]) <= set(again)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["tfidf", "mlflow"])
def test_a_registered_model_without_its_weights_is_told(rows, tmp_path, kind):
    settings = Tfidf(name="words", kind="tfidf", model="models:/words/1")
    texts = [f"{word} {n}" for n in range(20) for word in ("kind words", "vile insult")]
    save_classifier(settings.pipeline().fit(texts, [0, 1] * 20), tmp_path / "model", EXAMPLE)
    gateway = SimpleNamespace(
        resolve=lambda uri: SimpleNamespace(uri=uri), download=lambda _: tmp_path / "model"
    )
    candidate = {"kind": kind, "model": "models:/words/1"}
    assert len(kept(candidate, rows, tmp_path / "whole", gateway)) == len(COMMENTS)
    (tmp_path / "model" / "model.skops").unlink()
    with pytest.raises(CandidateError, match=r"candidate 'model' failed with \w+Error at"):
        kept(candidate, rows, tmp_path / "broken", gateway)
