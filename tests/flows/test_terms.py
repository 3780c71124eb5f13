"""An identity of many names, of which a model flags three whatever is said: they are named."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.evaluations import run

pytestmark = pytest.mark.evaluates
TREES = [f"tree{letter}" for letter in "abcdefghijklmnopqrst"]
RIVERS = [f"river{letter}" for letter in "abcdefghijklmnopqrst"]
FLAGGED = ["rivere", "riverk", "riverq"]
EVALUATION = {
    "name": "names",
    "evaluation_sets": [
        {
            "name": "rows",
            "source": "table",
            "path": "rows.csv",
            "text": "text",
            "terms": {"trees": TREES, "rivers": RIVERS},
        }
    ],
    "candidates": [{"name": "m", "kind": "scores", "path": "rows.csv", "threshold": 0.5}],
    "policy": "default",
}


@pytest.fixture
def _inputs(tmp_path, monkeypatch, prefect_server):
    del prefect_server
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(8)
    names = np.repeat([*TREES, *RIVERS, *["nothing"] * 30], 36)
    label = np.arange(names.size) % 3 == 0
    scores = np.where(label, rng.beta(9, 2, names.size), rng.beta(2, 9, names.size))
    scores = np.where(np.isin(names, FLAGGED), rng.uniform(0.7, 1, names.size), scores)
    texts = [f"Row {at} is about {name}" for at, name in enumerate(names)]
    rows = {"id": np.arange(names.size), "text": texts, "label": label.astype(int)}
    pd.DataFrame(rows | {"prediction": scores.round(4)}).to_csv("rows.csv", index=False)
    Path("names.yaml").write_text(yaml.safe_dump(EVALUATION))


@pytest.mark.usefixtures("_inputs")
def test_three_names_of_twenty_that_are_always_flagged_are_named():
    run("evaluate", "names.yaml", "--output", "out")
    _, text = run("show", "out", "--all")
    line = " ".join(text.split()).partition("Worst terms: ")[2].partition(" all terms are in ")
    assert line[0].startswith("24 of 24 harmless comments with ")
    assert {name for name in (*TREES, *RIVERS) if f'"{name}"' in line[0]} == set(FLAGGED)
    with Path("out/rows/m/terms.csv").open() as stream:
        found = list(csv.DictReader(stream))
    worse = {row["term"] for row in found if "false_positive_rate" in row["shown_worse"]}
    assert worse == set(FLAGGED)
    assert len(found) == 1 + len(TREES) + len(RIVERS)
    report = json.loads(Path("out/rows/m/report.json").read_text())
    assert len(report["terms"]["terms"]) == len(TREES) + len(RIVERS)
    page = Path("out/report.html").read_text()
    assert "Errors by term" in page
    assert "is about" not in page
    assert "is about" not in json.dumps(report)
    _, shown = run("show", "out", "--identity", "rivers")
    assert "Errors by term" in shown
    assert all(name in shown for name in RIVERS)
