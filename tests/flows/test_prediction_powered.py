"""Human identity labels on part of the rows and terms on all, from the file to the verdict."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
import yaml
from support.evaluations import run
from support.html_page import read_page

from bias_metrics import Rows, prediction_powered_bias

pytestmark = pytest.mark.slow
N = 3000
POLICY = {
    "version": 1,
    "name": "own",
    "allow_first": True,
    "rules": [
        {"metric": "bnsp_auc", "scope": "each", "floor": 0.6, "min_positives": 20},
        {"metric": "bpsn_auc", "scope": "each", "margin": 0.1},
        {"metric": "final_score", "scope": "aggregate", "floor": 0.6},
    ],
}
FILE = {
    "name": "helped",
    "registered_model": "toxicity",
    "evaluation_sets": [
        {
            "name": "rows",
            "source": "table",
            "path": "rows.csv",
            "text": "text",
            "identities": ["gay", "old"],
            "terms": {"gay": ["gay"], "old": ["old", "older"]},
            "prediction_powered": True,
        }
    ],
    "candidates": [
        {"name": "file", "kind": "scores", "path": "scores.csv", "register": "toxicity"}
    ],
    "policy": "own.yaml",
}


def write_rows(folder):
    rng = np.random.default_rng(3)
    toxic, gay, old = (rng.random(N) < share for share in (0.3, 0.2, 0.25))
    named = [rng.random(N) < np.where(one, 0.85, 0.01) for one in (gay, old)]
    words = [
        " ".join(word for word, there in (("gay", one), ("older", other)) if there)
        for one, other in zip(*named, strict=True)
    ]
    labelled = rng.random(N) < 0.3
    table = pd.DataFrame({"id": np.arange(N), "label": toxic.astype(int)})
    table["text"] = [f"secretword {one}" for one in words]
    table["thread"] = rng.integers(0, 300, N)
    table["gay"], table["old"] = (np.where(labelled, one, np.nan) for one in (gay, old))
    table["prediction"] = (1 / (1 + np.exp(-rng.normal(2 * toxic - 1)))).round(4)
    table.drop(columns="prediction").to_csv(folder / "rows.csv", index=False)
    table[["id", "prediction"]].to_csv(folder / "scores.csv", index=False)
    return table.assign(named_gay=named[0], named_old=named[1], labelled=labelled)


def with_set(**options):
    return FILE | {"evaluation_sets": [FILE["evaluation_sets"][0] | options]}


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """A folder in which a helped set was evaluated twice, with clusters the second time."""
    del prefect_server
    folder = tmp_path_factory.mktemp("helped")
    rows = write_rows(folder)
    (folder / "own.yaml").write_text(yaml.safe_dump(POLICY))
    files = {"first": FILE, "second": with_set(cluster="thread")}
    for name, one in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(one))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
            patch.setattr(logging.getLogger(name), "disabled", True)
        done = {
            name: run("evaluate", f"{name}.yaml", "--output", name, "--store", "store")
            for name in files
        }
        done["verify"] = run("verify", "toxicity", "--store", "store")
        yield folder, done, rows


def read(home, run_name, name):
    return json.loads((home[0] / run_name / "rows/file" / name).read_text("utf-8"))


def test_the_first_line_and_the_headline_fit_the_numbers(home):
    folder, *_ = home
    report = json.loads((folder / "first/rows/file/report.json").read_text())
    n = sum(report["bias"]["overall"]["labelled"].values())
    text = run("show", folder / "first", "--all")[1]
    assert f"3,000 rows, {report['bias']['overall']['n_positive']:,} positive; " in text
    assert f"counted on {n:,} rows" in text
    assert "in the rows with human identity labels alone; the lowest AUC with enough" in text


def test_the_report_has_the_numbers_of_labels_and_terms(home):
    _, done, rows = home
    assert done["first"][0] == 0, done["first"][1]
    found = read(home, "first", "report.json")
    human = {name: rows[name] >= 0.5 for name in ("gay", "old")}
    matched = {name: rows[f"named_{name}"] for name in ("gay", "old")}
    known = prediction_powered_bias(
        Rows(rows.label == 1, human), rows.prediction, matched, rows.labelled
    ).to_dict()
    assert found["bias"] == known
    assert found["bias"]["subgroups"]["gay"]["assisted"]["bnsp_auc"]["gain"] > 1.5
    assert found["bias"]["overall"]["n"] == N
    assert sum(found["bias"]["overall"]["labelled"].values()) == rows.labelled.sum()


def test_the_table_and_the_warnings_say_what_terms_add(home):
    folder, _, rows = home
    table = pd.read_csv(folder / "first/rows/file/bias_metrics.csv")
    found = read(home, "first", "report.json")
    gains = [one["assisted"]["bpsn_auc"]["gain"] for one in found["bias"]["subgroups"].values()]
    assert table.bpsn_auc_gain.tolist() == pytest.approx(gains)
    text = f"human identity labels on {rows.labelled.sum():,} of 3,000 rows"
    assert any(text in one for one in found["warnings"])
    assert text in run("show", folder / "first", "--all")[1]
    assert not read(home, "first", "verdict.json")["reservations"]


def test_the_report_says_how_well_terms_and_raters_agree(home):
    found = read(home, "first", "report.json")["label_agreement"]
    assert found["n"] == home[2].labelled.sum()
    assert found["identities"]["gay"]["recall"]["value"] == pytest.approx(0.85, abs=0.07)


def test_policies_judge_the_helped_numbers_and_count_labelled_rows(home):
    report = read(home, "first", "report.json")
    verdict = read(home, "first", "verdict.json")
    gay = report["bias"]["subgroups"]["gay"]
    [one] = [
        one
        for one in verdict["results"]
        if (one["metric"], one["group"], one["kind"]) == ("bnsp_auc", "gay", "floor")
    ]
    assert one["value"] == pytest.approx(gay["bnsp_auc"]["value"])
    assert one["n_positive"] == gay["n_positive"] < 100
    assert verdict["outcome"] == "pass"


def test_a_champion_is_compared_with_the_help_of_terms(home):
    done = home[1]
    assert done["second"][0] == 0, done["second"][1]
    verdict = read(home, "second", "verdict.json")
    margins = [one for one in verdict["results"] if one["kind"] == "champion"]
    assert {one["outcome"] for one in margins} == {"pass"}
    assert verdict["champion"] is not None


def test_a_verdict_is_recomputed_from_its_evidence(home):
    code, told = home[1]["verify"]
    assert code == 0, told
    assert "gives the same one (pass)" in told


def test_the_page_says_what_terms_add(home):
    page = read_page((home[0] / "first" / "report.html").read_bytes())
    rows = page.one("section", id="diagnosis").one("table").rows()
    assert {row[0] for row in rows} == {"gay", "old"}
    assert all(float(text) >= 1 for row in rows for text in row[1:6])
