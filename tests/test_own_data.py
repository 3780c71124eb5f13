"""Data as people have them, by the installed command: identities by name, in every format."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.blocks import blocks_of
from support.cells import counts_of, groups_of, n_of
from support.hub import COMMIT, serving

pytestmark = pytest.mark.slow
GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "evaluation-files.md"

N = 600
GROUPS = ["Muslims", "gay", "women", "lesbian"]
SET = {
    "label": "toxic",
    "identities": {
        "column": "groups",
        "names": {"muslim": ["Muslim", "Muslims"], "gay": ["gay", "lesbian"]},
    },
}
CSV = SET | {"label": ["rater0", "rater1", "rater2"]}
SETS = [
    SET | {"name": "json lines", "source": "table", "path": "named.jsonl"},
    SET | {"name": "parquet", "source": "table", "path": "named.parquet"},
    SET
    | {"name": "one name a row", "source": "table", "path": "named.parquet"}
    | {"identities": SET["identities"] | {"column": "one"}},
    SET | {"name": "weighted", "source": "table", "path": "named.parquet", "weight": "weight"},
    CSV | {"name": "csv", "source": "table", "path": "named.csv"},
    SET | {"name": "pinned", "source": "huggingface", "parquet": ["named.parquet"]},
    SET | {"name": "repository", "source": "huggingface", "folder": "repo", "split": "train"},
    SET
    | {"name": "hub", "source": "huggingface", "dataset": "acme/chats", "revision": COMMIT}
    | {"split": "train"},
]


@pytest.fixture(scope="module")
def rows():
    draws = np.random.default_rng(1)
    toxic = draws.random(N) < 0.4
    groups = [[one for one in GROUPS if draws.random() < 0.3] for _ in range(N)]
    table = {"id": range(N), "toxic": toxic.astype(int), "groups": groups}
    table |= {"one": [one[0] if one else "nobody" for one in groups]}
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


def evaluate(file, output, **variables):
    command = [Path(sys.executable).with_name("biasgate"), "evaluate", file]
    done = subprocess.run(
        [*command, "--output", output, "--store", "store"],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_format_gives_the_same_numbers(folder, rows):
    pytest.importorskip("datasets")
    candidate = {"name": "my_model", "kind": "scores", "path": "named_scores.csv"}
    content = {"name": "own", "evaluation_sets": SETS, "candidates": [candidate]}
    (folder / "own.yaml").write_text(yaml.safe_dump(content | {"policy": "report-only"}))
    with serving(folder / "repo", "acme/chats", kind="datasets") as hub:
        evaluate("own.yaml", "out", **hub.environment(folder / "hub"))
    assert hub.requests
    bias = {
        one["name"]: json.loads(
            (folder / "out" / one["name"] / "my_model/report.json").read_text()
        )["bias"]
        for one in SETS
    }
    assert bias["json lines"] == bias["parquet"] == bias["pinned"] == bias["repository"]
    assert bias["hub"] == bias["repository"]
    gay = [{"gay", "lesbian"} & set(one) != set() for one in rows["groups"]]
    assert n_of(bias["parquet"], "gay") == sum(gay)
    named_first = rows["one"].isin(["gay", "lesbian"]).sum()
    assert n_of(bias["one name a row"], "gay") == named_first
    highest = rows[["rater0", "rater1", "rater2"]].max(axis=1) >= 0.5
    assert counts_of(bias["csv"])["n_positive"] == highest.sum()
    assert n_of(bias["weighted"], "gay") == sum(gay)
    assert bias["weighted"] != bias["parquet"]


def test_the_file_of_the_guide_is_evaluated(folder):
    [file] = [one.content for one in blocks_of(GUIDE) if one.content.startswith("name: named\n")]
    (folder / "named.yaml").write_text(file)
    evaluate("named.yaml", "named")
    report = json.loads((folder / "named/comments/my_model/report.json").read_text())
    assert groups_of(report["bias"]) == ["muslim", "gay"]
