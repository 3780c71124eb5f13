"""Data as people have them, through the command: identities by name, in every format."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.blocks import blocks_of
from typer.testing import CliRunner

from biasgate.cli import app

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server")]
GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "evaluation-files.md"

N = 600
GROUPS = ["Muslims", "gay", "women", "lesbian"]
SET = {
    "label": "toxic",
    "names_in": "groups",
    "names": {"muslim": ["Muslim", "Muslims"], "gay": ["gay", "lesbian"]},
}
CSV = SET | {"label": ["rater0", "rater1", "rater2"], "label_rule": "raters"}
SETS = [
    SET | {"name": "json lines", "source": "table", "path": "named.jsonl"},
    SET | {"name": "parquet", "source": "table", "path": "named.parquet"},
    SET | {"name": "weighted", "source": "table", "path": "named.parquet", "weight": "weight"},
    CSV | {"name": "csv", "source": "table", "path": "named.csv"},
    SET | {"name": "pinned", "source": "huggingface", "parquet": ["named.parquet"]},
    SET | {"name": "repository", "source": "huggingface", "folder": "repo", "split": "train"},
]


@pytest.fixture(scope="module")
def rows():
    draws = np.random.default_rng(1)
    toxic = draws.random(N) < 0.4
    groups = [[one for one in GROUPS if draws.random() < 0.3] for _ in range(N)]
    table = {"id": range(N), "toxic": toxic.astype(int), "groups": groups}
    table |= {f"rater{at}": np.where(draws.random(N) < 0.1, ~toxic, toxic) for at in range(3)}
    scores = np.clip(draws.normal(0.3 + 0.3 * toxic, 0.2), 0, 1)
    return pd.DataFrame(
        table | {"weight": draws.choice([1.0, 3.5], N), "prediction": scores.round(4)}
    )


@pytest.fixture
def folder(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows.to_json("named.jsonl", orient="records", lines=True)
    rows.to_parquet("named.parquet")
    rows.to_csv("named.csv", index=False)
    (tmp_path / "repo").mkdir()
    rows.to_parquet("repo/train.parquet")
    rows[["id", "prediction"]].to_csv("named_scores.csv", index=False)
    return tmp_path


def evaluate(file, output):
    done = CliRunner().invoke(app, ["evaluate", file, "--output", output, "--store", "store"])
    assert done.exit_code == 0, done.output


def test_every_format_gives_the_same_numbers(folder, rows):
    pytest.importorskip("datasets")
    candidate = {"name": "my_model", "kind": "scores", "path": "named_scores.csv"}
    content = {"name": "own", "evaluation_sets": SETS, "candidates": [candidate]}
    (folder / "own.yaml").write_text(yaml.safe_dump(content | {"policy": "report-only"}))
    evaluate("own.yaml", "out")
    bias = {
        one["name"]: json.loads(
            (folder / "out" / one["name"] / "my_model/report.json").read_text()
        )["bias"]
        for one in SETS
    }
    assert bias["json lines"] == bias["parquet"] == bias["pinned"] == bias["repository"]
    gay = [{"gay", "lesbian"} & set(one) != set() for one in rows["groups"]]
    assert bias["parquet"]["subgroups"]["gay"]["n"] == sum(gay)
    of_votes = rows[["rater0", "rater1", "rater2"]].mean(axis=1) >= 0.5
    assert bias["csv"]["overall"]["n_positive"] == of_votes.sum()
    assert bias["weighted"]["subgroups"]["gay"]["n"] == sum(gay)
    assert bias["weighted"] != bias["parquet"]


def test_the_file_of_the_guide_is_evaluated(folder):
    [file] = [one.content for one in blocks_of(GUIDE) if one.content.startswith("name: named\n")]
    (folder / "named.yaml").write_text(file)
    evaluate("named.yaml", "named")
    report = json.loads((folder / "named/comments/my_model/report.json").read_text())
    assert list(report["bias"]["subgroups"]) == ["muslim", "gay"]
