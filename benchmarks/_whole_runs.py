"""Runs of several checkouts with the same inputs, in turn, for `same_numbers`.

Inputs are small, and generated from fixed seeds. They are the demo, two nights of a set with 24
identities, clusters, weights and a slice, and counts of their scores. The scores of toxic-bert and
of Perspective are added if `BIASGATE_REAL_DATA` has them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from benchmarks._commands import THIS_TREE, run_command

IDENTITIES = [f"identity_{number:02d}" for number in range(24)]
SHARES = (0.15, 0.1, 0.06, 0.04, 0.02, 0.01)
ROWS, NIGHTS = 1_500, 2
REAL = {
    "toxic_bert": "toxic_bert_submission.csv",
    "perspective": "perspective_templates.parquet",
}
POLICY: dict[str, Any] = {
    "version": 1,
    "name": "own",
    "allow_first": True,
    "rules": [
        {"metric": "subgroup_auc", "scope": "each", "floor": 0.6, "margin": 0.05},
        {
            "metric": "bnsp_auc",
            "scope": "worst",
            "floor": 0.5,
            "mode": "estimate",
            "slice": "short",
        },
        {"metric": "final_score", "scope": "aggregate", "floor": 0.6},
    ],
}


NAMES = ("demo", *(f"night_{number + 1}" for number in range(NIGHTS)), "counts", *REAL)


class Command(NamedTuple):
    """A command of biasgate, and the name of its folder of results."""

    name: str
    arguments: list[str]


def run_trees(trees: dict[str, Path], folder: Path, only: Collection[str] = ()) -> list[Path]:
    """Run all commands with every tree; return the folders of results."""
    for name, tree in trees.items():
        work = folder / f"work of {name}"
        for command in _iter_commands(work):
            if only and command.name not in only:
                continue
            results = work / "results" / command.name
            arguments = (*command.arguments, "--output", str(results))
            variables = {
                "XDG_CONFIG_HOME": str(work / "config"),
                "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
            }
            ran = run_command(work, *arguments, environment=variables, codes=(0, 3, 4), tree=tree)
            kept = folder / name / command.name
            shutil.copytree(results, kept, ignore=shutil.ignore_patterns("store"))
            (kept / "exit_code.json").write_text(json.dumps({"exit_code": ran.exit_code}), "utf-8")
            print(
                f"{name} ({tree}): {command.name}: exit code {ran.exit_code}, {ran.seconds:.0f} s",
                flush=True,
            )
    return [folder / name for name in trees]


def _iter_commands(work: Path) -> Iterator[Command]:
    """Write the inputs of a command and yield it, one command after the other."""
    work.mkdir(parents=True)
    yield Command("demo", ["demo"])
    for night in range(NIGHTS):
        write_night(work, night)
        yield Command(f"night_{night + 1}", ["nightly", "many.yaml"])
    write_shards(work)
    yield Command("counts", ["evaluate", "counts.yaml"])
    data = Path(os.environ.get("BIASGATE_REAL_DATA", ""))
    for name, file in REAL.items():
        if (data / file).is_file():
            path = THIS_TREE / "docs" / "reproduce" / f"{name}.yaml"
            yield Command(name, ["evaluate", str(path)])
        else:
            print(f"{name}: left out, BIASGATE_REAL_DATA names no folder with {file}")


def write_night(work: Path, night: int) -> None:
    """Write the rows of a night, the scores of two models, the evaluation file and the policy."""
    rows, scores = generate_night(night)
    rows.to_csv(work / "rows.csv", index=False)
    for name, model_scores in scores.items():
        pd.DataFrame({"id": rows["id"], "score": model_scores}).to_csv(
            work / f"{name}.csv", index=False
        )
    source = {"source": "table", "path": "rows.csv", "identities": IDENTITIES}
    source |= {"name": "many", "cluster": "thread", "weight": "weight", "slices": ["short"]}
    new, old = (
        {"name": name, "kind": "scores", "path": f"{name}.csv", "score": "score"} for name in scores
    )
    content = {"name": "many", "evaluation_sets": [source], "policy": "own.yaml"}
    content |= {"candidates": [new], "champion": old}
    (work / "own.yaml").write_text(yaml.safe_dump(POLICY), "utf-8")
    (work / "many.yaml").write_text(yaml.safe_dump(content), "utf-8")


def write_shards(work: Path) -> None:
    """Write two nights as shards with the scores of two models, and the file that counts them."""
    (work / "shards").mkdir()
    for night in range(NIGHTS):
        rows, scores = generate_night(night)
        columns = rows[["id", "label", *IDENTITIES]].assign(**scores)
        columns.to_csv(work / "shards" / f"{night}.csv", index=False)
    content = {"name": "counts", "source": "shards", "path": "shards/*.csv", "policy": "whole.yaml"}
    content |= {"identities": IDENTITIES}
    content |= {
        role: {"name": name, "score": name, "threshold": 0.5}
        for role, name in (("candidate", "new"), ("champion", "old"))
    }
    rules = [rule for rule in POLICY["rules"] if "slice" not in rule]
    rules.append({"metric": "fpr_gap", "scope": "each", "threshold": "given", "ceiling": 0.3})
    (work / "whole.yaml").write_text(yaml.safe_dump({**POLICY, "rules": rules}), "utf-8")
    (work / "counts.yaml").write_text(yaml.safe_dump(content), "utf-8")


def generate_night(night: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return rows with clusters, weights and a slice, and scores of two models.

    The scores are too high for every fourth identity.
    """
    rng = np.random.default_rng(night)
    is_toxic = rng.random(ROWS) < 0.15
    logit = rng.normal(0, 1, ROWS) + 1.6 * is_toxic - 1
    columns: dict[str, Any] = {"id": [f"{night}-{row}" for row in range(ROWS)]}
    columns["label"] = is_toxic.astype(int)
    for number, name in enumerate(IDENTITIES):
        columns[name] = (rng.random(ROWS) < SHARES[number % len(SHARES)]).astype(int)
        logit += 0.3 * columns[name] * (rng.random(ROWS) < 0.4) * (number % 4 == 0)
    columns["thread"] = rng.integers(0, ROWS // 3, ROWS)
    columns["short"] = (rng.random(ROWS) < 0.4).astype(int)
    columns["weight"] = rng.uniform(0.5, 3, ROWS)
    noise = {"new": 0.3, "old": 0.35}
    scores = {
        name: 1 / (1 + np.exp(-logit - rng.normal(0, scale, ROWS))) for name, scale in noise.items()
    }
    return pd.DataFrame(columns), scores
