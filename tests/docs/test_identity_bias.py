"""The metric for Hugging Face's evaluate is loaded by its own loader, without a network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bias_metrics import evaluate_bias

pytest.importorskip("evaluate")

MODULE = Path(__file__).parents[2] / "docs" / "reproduce" / "identity_bias.py"
SCRIPT = """\
import json, sys
import evaluate

given, options = json.load(open("given.json"))
bias = evaluate.load(sys.argv[1])
found = [bias.compute(**given, **options)]
for references, predictions in zip(given["references"], given["predictions"]):
    bias.add(references=references, predictions=predictions)
found.append(bias.compute(**options))
json.dump(found, open("found.json", "w"))
given["references"][3] = 0.7
try:
    bias.compute(**given, **options)
except ValueError as error:
    print(error)
"""


def plain(numbers):
    return {metric: number.to_dict(interval=True) for metric, number in numbers.items()}


def test_evaluate_loads_it_and_its_numbers_are_those_of_the_library(tmp_path):
    rng = np.random.default_rng(0)
    toxic, gay = rng.random(300) < 0.4, rng.random(300) < 0.3
    scores = 0.3 * toxic + 0.2 * gay + rng.random(300)
    articles = [f"a{row // 5}" for row in range(300)]
    given = {"references": toxic.astype(int).tolist(), "predictions": scores.tolist()}
    # Nobody is in the last one, so that its numbers are undefined.
    options = {
        "subgroups": {"gay": gay.tolist(), "none": [False] * 300},
        "clusters": articles,
    }
    (tmp_path / "given.json").write_text(json.dumps([given, options]), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, MODULE],
        cwd=tmp_path,
        env=os.environ | {"HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    table = evaluate_bias(toxic, scores, options["subgroups"], clusters=articles)
    assert table["bpsn_auc", "none"].value is None
    expected = {
        "overall": plain(table.overall),
        "subgroups": {name: plain(numbers) for name, numbers in table.subgroups.items()},
    }
    at_once, row_by_row = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert at_once == row_by_row == json.loads(json.dumps(expected))
    assert "`y_true` must be boolean (or 0 and 1); got 0.7 (row 3)" in done.stdout
