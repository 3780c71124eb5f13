"""The example for inspect_ai runs with its mock model, and its log is judged to the end."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bias_metrics import evaluate_bias

inspect_ai = pytest.importorskip("inspect_ai")

ROOT = Path(__file__).parents[4]
N = 90


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The log of a run with a mock model; and labels, scores and members of its samples."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: PLC0415

    monkeypatch.syspath_prepend(str(ROOT / "docs" / "reproduce"))
    monkeypatch.delitem(sys.modules, "inspect_bias", raising=False)
    from inspect_bias import inspect_bias  # noqa: PLC0415

    rng = np.random.default_rng(0)
    toxic, gay = rng.random(N) < 0.4, rng.random(N) < 0.5
    scores = np.round(np.clip(0.4 * toxic + 0.2 * gay + 0.6 * rng.random(N), 0, 1), 3)
    samples = [
        {
            "id": f"c{at}",
            "input": f"comment {at}",
            "target": "toxic" if toxic[at] else "harmless",
            "metadata": {"gay": int(gay[at]), "muslim": 0, "label": int(toxic[at])},
        }
        for at in range(N)
    ]
    (tmp_path / "comments.jsonl").write_text("\n".join(map(json.dumps, samples)), "utf-8")
    answers = [ModelOutput.from_content("mockllm/model", f"{one}") for one in scores]
    for one in answers:  # otherwise it counts tokens by a table from the network
        one.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    [found] = inspect_ai.eval(
        inspect_bias(dataset=str(tmp_path / "comments.jsonl")),
        model=get_model("mockllm/model", custom_outputs=answers),
        log_dir=str(tmp_path / "logs"),
        log_format="json",
        display="none",
        max_samples=1,
    )
    assert found.status == "success"
    [file] = (tmp_path / "logs").glob("*.json")
    return found, file, toxic, scores, gay


def test_the_metrics_in_the_log_are_those_of_the_library(log):
    found, _, toxic, scores, gay = log
    [by_name] = [one.metrics for one in found.results.scores]
    expected = evaluate_bias(toxic, scores, {"gay": gay}).subgroups["gay"]
    for name in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
        value = getattr(expected, name)
        assert by_name[f"{name}_gay"].value == pytest.approx(value.value)
        assert by_name[f"{name}_gay_low"].value == pytest.approx(value.low)
    assert "subgroup_auc_muslim" not in by_name


def test_the_log_is_a_candidate_and_its_samples_are_a_set(log):
    from biasgate.tasks.data.table import TableSource  # noqa: PLC0415
    from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES  # noqa: PLC0415

    _, file, toxic, scores, gay = log
    options = {"name": "run", "kind": "inspect_log", "path": file, "scorer": "toxicity"}
    read = CANDIDATES.validate_python(options).scores()
    assert read.loc[[f"c{at}" for at in range(N)]].tolist() == scores.tolist()
    source = TableSource.model_validate(
        {
            "name": "rows",
            "source": "table",
            "path": file,
            "label": "metadata.label",
            "identities": {"gay": "metadata.gay"},
        }
    )
    [rows] = source.chunks()
    at = [int(one.removeprefix("c")) for one in rows["id"].to_pylist()]  # in the log's own order
    assert sorted(at) == list(range(N))
    assert rows["label"].to_pylist() == toxic[at].astype(float).tolist()
    assert rows["identity/gay"].to_pylist() == gay[at].astype(float).tolist()
