"""A valid evaluation in a folder, and the command run on it in this process."""

from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from biasgate.cli import app

N = 400
COMMENT = "secretword"
POLICY = """\
version: 1
name: own
allow_first: true
rules: [{metric: auc, scope: overall, floor: 0.6}]
"""
FILE = """\
name: mistakes
registered_model: toxicity
evaluation_sets:
  - name: rows
    source: table
    path: rows.csv
    text: text
    identities: [gay]
candidates:
  - name: file
    kind: scores
    path: scores.csv
    register: toxicity
policy: own.yaml
"""


def frame():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, N)
    return pd.DataFrame(
        {
            "id": np.arange(N) + 1000,
            "label": label,
            "gay": rng.integers(0, 2, N),
            "text": [f"{COMMENT} {one}" for one in range(N)],
            "prediction": np.round(label + 1.2 * rng.random(N), 3) / 3,
        }
    )


def write_inputs(folder):
    """Write a valid evaluation into a folder."""
    rows = frame()
    rows.drop(columns="prediction").to_csv(folder / "rows.csv", index=False)
    rows[["id", "prediction"]].to_csv(folder / "scores.csv", index=False)
    (folder / "own.yaml").write_text(POLICY)
    (folder / "file.yaml").write_text(FILE)
    return folder


def run(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    return result.exit_code, " ".join((result.output + result.stderr).split())


def evaluate(*arguments):
    return run("evaluate", "file.yaml", "--output", "out", *arguments)


def change(name, old, new):
    path = Path(name)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
