"""Verdicts on counts agree with those on rows: a check decided by counts is decided by rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from support.judged import judge

from bias_metrics.metrics import AEGS
from biasgate.tasks.counting.results import judge_counts
from biasgate.tasks.counting.settings import read_count_file
from biasgate.tasks.counting.shards import add_shard, count_shard
from biasgate.tasks.gating.policy import SHIPPED

N, AT = 6_000, 0.5
NAMES = {"muslim": 0.15, "black": 0.06, "female": 0.3}
KEY = ("rule", "metric", "kind", "group")
RATES = (
    {"metric": "fpr_gap", "scope": "each", "ceiling": 0.15, "threshold": "given"},
    {"metric": "fnr_gap", "scope": "each", "margin": 0.08, "threshold": "given"},
    {"metric": "fpr_gap", "scope": "each", "margin": 0.1, "threshold": "equal_errors"},
    {"metric": "bnsp_auc", "scope": "each", "floor": 0.9, "mode": "estimate"},
    {"metric": "calibration_gap", "scope": "each", "ceiling": 0.04},
)
QUICK = {("strict", "harmless"), *(("rates", plant) for plant in ("none", "toxic", "harmless"))}
OUTCOMES = {
    ("default", "none"): "pass",
    ("no-worse", "none"): "pass",
    ("strict", "none"): "pass",
    ("strict", "slight"): "insufficient",
    **dict.fromkeys([(policy, "both") for policy in ("default", "no-worse", "strict")], "fail"),
}


def rows(plant):
    """Rows of which harmless or toxic mentions of one identity are shifted."""
    rng = np.random.default_rng(5)
    label = rng.random(N) < 0.3
    groups = {name: rng.random(N) < share for name, share in NAMES.items()}
    rng.integers(0, 700, N)  # the draws of rows whose outcomes are known
    base = 3 * label - 2 + rng.standard_normal(N)
    old, new = (base + 0.3 * rng.standard_normal(N) for _ in range(2))
    if plant in {"harmless", "both"}:
        new += 0.9 * (groups["black"] & ~label)
    if plant in {"toxic", "both"}:
        new -= 0.9 * (groups["black"] & label)
    if plant == "slight":
        new += 0.25 * groups["black"]
    scores = {"candidate": new, "champion": old}
    columns = {"id": pa.array([str(number) for number in range(N)]), "label": label}
    columns |= {f"identity/{name}": mask for name, mask in groups.items()}
    return columns | {f"score/{role}": 1 / (1 + np.exp(-score)) for role, score in scores.items()}


def by_counts(columns, content):
    """Count the same rows in three shards, and judge."""
    table = pd.DataFrame({name.replace("/", "_"): column for name, column in columns.items()})
    for number, part in enumerate(np.array_split(np.arange(N), 3)):
        table.iloc[part].astype({"label": float}).to_parquet(f"shard-{number}.parquet")
    Path("own.yaml").write_text(yaml.safe_dump(content))
    count_file = {
        "name": "s",
        "source": "shards",
        "path": "shard-*.parquet",
        "label": "label",
        "identities": {name: f"identity_{name}" for name in NAMES},
        **{
            role: {"name": role, "score": f"score_{role}", "threshold": AT}
            for role in ("candidate", "champion")
        },
        "policy": "own.yaml",
    }
    Path("counts.yaml").write_text(yaml.safe_dump(count_file))
    settings, policy = read_count_file(Path("counts.yaml"))
    total = None
    for shard in settings.list_shards():
        total = add_shard(
            total, count_shard.fn(settings, shard, "out/counts", send=False), "out/counts"
        )
    return judge_counts.fn(total, settings, policy, "out")


def outcomes(verdict):
    return {
        tuple(getattr(result, key) for key in KEY): result.outcome for result in verdict.results
    }


CASES = [
    pytest.param(policy, plant, marks=[] if (policy, plant) in QUICK else [pytest.mark.slow])
    for policy in ("default", "no-worse", "strict", "rates")
    for plant in ("none", "slight", "harmless", "toxic", "both")
]


@pytest.mark.parametrize(("policy", "plant"), CASES)
def test_each_check_has_the_outcome_that_it_has_by_rows(tmp_path, monkeypatch, policy, plant):
    """Bounds of aggregates, of changes of gaps, and of losses are wider with counts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    columns = rows(plant)
    if policy == "rates":
        content = {"version": 1, "name": "rates", "allow_first": True, "rules": list(RATES)}
    else:
        content = yaml.safe_load((SHIPPED / f"{policy}.yaml").read_text())
    counted = by_counts(columns, content)
    options = {
        key: value for key, value in content.items() if key not in {"version", "name", "rules"}
    }
    judged = {"rules": tuple(content["rules"]), "threshold": AT, **options}
    _, exact, _ = judge(tmp_path / "exact", columns, **judged)
    expected = OUTCOMES.get((policy, plant), exact.outcome)
    assert exact.outcome == expected
    assert counted.outcome in {expected, "insufficient"}
    own, real = outcomes(counted), outcomes(exact)
    for key in own.keys() | real.keys():
        rule, metric, _, group = key
        if rule == "shown_harm" and group is not None:
            assert real.get(key) == "fail"
            assert own.get(key) in {None, "fail"}
        elif metric == "final_score" or (metric in AEGS and key[2] == "champion"):
            assert own[key] in {"insufficient", real[key]}
        else:
            assert own[key] == real[key], key
