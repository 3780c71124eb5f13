"""Measured rows in memory and on disk, as passed to an analysis."""

import numpy as np
import pandas as pd
import pytest

from biasgate.tasks.analysing.analysis import MeasuredRows
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.evidence.file import FILE
from biasgate.tasks.evidence.join import write_evidence
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

N = 600
IDENTITIES = ["black", "female", "muslim"]


@pytest.fixture
def frame():
    """Comments with a seventh that was not shown to identity raters."""
    rng = np.random.default_rng(8)
    label = rng.choice([0.0, 0.2, 0.4, 0.5, 0.6, 1.0], N)
    groups = {name: rng.choice([0.0, 0.4, 0.5, 1.0], N) for name in IDENTITIES}
    both = (groups["black"] >= 0.5) & (groups["female"] >= 0.5)
    rated = np.arange(N) % 7 != 0
    words = np.where(rng.random(N) < 0.5, np.where(groups["muslim"] >= 0.5, "Muslims", "x"), "y")
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "text": [f"{word} {number}" for number, word in enumerate(words)],
            "label": label,
            "thread": np.arange(N) // 4,
            "prediction": np.round(0.4 * label + 0.3 * both + 0.6 * rng.random(N), 2),
        }
        | {name: np.where(rated, one, np.nan) for name, one in groups.items()}
    )


@pytest.fixture
def frozen(tmp_path):
    """Freeze a table, or generated phrases; return the settings and the set."""

    def frozen(table=None, **options):
        settings = {"name": "rows", "source": "table"} | options
        if table is not None:
            table.to_csv(tmp_path / "rows.csv", index=False)
            settings |= {"path": tmp_path / "rows.csv"}
        source = SOURCES.validate_python(settings)
        return source, freeze_source(source, tmp_path / "store")

    return frozen


@pytest.fixture
def measured(frozen, tmp_path):
    """Freeze a table with its scores, and join both."""

    def measured(table, **options):
        source, rows = frozen(table, **({"identities": IDENTITIES} | options))
        table[["id", "prediction"]].to_csv(tmp_path / "scores.csv", index=False)
        settings = {"name": "file", "kind": "scores", "path": tmp_path / "scores.csv"}
        candidate = CANDIDATES.validate_python(settings)
        scored = score_rows(candidate.open(None), rows, candidate, str(tmp_path / "scores"))
        evidence = write_evidence(rows, scored, {}, source, tmp_path / FILE)
        return MeasuredRows(evidence, rows, source)

    return measured
