"""Losses at thresholds are found between registered versions without rules on thresholds."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.evaluations import run

from biasgate.tasks.check_messages import describe_bounds
from biasgate.tasks.records import Verdict
from biasgate.tasks.wording import get_verdict_words

pytestmark = pytest.mark.evaluates
N = 2_000
POLICY = {
    "version": 1,
    "name": "own",
    "allow_first": True,
    "shown_harm": {"tolerance": 0.02},
    "rules": [{"metric": "auc", "scope": "overall", "floor": 0.6}],
}
SET = {"name": "rows", "source": "table", "path": "rows.csv", "text": "text", "identities": ["gay"]}


def evaluate(name, threshold):
    """Evaluate and register a file of scores by the command; return exit code and verdict."""
    candidate = {"name": name, "kind": "scores", "path": f"{name}.csv", "register": "toxicity"}
    if threshold is not None:
        candidate["threshold"] = threshold
    evaluation = {"name": name, "registered_model": "toxicity", "policy": "own.yaml"}
    evaluation |= {"evaluation_sets": [SET], "candidates": [candidate]}
    Path(f"{name}.yaml").write_text(yaml.safe_dump(evaluation))
    code, text = run("evaluate", f"{name}.yaml", "--output", f"out-{name}")
    verdict = Path(f"out-{name}/rows/{name}/verdict.json")
    return code, text, json.loads(verdict.read_text())


@pytest.fixture(autouse=True)
def _inputs(tmp_path, monkeypatch, prefect_server):
    """Write two files of scores with equal ranks and different decisions at .5."""
    del prefect_server
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    label, gay = rng.random(N) < 0.4, rng.random(N) < 0.3
    scores = 0.3 + 0.4 * label + rng.uniform(-0.28, 0.28, N)
    scores = np.where(abs(scores - 0.5) < 0.02, 0.55, scores)  # nobody else is between them
    missed = label & gay & (rng.random(N) < 0.5)
    ids = np.arange(N) + 1
    texts = [f"comment {at}" for at in ids]
    rows = {"id": ids, "label": label.astype(int), "gay": gay.astype(int), "text": texts}
    pd.DataFrame(rows).to_csv("rows.csv", index=False)
    for name, at in (("first", 0.51), ("second", 0.49)):
        found = pd.DataFrame({"id": ids, "prediction": np.where(missed, at, scores)})
        found.to_csv(f"{name}.csv", index=False)
    Path("own.yaml").write_text(yaml.safe_dump(POLICY))


def test_a_loss_that_only_a_gap_shows_blocks_with_the_threshold_that_the_champion_was_judged_with():
    code, _, _ = evaluate("first", 0.5)
    assert code == 0
    code, text, verdict = evaluate("second", 0.5)
    assert (code, verdict["outcome"]) == (3, "fail")
    assert verdict["champion"]["threshold"] == 0.5
    assert {loss["metric"] for loss in verdict["worsened"]} == {"fnr_gap"}
    assert get_verdict_words(Verdict.from_dict(verdict)).text == "Blocked: worse for gay"
    assert re.search("BLOCKED .*gay.* worse", " ".join(text.split()))
    assert verdict["bounds"]["jointly"] == 7
    [changed] = pd.read_csv("out-second/rows/second/changed_decisions.csv").to_dict("records")
    missed = verdict["changed"]["gay"]["newly_missed"]
    assert (changed["n_newly_missed"], changed["n_positive"]) == (missed["count"], missed["n"])
    assert not Path("out-first/rows/first/changed_decisions.csv").exists()
    assert "recomputing the verdict on rows reproduces it" in run("verify", "toxicity", "2")[1]


def test_where_the_champion_has_no_threshold_the_verdict_says_what_was_not_looked_at():
    evaluate("first", None)
    code, _, verdict = evaluate("second", 0.5)
    assert (code, verdict["outcome"], verdict["bounds"]["jointly"]) == (0, "pass", 5)
    assert describe_bounds(Verdict.from_dict(verdict).bounds).endswith(
        "Losses in fpr_gap and fnr_gap are not tested: the champion has no `threshold`."
    )
