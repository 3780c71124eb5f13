"""The file that a verdict is based on, written from a frozen set, its scores and its layout."""

import numpy as np
import pandas as pd
import pytest

from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.freezing import SOURCES, freeze
from biasgate.tasks.gating.evidence import FILE, EvidenceFile
from biasgate.tasks.gating.evidence_writing import write_evidence
from biasgate.tasks.measuring.arrays import lay_out
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

N = 60


@pytest.fixture
def table():
    """Rows of which a third was never shown to identity raters."""
    rng = np.random.default_rng(3)
    rated = np.arange(N) % 3 != 0
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "label": np.arange(N) % 2,
            "gay": np.where(rated, rng.integers(0, 2, N), np.nan),
            "short": rng.integers(0, 2, N),
            "thread": np.arange(N) // 4,
            "prediction": rng.random(N),
        }
    )


@pytest.fixture
def written(table, tmp_path):
    """Evidence of these rows, with a slice and clusters."""
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)
    options = {"name": "rows", "source": "table", "path": path, "identities": ["gay"]}
    source = SOURCES.validate_python(options | {"slices": ["short"], "cluster": "thread"})
    rows: EvaluationSet = freeze(source, tmp_path / "store")
    candidate = CANDIDATES.validate_python({"name": "file", "kind": "scores", "path": path})
    scored = score_rows(candidate.open(None), rows, candidate, str(tmp_path / "scores"))
    layout = lay_out(rows, scored, source, tmp_path / "layout")
    return write_evidence(layout, rows, scored, {"champion": scored}, tmp_path / FILE)


def test_slices_of_the_measured_rows_are_kept(table, written):
    measured = table[table["gay"].notna()]
    slices = EvidenceFile(written.path).columns("slice/")
    assert list(slices) == ["short"]
    assert slices["short"].tolist() == (measured["short"] == 1).tolist()


def test_all_columns_are_of_the_measured_rows(table, written):
    measured = table[table["gay"].notna()]
    evidence = EvidenceFile(written.path)
    assert evidence.column("id").tolist() == measured["id"].astype(str).tolist()
    assert evidence.column("label").tolist() == (measured["label"] == 1).tolist()
    assert evidence.column("identity/gay").tolist() == (measured["gay"] == 1).tolist()
    assert evidence.column("score/candidate").tolist() == measured["prediction"].tolist()
    assert evidence.column("score/champion").tolist() == measured["prediction"].tolist()
    codes = evidence.column("cluster")
    assert codes.tolist() == pd.factorize(measured["thread"])[0].tolist()
