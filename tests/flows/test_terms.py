"""A report names the terms of an identity that a model always flags or scores higher.

A model flags three terms in every context; another scores two terms higher without more flags.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.evaluations import run
from support.html_page import read_page

pytestmark = pytest.mark.evaluates
TREES = [f"tree{letter}" for letter in "abcdefghijklmnopqrst"]
RIVERS = [f"river{letter}" for letter in "abcdefghijklmnopqrst"]
FLAGGED, RAISED = ["rivere", "riverk", "riverq"], ["treec", "treed"]
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
    "candidates": [
        {"name": name, "kind": "scores", "path": "rows.csv", "score": name, "threshold": 0.5}
        for name in ("m", "raises")
    ],
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
    raised = np.where(np.isin(names, RAISED) & ~label, rng.uniform(0.42, 0.49, names.size), scores)
    raised = np.where(label, raised, np.minimum(raised, 0.49))
    scores = np.where(np.isin(names, FLAGGED), rng.uniform(0.7, 1, names.size), scores)
    texts = [f"Row {at} is about {name}" for at, name in enumerate(names)]
    rows = {"id": np.arange(names.size), "text": texts, "label": label.astype(int)}
    scores = {"m": scores.round(4), "raises": raised.round(4)}
    pd.DataFrame(rows | scores).to_csv("rows.csv", index=False)
    Path("names.yaml").write_text(yaml.safe_dump(EVALUATION))


@pytest.mark.usefixtures("_inputs")
def test_the_names_that_a_model_treats_worse_are_named_before_any_table():
    _, first = run("evaluate", "names.yaml", "--output", "out")
    lines = " ".join(first.split())
    line = lines.partition("Worst terms of ")[2].partition(" Exception: ")[0].rstrip(".")
    named = dict(text.split(": ", 1) for text in line.split("; of "))
    for name, expected in (("m", FLAGGED), ("raises", RAISED)):
        assert {term for term in (*TREES, *RIVERS) if f'"{term}"' in named[name]} == set(expected)
    page = read_page(Path("out/report.html").read_text())
    first_lines = [
        paragraph.text for paragraph in page.find("p") if "Worst terms" in paragraph.text
    ]
    assert all(f'"{name}"' in " ".join(first_lines) for name in (*FLAGGED, *RAISED))
    _, shown = run("show", "out/rows/m", "--identity", "rivers")
    second = " ".join(shown.split()).partition("rows Worst terms: ")[2].partition(". ")[0]
    assert {term for term in RIVERS if f'"{term}"' in second} == set(FLAGGED)
    _, shown = run("show", "out/rows/raises", "--identity", "trees")
    assert 'the mean score of harmless comments with "tree' in shown
    _, shown = run("show", "out/rows/m", "--identity", "trees")
    assert "Worst terms: none is significantly worse" in shown
    _, text = run("show", "out/rows/m", "--all")
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
    with Path("out/rows/raises/terms.csv").open() as stream:
        found = list(csv.DictReader(stream))
    worse = {row["term"]: row["shown_worse"] for row in found if row["shown_worse"]}
    assert worse == dict.fromkeys(RAISED, "mean_score_negative")
    labels, scores = (pd.read_csv("rows.csv")[key] for key in ("label", "raises"))
    of_term = pd.read_csv("rows.csv")["text"].str.endswith("treec")
    [own] = [row for row in found if row["term"] == "treec"]
    assert float(own["mean_score_negative"]) == pytest.approx(
        scores[of_term & (labels == 0)].mean()
    )
    assert float(own["mean_score_positive"]) == pytest.approx(
        scores[of_term & (labels == 1)].mean()
    )
    page = Path("out/report.html").read_text()
    assert "Errors by term" in page
    assert "is about" not in page
    assert "is about" not in json.dumps(report)
    _, shown = run("show", "out", "--identity", "rivers")
    assert "Errors by term" in shown
    assert all(name in shown for name in RIVERS)
